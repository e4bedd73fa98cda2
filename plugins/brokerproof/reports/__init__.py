"""Reports about one run and about all runs, as pages, files, metrics and text on a terminal.

`orchestration` and `commands` may import it. It reads runs and the history and changes neither. It must not know
Airflow, Spark or a messaging system. Airflow serves the pages; the page in a run's directory needs no server.
"""
