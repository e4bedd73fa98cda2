"""The results of runs: the outcome of one run, the history of all runs, and comparisons of runs.

This package reads the records and tables of a run, writes the outcome and the history, and deletes old runs. It must
not know Airflow, Spark or a messaging system. `orchestration`, `commands` and `reports` may import it.
"""
