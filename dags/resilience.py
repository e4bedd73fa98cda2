"""One Airflow DAG for each scenario file that can be used."""

from contextlib import suppress

from airflow.sdk import get_parsing_context
from brokerproof.checks import load_scenario
from brokerproof.errors import InputError
from brokerproof.orchestration.scenario_dag import build_scenario_dag
from brokerproof.settings import from_environment

settings = from_environment()
# Every task parses this file, and a task needs only its own DAG.
wanted = get_parsing_context().dag_id
for file in settings.scenario_files():
    if wanted not in (None, file.stem):
        continue
    # unusable_scenarios.py says what is wrong: an error here would keep Airflow from running any DAG of this file.
    with suppress(InputError):
        scenario, topology = load_scenario(file, settings.topologies)
        globals()[scenario.name] = build_scenario_dag(scenario, topology, expectations=settings.expectations)
