"""Brokerproof's pages in Airflow's UI.

Brokerproof's Airflow plugin may import this package; `dag_building` may import only the module `page_addresses`. The
package may import Airflow. It changes no data.
"""
