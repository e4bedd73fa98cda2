"""Builds, starts, follows and shows runs as Airflow's DAG runs, and notifies people of their results.

Only the DAG files, Airflow's plugin and `commands` may import this package. It must not know a messaging system. Each
package below says whether it may import Airflow. Each of them may use the modules `dag_run` and `steps`.
"""
