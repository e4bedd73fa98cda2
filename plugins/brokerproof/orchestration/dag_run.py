"""The ids of runs, and the names of DAG parameters and XComs. DAGs and the programs that follow DAG runs share them."""

from __future__ import annotations

import re
from datetime import datetime

# The parameter of every scenario's DAG: the values that are changed for a run, by dotted path.
SETTINGS = "settings"
# The key of the XCom with a failed task's sentence. It is read if the run's directory has no sentence.
PROBLEM = "problem"


def make_run_id(scenario: str, at: datetime, suffix: str) -> str:
    """Return the id of a run that starts at the UTC time `at`. Runs of the same second need different suffixes."""
    return f"{scenario}-{at:%Y%m%dT%H%M%SZ}-{suffix}"


def derive_run_id(scenario: str, dag_run_id: str, try_number: int = 1) -> str:
    """Return Brokerproof's id for a try of a DAG run. The id begins with the scenario and names the run's directory.

    Airflow's ids contain `:` and `+`, which Hadoop's paths do not allow, so such characters are left out. When a user
    clears a DAG run, Airflow runs it again with a higher `try_number`. Each try has its own id and directory, because
    no run overwrites evidence.
    """
    safe = re.sub(r"[^A-Za-z0-9_-]+", "", dag_run_id.replace(":", ""))
    name = safe if safe.startswith(scenario) else f"{scenario}-{safe}"
    return name if try_number == 1 else f"{name}-{try_number}"


def belongs_to(run_id: str, scenario: str, dag_run_id: str) -> bool:
    """Whether `run_id` is the id that `derive_run_id` gives to any try of this DAG run."""
    return re.fullmatch(re.escape(derive_run_id(scenario, dag_run_id)) + r"(-([2-9]|[1-9]\d+))?", run_id) is not None
