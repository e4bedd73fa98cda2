"""Runs as Airflow's DAG runs: how they are built, started, followed, shown and reported to people.

Only the DAG files, Airflow's plugin and `commands` may import it. It must not know a messaging system. Each package
below says whether it may import Airflow. Two modules are for all of them: `dag_run` and `steps`.
"""
