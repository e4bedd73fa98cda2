"""The clients under test: producers and consumers. A Spark task starts each client as a process of its own.

Each client records what it does in files that outlive the process and the task. The Spark jobs and the package
`brokerproof_judging` import this package. It must not know Spark, Airflow or a fault.
"""
