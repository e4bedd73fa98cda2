"""Follows a run for a terminal, from the trigger to the outcome, through Airflow's REST API.

`commands` and `embedded` may import this package. It must not import Airflow or know how Airflow was started.
"""
