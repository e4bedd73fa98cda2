"""A run's id, from Airflow's."""

from __future__ import annotations

import re
from datetime import datetime


def new_run_id(scenario: str, at: datetime, suffix: str) -> str:
    """The id of a run that is started now; `suffix` tells apart those of one second."""
    return f"{scenario}-{at:%Y%m%dT%H%M%SZ}-{suffix}"


def run_id_of(scenario: str, dag_run_id: str, try_number: int = 1) -> str:
    """The run's id of a DAG run: unique over all scenarios, and good as a directory's name.

    Airflow's own ids hold `:` and `+`, which Hadoop's paths cannot. A run that is cleared and run again (`try_number`)
    gets a directory of its own, because evidence is never written over.
    """
    safe = re.sub(r"[^A-Za-z0-9_-]+", "", dag_run_id.replace(":", ""))
    name = safe if safe.startswith(scenario) else f"{scenario}-{safe}"
    return name if try_number == 1 else f"{name}-{try_number}"
