"""Reports: what people read of a run and of all runs, as pages, files and metrics.

`orchestration` and `commands` may import it. It reads runs and the history and changes neither, and it must not know
Airflow, Spark or a messaging system: Airflow serves its pages, and a run's own file needs nobody who serves it.
"""
