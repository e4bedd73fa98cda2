"""Reports about one run and about all runs, as pages, files, metrics and text on a terminal.

`orchestration` and `commands` may import the package. It reads runs and the history, and changes neither. The only
exception: `exports.py` writes the page and the picture of a run into the run's directory. The package must not know
Airflow, Spark or a messaging system. Airflow serves the pages; the page in a run's directory needs no server.
"""
