"""The import error in Airflow that names the scenario files which cannot be used, with their directories."""

from __future__ import annotations

from collections.abc import Iterable

from airflow.sdk import DAG

from brokerproof.errors import InputError


class UnusableScenarios(DAG):
    """A DAG that never validates, in the place of the scenario files that cannot be used.

    Airflow validates DAGs one by one and lists a failure as an import error of the DAG file. So these files take no
    other DAG down, as an exception at the top level of the DAG file would.
    """

    def __init__(self, errors: Iterable[InputError]) -> None:
        super().__init__(dag_id="unusable_scenarios", schedule=None)
        self._sentences = list(dict.fromkeys(map(str, errors)))

    def validate(self) -> None:
        """Raises InputError with a line for each mistake."""
        raise InputError("\n".join(self._sentences))
