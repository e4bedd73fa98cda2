"""The Airflow DAG that removes old rows of Airflow's database and old logs."""

from airflow.sdk import DAG
from brokerproof.orchestration.dag_building.clean_up import build_clean_up_dag

clean_up: DAG = build_clean_up_dag()
