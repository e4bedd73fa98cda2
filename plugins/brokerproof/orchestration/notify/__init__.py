"""Notifications about a run's result, through the notifiers of Airflow's providers.

`dag_building` may import this package; `commands` may import only `rules`. Inside it, only `notifier` imports Airflow.
It must not change a verdict.
"""
