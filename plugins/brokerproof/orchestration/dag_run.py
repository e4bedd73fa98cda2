"""The ids of runs, and the names of DAG parameters and XComs. DAGs and the programs that follow DAG runs share them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from datetime import datetime

# A parameter of every scenario's DAG: the values that are changed for a run, by dotted path.
SETTINGS = "settings"
# The parameter with the `ClusterChoice` of a run.
CLUSTER = "cluster"
# The key of the XCom with a failed task's sentence. It is read if the run's directory has no sentence.
PROBLEM = "problem"

# An id that Airflow makes, such as `manual__2026-11-21T01:34:39.5+00:00_aB3`.
_AIRFLOW_ID = re.compile(r"[a-z_]+__\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00(_\w+)?", re.ASCII)


def make_run_id(scenario: str, at: datetime, suffix: str) -> str:
    """Return the id of a run that starts at the UTC time `at`. Runs of the same second need different suffixes."""
    return f"{scenario}-{at:%Y%m%dT%H%M%SZ}-{suffix}"


def derive_run_id(scenario: str, dag_run_id: str, try_number: int = 1) -> str:
    """Return the run id for one try of a DAG run. It begins with the scenario's name, and names the run's directory.

    `dag_run_id` is Airflow's id. Its characters that Hadoop's paths do not allow, such as `:` and `+`, are left out. If
    a user chose this id, a digest is then appended, so that `a:b` and `ab` stay different.

    If a user clears a DAG run, Airflow repeats it with a higher `try_number`. Each try has its own id and directory, so
    no try overwrites the evidence of another.
    """
    name = _name_dag_run(scenario, dag_run_id)
    return name if try_number == 1 else f"{name}-{try_number}"


def _name_dag_run(scenario: str, dag_run_id: str) -> str:
    safe = re.sub(r"[^A-Za-z0-9_-]+", "", dag_run_id)
    if safe != dag_run_id and not _AIRFLOW_ID.fullmatch(dag_run_id):
        safe += f"-h{hashlib.sha256(dag_run_id.encode()).hexdigest()[:8]}"
    return safe if safe.startswith(f"{scenario}-") else f"{scenario}-{safe}"


def find_try_number(run_id: str, scenario: str, dag_run_id: str) -> int | None:
    """Return which try of this DAG run has the id `run_id`, or None if `run_id` belongs to another DAG run."""
    found = re.fullmatch(rf"{re.escape(_name_dag_run(scenario, dag_run_id))}(-(?P<number>[2-9]|[1-9]\d+))?", run_id)
    return int(found["number"] or 1) if found else None


def find_newest_try(run_ids: Iterable[str], scenario: str, dag_run_id: str) -> str | None:
    """Return the id in `run_ids` of the newest try of this DAG run, or None if no id belongs to this DAG run."""
    numbers = ((find_try_number(run_id, scenario, dag_run_id), run_id) for run_id in run_ids)
    tries = [(number, run_id) for number, run_id in numbers if number is not None]
    return max(tries)[1] if tries else None


def belongs_to(run_id: str, scenario: str, dag_run_id: str) -> bool:
    """Return whether `run_id` is the id that `derive_run_id` gives to any try of this DAG run."""
    return find_try_number(run_id, scenario, dag_run_id) is not None
