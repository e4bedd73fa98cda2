"""How Spark jobs are submitted: their configuration, temporary files and faster start. Also runs Spark clusters.

`orchestration` and `commands` may import this package. It must not import PySpark, which only the jobs import.
"""
