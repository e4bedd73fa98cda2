"""The kinds of fault, which act on nodes and on the network, and the timeline that injects and heals them.

`lifecycle`, `checks`, `run_warnings`, `results` and the Spark jobs may import this package. The package tests whether a
system or runtime has an ability, never which class it is. It must not know Airflow or Spark.
"""
