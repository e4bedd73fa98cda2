"""Lists the unusable files of scenarios, topologies and suites as an import error in Airflow."""

from collections.abc import Iterable

from airflow.sdk import DAG
from brokerproof.checks import list_suite_problems
from brokerproof.errors import InputError, list_sentences
from brokerproof.orchestration.dag_building.scenario_dag import load_scenario_dag
from brokerproof.settings import from_environment


class UnusableScenarios(DAG):
    """A DAG whose validation fails with the errors of all scenario, topology and suite files that cannot be used.

    Airflow lists the error of a DAG's validation without a traceback, unlike an error that the DAG file itself raises.
    """

    def __init__(self, errors: Iterable[InputError]) -> None:
        super().__init__(dag_id="unusable_scenarios", schedule=None)
        self._sentences = list_sentences(errors)

    def validate(self) -> None:
        """Raises InputError with a line for each mistake in an unusable file."""
        raise InputError("\n".join(self._sentences))


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
