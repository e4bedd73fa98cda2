"""Starts, describes and stops the embedded Airflow, with its environment and its processes.

`commands` may import this package. It starts Airflow's programs, but must not import Airflow, because the import takes
seconds. It must not know which DAGs exist.
"""
