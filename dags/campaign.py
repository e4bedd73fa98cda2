"""The Airflow DAG that runs many scenarios, one after the other."""

from airflow.sdk import DAG
from brokerproof.orchestration.dag_building.campaign import build_campaign_dag
from brokerproof.settings import from_environment

campaign: DAG = build_campaign_dag([file.stem for file in from_environment().scenario_files()])
