"""How Spark jobs are submitted: their configuration, temporary files and faster start, and processes of a cluster.

`orchestration` and `commands` may import this package. It must not import PySpark, which only the jobs import.
"""
