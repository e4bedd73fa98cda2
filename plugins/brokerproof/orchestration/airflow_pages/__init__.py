"""Brokerproof's pages in Airflow's UI.

Airflow's plugin may import this package; `dag_building` may import only `page_addresses`. The package may import
Airflow. It changes no data.
"""
