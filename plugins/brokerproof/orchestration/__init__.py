"""All code that knows Airflow: DAGs, operators, the form, the embedded Airflow, its client, the progress of a run.

Only the DAG files and `commands` may import it. It must not know a messaging system.
"""
