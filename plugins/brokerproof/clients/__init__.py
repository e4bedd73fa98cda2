"""The clients under test: each is a process of its own below its Spark task, with a record that outlives both.

The jobs of Spark and `verify` use this package. It must not know Spark, Airflow or a fault.
"""
