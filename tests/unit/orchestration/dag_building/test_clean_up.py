"""The task `clean_up` and what it removes of logs. tests/postgresql/test_people.py has the rows of a real database."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException
from brokerproof.orchestration.dag_building import clean_up
from brokerproof.orchestration.dag_building.clean_up import CleanUpOperator, build_clean_up_dag

NOW = datetime.now(UTC)
SENTENCE = "BROKERPROOF_KEEP_AIRFLOW_DAYS: `soon` is no number of days"


def write_old(file: Path, days: float, *, folders: int = 1) -> Path:
    """A file that was last written so many days ago, in folders of the same age."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("x")
    at = (NOW - timedelta(days=days)).timestamp()
    for path in (file, *list(file.parents)[:folders]):
        os.utime(path, (at, at))
    return file


def test_old_logs_go_with_their_folders_and_all_others_stay(tmp_path: Path) -> None:
    from brokerproof.orchestration.dag_building.cleaning import remove_old_logs

    old = write_old(tmp_path / "dag_id=a" / "run_id=1" / "task_id=t" / "attempt=1.log", 100, folders=2)
    parsed = write_old(tmp_path / "dag_processor" / "2026-01-01" / "dags" / "a.py.log", 100, folders=2)
    # Of another run of the same DAG, of an old run that was cleared, and of an embedded Airflow's own processes.
    young = write_old(tmp_path / "dag_id=a" / "run_id=2" / "task_id=t" / "attempt=1.log", 80)
    first = write_old(tmp_path / "dag_id=a" / "run_id=3" / "task_id=t" / "attempt=1.log", 100)
    again = write_old(tmp_path / "dag_id=a" / "run_id=3" / "task_id=t" / "attempt=2.log", 1)
    own = write_old(tmp_path / "scheduler.log", 100, folders=0)
    # A task has just made the folder, and writes its first line in a moment.
    (new := tmp_path / "dag_id=b" / "run_id=1" / "task_id=t").mkdir(parents=True)
    (tmp_path / "dag_processor" / "latest").symlink_to(parsed.parents[1])
    assert remove_old_logs(tmp_path, NOW - timedelta(days=90)) == 3
    assert not old.parents[1].exists()
    assert not parsed.parents[1].exists()
    assert not first.exists()
    assert young.exists()
    assert again.exists()
    assert own.exists()
    assert new.is_dir()


def test_a_link_leads_to_no_file_outside(tmp_path: Path) -> None:
    from brokerproof.orchestration.dag_building.cleaning import remove_old_logs

    outside = write_old(tmp_path / "outside" / "a.log", 100)
    logs = tmp_path / "logs"
    (logs / "dag_id=a").mkdir(parents=True)
    (logs / "dag_id=a" / "run_id=1").symlink_to(outside.parent)
    (logs / "dag_id=b").symlink_to(outside.parent)
    assert remove_old_logs(logs, NOW) == 0
    assert outside.exists()


def test_a_setting_that_cannot_be_used_is_one_sentence(context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKERPROOF_KEEP_AIRFLOW_DAYS", "soon")
    with pytest.raises(AirflowFailException, match=SENTENCE):
        CleanUpOperator(task_id="clean_up").execute(context)


def test_without_a_database_nothing_is_removed(context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_DATABASE_URL", raising=False)
    with pytest.raises(AirflowFailException, match="AIRFLOW_DATABASE_URL does not name Airflow's database"):
        CleanUpOperator(task_id="clean_up").execute(context)


def test_what_could_not_be_removed_fails_the_task_with_its_reason(
    context: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "planted.py").write_text("import sys; print('first'); sys.exit('RuntimeError: table log is locked')")
    monkeypatch.setenv("AIRFLOW_DATABASE_URL", "sqlite:////nowhere")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    monkeypatch.setattr(clean_up, "_CLEANING", "planted")
    with pytest.raises(AirflowFailException, match="not everything was removed: RuntimeError: table log is locked"):
        CleanUpOperator(task_id="clean_up").execute(context)


@pytest.mark.parametrize(("service", "is_paused"), [("", False), ("/home:airflow", True)])
def test_it_runs_every_night_for_a_team_and_is_paused_at_first_where_airflow_is_embedded(
    monkeypatch: pytest.MonkeyPatch, service: str, is_paused: bool
) -> None:
    monkeypatch.setenv("BROKERPROOF_SERVICE", service)
    dag: DAG = build_clean_up_dag()
    assert dag.is_paused_upon_creation is is_paused
    assert dag.timetable.expression == "0 0 * * *"  # type: ignore[attr-defined]
