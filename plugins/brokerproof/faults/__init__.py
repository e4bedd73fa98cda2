"""The kinds of fault, which act on nodes and on the network, and the timeline that injects and heals them.

`lifecycle`, `checks`, `run_warnings`, `results` and the Spark jobs may import this package. It asks systems and
runtimes for abilities, never for a class, and it must not know Airflow or Spark.
"""
