"""Lists the unusable files of scenarios, topologies and suites as an import error in Airflow."""

from airflow.sdk import DAG
from brokerproof.checks import list_suite_problems
from brokerproof.errors import InputError
from brokerproof.orchestration.scenario_dag import load_scenario_dag
from brokerproof.orchestration.unusable_scenarios import UnusableScenarios
from brokerproof.settings import from_environment

settings = from_environment()
unusable: list[InputError] = [
    *settings.scenarios.list_problems(),
    *settings.topologies.list_problems(),
    *list_suite_problems(settings.expectations),
]
for file in settings.scenario_files():
    try:
        load_scenario_dag(file, settings)
    except InputError as error:
        unusable.append(error)
if unusable:
    unusable_scenarios: DAG = UnusableScenarios(unusable)
