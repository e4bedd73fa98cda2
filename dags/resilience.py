"""One Airflow DAG for each scenario file that can be used."""

from contextlib import suppress

from airflow.sdk import DAG, get_parsing_context
from brokerproof.errors import InputError
from brokerproof.orchestration.scenario_dag import load_scenario_dag
from brokerproof.settings import from_environment

settings = from_environment()
# Every task parses this file, and a task needs only its own DAG.
wanted = get_parsing_context().dag_id
# Airflow finds the DAGs of a file among its global variables. None of these names is a scenario's.
dags: dict[str, DAG] = {}
for file in settings.scenario_files():
    if wanted not in (None, file.stem):
        continue
    # unusable_scenarios.py says what is wrong: an error here would keep Airflow from running any DAG of this file.
    with suppress(InputError):
        dags[f"dag of {file.stem}"] = load_scenario_dag(file, settings)
globals().update(dags)
