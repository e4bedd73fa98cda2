"""The clients under test: each is a process of its own below its Spark task, with a record that outlives all of them.

The jobs of Spark and `verify` use it. It must not know Spark, Airflow or a fault.
"""
