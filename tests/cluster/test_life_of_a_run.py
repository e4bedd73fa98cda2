"""Provisioning that goes wrong, is killed, or collides: one clear error, and nothing left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from brokerproof import clock, lifecycle
from brokerproof.errors import MachineError, NodeError
from brokerproof.machine import slots
from brokerproof.machine.processes import find_marked_processes, find_recorded_process, read_mark
from brokerproof.network import LinkClient
from brokerproof.run.directory import Run


def processes_of(run: Run) -> list[str]:
    """Names of the processes of a run that live."""
    marks = [read_mark(process) for process in find_marked_processes(Path(run.directory))]
    return sorted(mark.name for mark in marks if mark is not None)


def test_two_runs_get_different_addresses_and_release_leaves_nothing(reserve_small: Callable[..., Run]) -> None:
    first, second = reserve_small("first"), reserve_small("second")
    assert not set(first.facts.addresses.values()) & set(second.facts.addresses.values())
    lifecycle.provision(first)
    assert processes_of(first) == ["bookie-1", "broker-1", "metadata-1", "monitor"]
    lifecycle.release(first)
    assert processes_of(first) == []
    # Nor what they stored, which would fill the disk night after night; what they said stays.
    left = {path.name for path in Path(first.path("nodes", "bookie-1")).iterdir()}
    assert left == {"conf", "log", "node.json", "pid.json"}
    assert processes_of(second) == ["monitor"]


def test_the_link_starts_before_the_nodes_and_ends_with_them(reserve_small: Callable[..., Run]) -> None:
    run = reserve_small("linked", topology="smallest_wan")
    lifecycle.provision(run)
    assert processes_of(run) == ["bookie-1", "broker-1", "link", "metadata-1", "monitor"]
    # The nodes reach the metadata store only through it.
    opened = {(pair.sender, pair.receiver): pair.opened for pair in LinkClient(Path(run.path("nodes"))).metrics().pairs}
    assert opened["eu", "far"] >= 2
    assert "link" in lifecycle.release(run)
    assert processes_of(run) == []


def test_an_address_of_the_link_in_use_is_reported_before_anything_starts(reserve_small: Callable[..., Run]) -> None:
    run = reserve_small("taken", topology="smallest_wan")
    with socket.socket() as taken:
        # Of connections that an earlier run had there something lingers.
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((run.facts.views["bookie-1"]["metadata-1"], 2181))
        taken.listen()
        with pytest.raises(MachineError, match=r"the link bookie-1 → metadata-1 cannot listen on .*:2181"):
            lifecycle.provision(run)
    assert "metadata-1" not in processes_of(run)


def test_a_node_that_dies_is_reported_with_its_last_log_lines_and_everything_is_stopped(
    reserve_small: Callable[..., Run],
) -> None:
    run = reserve_small("dies", **{"settings.bookie": {"ledgerStorageClass": "no.such.Storage"}})
    with pytest.raises(NodeError, match=r"(?s)bookie-1 died while it started.*no\.such\.Storage"):
        lifecycle.provision(run)
    assert processes_of(run) == ["monitor"]
    assert run.exists("run.json")


def test_a_port_in_use_is_reported_before_anything_starts(reserve_small: Callable[..., Run]) -> None:
    run = reserve_small("taken")
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((run.facts.addresses["broker-1"], 6650))
        taken.listen()
        with pytest.raises(MachineError, match=r"broker-1 cannot listen on .*:6650"):
            lifecycle.provision(run)
    assert "metadata-1" not in processes_of(run)


def test_a_killed_provision_is_cleaned_up_by_the_next_run(reserve_small: Callable[..., Run]) -> None:
    run = reserve_small("killed")
    starter = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from brokerproof import lifecycle; from brokerproof.run.directory import Run; "
            f"lifecycle.provision(Run({run.directory!r}))",
        ],
        env={**os.environ},
    )
    clock.wait_until(lambda: "metadata-1" in processes_of(run), timeout_s=60, what="the first node")
    starter.send_signal(signal.SIGKILL)
    starter.wait()
    assert "metadata-1" in processes_of(run)
    # Its monitor dies too, as when the machine's memory ran out.
    monitor = find_recorded_process(Path(run.path("monitor.json")))
    assert monitor is not None
    monitor.kill()
    psutil.wait_procs([monitor], timeout=5)
    following = reserve_small("following")
    assert following.facts.slot == run.facts.slot
    assert processes_of(run) == []


def test_down_ends_everything_and_frees_all_slots(
    reserve_small: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its own slots, so that the cluster that other tests share is not ended.
    monkeypatch.setenv("BROKERPROOF_LEASES", str(tmp_path / "leases"))
    run = reserve_small("ended")
    assert lifecycle.down(tmp_path) == ["monitor"]
    assert processes_of(run) == []
    assert slots.list_assigned_runs() == []
