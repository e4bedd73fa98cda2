"""Thin Airflow operators over the core."""
