"""The import error in Airflow that names each unusable file or directory of scenarios, topologies and suites."""

from __future__ import annotations

from collections.abc import Iterable

from airflow.sdk import DAG

from brokerproof.errors import InputError


class UnusableScenarios(DAG):
    """A DAG whose validation always fails, with the errors of the unusable files.

    Airflow validates DAGs one by one and lists a failure as an import error of the DAG file. So the other DAGs still
    work. An exception at the top level of a DAG file would disable all DAGs of that file.
    """

    def __init__(self, errors: Iterable[InputError]) -> None:
        super().__init__(dag_id="unusable_scenarios", schedule=None)
        self._sentences = list(dict.fromkeys(map(str, errors)))

    def validate(self) -> None:
        """Raises InputError with a line for each mistake."""
        raise InputError("\n".join(self._sentences))
