"""A run as a terminal follows it, from the trigger to the outcome, through Airflow's REST API.

`commands` and `embedded` may import it. It must not import Airflow, and must not know where Airflow runs.
"""
