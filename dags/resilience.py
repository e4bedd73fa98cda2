"""One Airflow DAG for each scenario file that can be used."""

from contextlib import suppress

from airflow.sdk import DAG, get_parsing_context
from brokerproof.errors import InputError
from brokerproof.orchestration.dag_building.scenario_dag import load_scenario_dag
from brokerproof.settings import from_environment

settings = from_environment()
# Every task parses this file, and a task needs only its own DAG.
wanted = get_parsing_context().dag_id
# Airflow looks for DAGs in a file's global variables. No other variable here has a name like `dag of …`.
dags: dict[str, DAG] = {}
for file in settings.scenario_files():
    if wanted not in (None, file.stem):
        continue
    # unusable_scenarios.py reports the error. An exception here would disable all DAGs of this file in Airflow.
    with suppress(InputError):
        dags[f"dag of {file.stem}"] = load_scenario_dag(file, settings)
globals().update(dags)
