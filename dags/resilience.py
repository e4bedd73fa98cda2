"""One Airflow DAG for each scenario file."""

from pathlib import Path

from airflow.sdk import get_parsing_context
from brokerproof.checks import load_scenario
from brokerproof.errors import InputError
from brokerproof.orchestration.scenario_dag import build_scenario_dag
from brokerproof.orchestration.unusable_scenarios import UnusableScenarios
from brokerproof.settings import from_environment

settings = from_environment()
# Every task parses this file, and a task needs only its own DAG.
wanted = get_parsing_context().dag_id
unusable: dict[Path, InputError] = {}
for file in settings.scenario_files():
    if wanted not in (None, file.stem):
        continue
    try:
        scenario, topology = load_scenario(file, settings.topologies)
        globals()[scenario.name] = build_scenario_dag(scenario, topology, expectations=settings.expectations)
    except InputError as error:
        unusable[file] = error
if unusable:
    unusable_scenarios = UnusableScenarios(unusable)
