"""Notifications about a run's result, through the notifiers of Airflow's providers.

`dag_building` may import this package; `commands` may import only the module `rules`. Only the module `notifier`
imports Airflow. The package must not change a verdict.
"""
