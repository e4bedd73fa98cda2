"""Removes old rows of Airflow's database and old logs.

The task `clean_up` starts it as a process, `python -m THIS_MODULE DAYS`.
"""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.configuration import conf
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.utils.db_cleanup import run_cleanup
from airflow.utils.session import create_session
from airflow.utils.state import State
from sqlalchemy import select

# Rows that one transaction removes, so that Airflow never waits long for a lock.
_BATCH = 10_000
# Below Airflow's folder of logs, the folders that Airflow itself fills; an embedded Airflow has files beside them.
_FOLDERS = ("dag_id=*", "dag_processor")


def find_boundary(days: int) -> datetime:
    """Return the time `days` days ago, or the first start of a task of an unfinished run if that is earlier.

    A run that was cleared to be judged again has new tasks beside tasks of long ago, whose results it still needs.
    """
    boundary = datetime.now(UTC) - timedelta(days=days)
    unfinished = DagRun.state.in_(State.unfinished_dr_states)
    of_runs = select(DagRun.start_date.label("at"), DagRun.dag_id, DagRun.run_id).where(unfinished)
    of_tasks = (
        select(TaskInstance.start_date.label("at"), DagRun.dag_id, DagRun.run_id)
        .join(TaskInstance.dag_run)
        .where(unfinished)
    )
    starts = of_runs.union_all(of_tasks).subquery()
    with create_session() as session:
        first = session.execute(select(starts).where(starts.c.at < boundary).order_by(starts.c.at)).first()
    if first is None:
        return boundary
    print(f"Run {first.run_id} of {first.dag_id} is not finished, so all since {first.at:%Y-%m-%d %H:%M} UTC stays.")
    return first.at


def remove_old_logs(folder: Path, before: datetime) -> int:
    """Remove log files that were last written before a time, and empty folders as old; return the number of files."""
    removed = 0
    limit = before.timestamp()
    roots = [root for pattern in _FOLDERS for root in folder.glob(pattern) if not root.is_symlink()]
    # The age of a folder is read before its files go, because that changes it.
    walked = [(Path(place), Path(place).stat().st_mtime, files) for root in roots for place, _, files in os.walk(root)]
    for place, changed_at, files in reversed(walked):
        for file in map(place.joinpath, files):
            if not file.is_symlink() and file.stat().st_mtime < limit:
                file.unlink()
                removed += 1
        if changed_at < limit and not any(place.iterdir()):
            place.rmdir()
    return removed


def main() -> None:
    before = find_boundary(int(sys.argv[1]))
    run_cleanup(
        clean_before_timestamp=before,
        confirm=False,
        skip_archive=True,
        batch_size=_BATCH,
        error_on_cleanup_failure=True,
    )
    removed = remove_old_logs(Path(conf.get_mandatory_value("logging", "base_log_folder")), before)
    print(f"Removed {removed} logs and the rows of Airflow's database from before {before:%Y-%m-%d %H:%M} UTC.")


if __name__ == "__main__":
    main()
