"""The import error in Airflow that names the scenario files which cannot be used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from airflow.sdk import DAG

from brokerproof.errors import InputError


class UnusableScenarios(DAG):
    """A DAG that never validates, in the place of the scenario files that cannot be used.

    Airflow validates DAGs one by one and lists a failure as an import error of the DAG file. So these files take no
    other DAG down, as an exception at the top level of the DAG file would.
    """

    def __init__(self, errors: Mapping[Path, InputError]) -> None:
        super().__init__(dag_id="unusable_scenarios", schedule=None)
        self._errors = dict(errors)

    def validate(self) -> None:
        """Raises InputError with a line for each file."""
        raise InputError("\n".join(str(error) for error in self._errors.values()))
