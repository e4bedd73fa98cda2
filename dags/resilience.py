"""One Airflow DAG for each scenario file."""

from pathlib import Path

from airflow.sdk import DAG  # noqa: F401  (Airflow reads only files that mention both words)
from brokerproof.errors import InputError
from brokerproof.operators.scenario_dag import UnusableScenarios, scenario_dag
from brokerproof.scenario import load_scenario
from brokerproof.settings import from_environment

settings = from_environment()
unusable: dict[Path, InputError] = {}
for file in settings.scenario_files():
    try:
        scenario, topology = load_scenario(file, settings.topologies)
        globals()[scenario.name] = scenario_dag(scenario, topology, expectations=settings.expectations)
    except InputError as error:
        unusable[file] = error
if unusable:
    unusable_scenarios = UnusableScenarios(unusable)
