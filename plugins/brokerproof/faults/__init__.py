"""What a scenario does to nodes and to the network, and the timeline on which it does so.

`lifecycle`, `checks`, `results` and judging may import it. It asks systems and runtimes for abilities, never for a
class, and it must not know Airflow or Spark.
"""
