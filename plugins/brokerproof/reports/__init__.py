"""Reports about one run and about all runs, as pages, files, metrics and text on a terminal.

`orchestration` and `commands` may import the package. It must not know Airflow, Spark or a messaging system. It reads
runs and the history (the database of recorded runs), and changes neither. The only exception: `exports.py` writes a
page, which needs no server, and a picture into a run's directory.
"""
