"""The clients under test: producers and consumers. A Spark task starts each client as a process of its own.

A client's record outlives the process and the task. The Spark jobs and `brokerproof_judging` import this package. The
package must not know Spark, Airflow or a fault.
"""
