"""Brokerproof's pages in Airflow's UI.

Airflow's plugin may import it, and `dag_building` the pages' addresses. It imports Airflow, and changes no data.
"""
