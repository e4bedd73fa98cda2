"""Notifications about a run's result, through the notifiers of Airflow's providers.

`dag_building` may import it, and `commands` only the rules. Only `notifier` imports Airflow. It must not change a
verdict.
"""
