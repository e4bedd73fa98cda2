"""Reports about one run and about all runs, as pages, files, metrics and text on a terminal.

`orchestration` and `commands` may import it. It reads runs and the history. It changes neither, except that
`exports.py` writes the page and the picture of a run into the run's directory. It must not know Airflow, Spark or a
messaging system. Airflow serves the pages; the page in a run's directory needs no server.
"""
