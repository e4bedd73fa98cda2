"""Connects Brokerproof with Airflow: DAGs, embedded Airflow, progress of runs, pages in Airflow's UI, notifications.

Only the DAG files, Brokerproof's Airflow plugin and `commands` may import this package. It must not know a messaging
system. The docstring of each subpackage says whether it may import Airflow. All subpackages may use the modules
`dag_run` and `steps`.
"""
