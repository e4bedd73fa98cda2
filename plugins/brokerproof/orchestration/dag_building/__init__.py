"""The DAGs and their operators: what Airflow parses, and what its tasks do.

Only the DAG files may import it. It imports Airflow, and must not know how Airflow was started or who follows the run.
"""
