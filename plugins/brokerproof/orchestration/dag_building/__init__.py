"""The DAGs that Airflow parses, and the operators of their tasks.

Only the DAG files may import this package. It imports Airflow. It must not know how Airflow was started or which
program shows a run's progress.
"""
