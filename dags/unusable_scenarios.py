"""Names the scenario files that cannot be used, as the import error of a DAG file of its own."""

from pathlib import Path

from airflow.sdk import DAG
from brokerproof.checks import load_scenario
from brokerproof.errors import InputError
from brokerproof.orchestration.unusable_scenarios import UnusableScenarios
from brokerproof.settings import from_environment

settings = from_environment()
unusable: dict[Path, InputError] = {}
for file in settings.scenario_files():
    try:
        load_scenario(file, settings.topologies)
    except InputError as error:
        unusable[file] = error
if unusable:
    unusable_scenarios: DAG = UnusableScenarios(unusable)
