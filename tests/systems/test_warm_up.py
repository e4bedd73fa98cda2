"""The warm-up before a machine's first run, on real nodes: a failure of it costs speed and nothing else."""

from __future__ import annotations

import json
import logging
import socket
from pathlib import Path

import psutil
import pytest
from brokerproof.errors import MachineError
from brokerproof.machine import slots
from brokerproof.warm_up import prepare
from learning_system import distribution, learned
from testlog_system.cluster import PORT

SYSTEMS = Path(__file__).resolve().parent
# Of the first node in the first slot.
ADDRESS = "127.10.1.11"


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The system in the registry, and slots and a cache of the test's own."""
    monkeypatch.setenv("BROKERPROOF_SYSTEMS", "testlog=learning_system:LEARNING")
    monkeypatch.setenv("PYTHONPATH", str(SYSTEMS))
    monkeypatch.setenv("BROKERPROOF_LEASES", str(tmp_path / "leases"))
    monkeypatch.setenv("BROKERPROOF_CACHE", str(tmp_path / "cache"))
    distribution().parent.mkdir(parents=True)
    distribution().touch()


def living_children() -> set[psutil.Process]:
    """Processes of this test that go on."""
    children = psutil.Process().children(recursive=True)
    return {child for child in children if child.status() != psutil.STATUS_ZOMBIE}


def warm_up() -> list[str]:
    """Prepare the machine; what was said of it."""
    said: list[str] = []
    before = living_children()
    prepare("testlog", "1", said.append)
    assert living_children() <= before, "a process stayed"
    assert slots.list_assigned_runs() == []
    return said


def test_nodes_learn_from_a_small_run() -> None:
    (said,) = warm_up()
    assert said.startswith("fetching testlog 1")
    found = json.loads(learned().read_text())
    assert found["nodes"] == ["server-1"]
    assert found["end"] >= 50, "its messages were not published"


def test_it_is_done_once() -> None:
    learned().touch()
    assert warm_up() == []
    assert learned().read_text() == ""


def test_one_that_fails_is_reported_and_keeps_nobody_from_running(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server((ADDRESS, PORT)), caplog.at_level(logging.WARNING):
        warm_up()
    assert "the warm-up failed, so nodes start slower: " in caplog.text
    assert f"{ADDRESS}:{PORT}" in caplog.text
    assert not learned().exists()


def test_what_cannot_be_fetched_stops_everything() -> None:
    distribution().unlink()
    with pytest.raises(MachineError, match="no network"):
        warm_up()
    assert slots.list_assigned_runs() == []
    assert not learned().exists()
