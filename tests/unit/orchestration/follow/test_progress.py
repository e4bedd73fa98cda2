from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from brokerproof.orchestration.follow.airflow_client import TaskState
from brokerproof.orchestration.follow.progress import Progress, Snapshot
from brokerproof.run.directory import Run
from brokerproof.run.live_status import read_live_status
from rich.console import Console

LIVE = {
    "phase": "impact",
    "acked": 12345,
    "failed": 0,
    "delivered": 12000,
    "owner": "broker-us-1",
    "faults": [{"fault": "eu_destroyed", "kind": "destroy", "state": "effective", "targets": ["broker-eu-1"]}],
    "alive": {"broker": ["broker-us-1", "broker-us-2"], "bookie": ["bookie-us-1"]},
    "restarted": {"bookie-us-1": 2},
    "missed_rates": {"mycluster-p0": ["the cluster pushed back"], "mycluster-p1": []},
    "text": "waiting for acks",
}


def test_a_line_shows_the_whole_snapshot() -> None:
    line = Snapshot(tasks=[TaskState(task_id="load", state="running")], live=LIVE).format_line(43)
    for said in (
        "43 s",
        "load",
        "impact",
        "12,345 acked",
        "owner broker-us-1",
        "eu_destroyed effective",
        "alive: 2 brokers, 1 bookie",
        "started again: bookie-us-1 2×",
        "rate not held by mycluster-p0 and mycluster-p1 (the cluster pushed back and reason unknown)",
        "waiting for acks",
    ):
        assert said in line


@pytest.mark.parametrize("missing", list(LIVE))
def test_any_key_of_the_live_status_may_be_missing(missing: str) -> None:
    live = {key: value for key, value in LIVE.items() if key != missing}
    assert Snapshot(live=live).format_line(1)


@pytest.mark.parametrize("content", ["", "{", "[]", "null"])
def test_a_damaged_live_status_is_empty(tmp_path: Path, content: str) -> None:
    (tmp_path / "progress").mkdir()
    (tmp_path / "progress" / "live.json").write_text(content)
    assert read_live_status(Run(str(tmp_path)), "live") == {}


def test_without_a_terminal_a_line_appears_when_other_tasks_run() -> None:
    output = io.StringIO()
    with Progress(Console(file=output, width=200), "A region is lost") as progress:
        for running in ("load", "load", "load", "verify"):
            progress.show(Snapshot(tasks=[TaskState(task_id=running, state="running")]))
    lines = output.getvalue().splitlines()
    assert ["load" in line or "verify" in line for line in lines] == [True, True]


def test_without_a_terminal_a_line_appears_when_a_rate_is_missed() -> None:
    output = io.StringIO()
    with Progress(Console(file=output, width=200), "A region is lost") as progress:
        for missed in ({}, {}, {"p0": ["this machine had no time"]}, {"p0": ["this machine had no time"]}, {}):
            progress.show(Snapshot(live={"missed_rates": missed}))
    lines = output.getvalue().splitlines()
    assert ["this machine had no time" in line for line in lines] == [False, True, False]


def test_a_terminal_shows_every_state_of_a_task() -> None:
    output = io.StringIO()
    console = Console(file=output, width=200, force_terminal=True)
    states: list[Any] = ["success", "failed", "upstream_failed", "skipped", "running", None]
    with Progress(console, "A region is lost") as progress:
        progress.show(
            Snapshot(tasks=[TaskState(task_id=f"t{n}", state=state) for n, state in enumerate(states)], live=LIVE)
        )
    assert "A region is lost" in output.getvalue()
