"""The clients under test. Each is a process of its own, started by a Spark task, with a record that outlives both.

The Spark jobs and `brokerproof_judging` import this package. It must not know Spark, Airflow or a fault.
"""
