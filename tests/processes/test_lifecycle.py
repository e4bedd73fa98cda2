"""A run begins with a slot that its monitor holds, and ends, or dies, without leaving anything. No node is started."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import psutil
import pytest
from brokerproof import lifecycle
from brokerproof.clock import wait_until
from brokerproof.errors import MachineError, NodeError, RunError
from brokerproof.machine import slots
from brokerproof.machine.processes import (
    Mark,
    end_processes,
    find_marked_processes,
    find_recorded_process,
    read_mark,
    start_process,
)
from brokerproof.run.directory import Run
from brokerproof.run.records import TableSeal, read_record
from brokerproof.runtimes.process_runtime import ProcessRuntime
from brokerproof.runtimes.protocols import NodeSpec
from builders import ROOT, load_shipped


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("BROKERPROOF_LEASES", str(tmp_path / "leases"))
    monkeypatch.setenv("BROKERPROOF_MAX_CLUSTERS", "1")
    yield
    end_processes(find_marked_processes(tmp_path))


@pytest.fixture
def begin(tmp_path: Path) -> Callable[..., Run]:
    def begin(name: str, **options: Any) -> Run:
        scenario, topology = load_shipped("sync_nominal")
        return lifecycle.reserve(scenario, topology, directory=str(tmp_path / name), run_id=name, **options)

    return begin


def test_a_run_keeps_the_versions_of_the_day_on_which_it_began(begin: Callable[..., Run]) -> None:
    versions = begin("r").facts.versions
    assert {"python", "airflow", "spark", "java", "brokerproof", "pulsar-client"} <= set(versions)
    assert versions["python"] == platform.python_version()


def begin_and_be_killed(directory: Path) -> None:
    """Begin a run in a process that is killed right after it."""
    code = f"""
import os, signal
from pathlib import Path
from typing import Any
from brokerproof import lifecycle
from brokerproof.checks import load_scenario
root = Path({str(ROOT)!r})
scenario, topology = load_scenario(root / "dags/scenarios/sync_nominal.yaml", root / "topologies")
lifecycle.reserve(scenario, topology, directory={str(directory)!r}, run_id="r")
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL


def processes(run: Path) -> list[str]:
    return sorted(mark.name for process in find_marked_processes(run) if (mark := read_mark(process)) is not None)


def start_node(run: Path) -> psutil.Process:
    """What stands for a node of a run, with something stored."""
    process = start_process(
        [sys.executable, "-c", "import time; time.sleep(600)"],
        mark=Mark(run / "nodes", "n1"),
        record=run / "nodes" / "n1" / "pid.json",
        log=run / "nodes" / "n1" / "log" / "node.log",
        environment=os.environ,
    )
    (run / "nodes" / "n1" / "node.json").write_text('{"data": ["data"]}')
    (run / "nodes" / "n1" / "data").mkdir()
    (run / "nodes" / "n1" / "data" / "x").write_text("message")
    return psutil.Process(process.pid)


def test_a_run_whose_starter_is_killed_keeps_its_slot_as_long_as_its_monitor_lives(
    tmp_path: Path, begin: Callable[..., Run]
) -> None:
    begin_and_be_killed(tmp_path / "run")
    assert processes(tmp_path / "run") == ["monitor"]
    assert slots.are_all_held()
    with pytest.raises(MachineError, match="all 1 slots"):
        begin("next", slot_timeout_s=0.1)
    assert not (tmp_path / "next").exists()


def test_the_run_after_one_that_died_takes_its_slot_and_ends_what_it_left(
    tmp_path: Path, begin: Callable[..., Run]
) -> None:
    begin_and_be_killed(tmp_path / "dead")
    node = start_node(tmp_path / "dead")
    monitor = find_recorded_process(tmp_path / "dead" / "monitor.json")
    assert monitor is not None
    monitor.kill()
    psutil.wait_procs([monitor], timeout=10)
    assert processes(tmp_path / "dead") == ["n1"]
    following = begin("next")
    assert following.facts.slot == 0
    assert processes(tmp_path / "dead") == []
    assert not node.is_running() or node.status() == psutil.STATUS_ZOMBIE
    assert not (tmp_path / "dead" / "nodes" / "n1" / "data").exists()
    assert (tmp_path / "dead" / "nodes" / "n1" / "log").exists()


def test_the_tables_of_a_run_that_begins_are_sealed_and_compared(begin: Callable[..., Run]) -> None:
    run = begin("r")
    assert run.facts.sealed
    lifecycle.release(run)
    # The monitor leaves the seal of its own table when it goes, though it took no sample.
    assert read_record(run, TableSeal, "observations") is not None


def test_release_ends_the_monitor_and_the_nodes_and_gives_the_slot_back(
    tmp_path: Path, begin: Callable[..., Run]
) -> None:
    run = begin("run")
    assert slots.list_assigned_runs() == [run.directory]
    start_node(tmp_path / "run")
    assert lifecycle.release(run) == ["n1"]
    assert processes(tmp_path / "run") == []
    assert slots.list_assigned_runs() == []
    assert not slots.are_all_held()


def test_release_ends_a_monitor_that_does_not_go(tmp_path: Path, begin: Callable[..., Run]) -> None:
    run = begin("run")
    monitor = find_recorded_process(tmp_path / "run" / "monitor.json")
    assert monitor is not None
    monitor.suspend()
    assert lifecycle.release(run, monitor_timeout_s=0.3) == ["monitor"]
    assert slots.list_assigned_runs() == []
    assert not slots.are_all_held()


def test_a_run_that_cannot_begin_leaves_the_slot_to_the_next(tmp_path: Path, begin: Callable[..., Run]) -> None:
    lifecycle.release(begin("run"))
    with pytest.raises(RunError, match="holds a run already"):
        begin("run")
    assert not slots.are_all_held()
    begin("next")


def test_the_log_names_only_nodes_that_were_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scenario, topology = load_shipped("sync_datacenter_loss_cold")
    run = lifecycle.reserve(scenario, topology, directory=str(tmp_path / "run"), run_id="r")
    specs = {
        name: NodeSpec(name=name, role=node.role, region=node.region, address="127.0.0.1", command=())
        for name, node in topology.nodes.items()
    }
    provisioning = MagicMock(**{"specs.return_value": specs, "start_order.return_value": [list(specs)]})
    for name, double in (("provisioning", provisioning), ("runtime", MagicMock())):
        monkeypatch.setattr(f"brokerproof.lifecycle.make_{name}", lambda _, double=double: double)
    with caplog.at_level("INFO", logger="brokerproof.lifecycle"):
        lifecycle.provision(run)
    on_standby = sum(node.standby for node in topology.nodes.values())
    (sentence,) = caplog.messages
    assert sentence.startswith(f"{len(specs) - on_standby} nodes are healthy after ")
    assert on_standby > 0


@pytest.mark.parametrize(("timeout_s", "in_time"), [(0.0, False), (60.0, True)])
def test_a_node_that_is_alive_gets_its_time_to_become_healthy(timeout_s: float, in_time: bool) -> None:
    answers, runtime = iter([False, True]), MagicMock()
    runtime.log_tail.return_value = "its last line"
    node = NodeSpec(
        name="node-1", role="broker", region="eu", address="127.0.0.1", command=("unused",), start_timeout_s=timeout_s
    )
    late = pytest.raises(NodeError, match=r"(?s)node-1 was not healthy after 0 s.*its last line")
    with nullcontext() if in_time else late:
        lifecycle._start(lambda _: next(answers), runtime, [node], MagicMock())


def test_down_ends_everything_of_every_run_and_frees_all_slots(tmp_path: Path, begin: Callable[..., Run]) -> None:
    begin("run")
    start_node(tmp_path / "run")
    # Without a directory it ends what other tests and people run on this machine as well.
    assert sorted(lifecycle.down(tmp_path)) == ["monitor", "n1"]
    assert processes(tmp_path) == []
    assert slots.list_assigned_runs() == []
    assert not slots.are_all_held()
    assert not (tmp_path / "run" / "nodes" / "n1" / "data").exists()


def test_down_finds_what_no_record_names(tmp_path: Path) -> None:
    """As when a starter is killed right after it started a node, and the slots' directory is lost."""
    start_node(tmp_path / "run")
    (tmp_path / "run" / "nodes" / "n1" / "pid.json").unlink()
    assert lifecycle.down(tmp_path) == ["n1"]
    assert processes(tmp_path) == []


def test_down_frees_the_other_runs_if_a_process_survives(
    tmp_path: Path, begin: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKERPROOF_MAX_CLUSTERS", "3")
    for name in ("a", "b", "c"):
        begin(name)
        start_node(tmp_path / name)
    survivor = find_recorded_process(tmp_path / "b" / "nodes" / "n1" / "pid.json")
    assert survivor is not None

    def kill_others(process: psutil.Process, number: signal.Signals) -> None:
        if process.pid != survivor.pid:
            process.send_signal(number)

    left: list[Path | None] = []
    monkeypatch.setattr("brokerproof.lifecycle.remove_left_elsewhere", lambda below: left.append(below) or [])
    monkeypatch.setattr("brokerproof.machine.processes._END_TIMEOUT_S", 0.5)
    with monkeypatch.context() as kernel:
        kernel.setattr("brokerproof.machine.processes.send_signal", kill_others)
        with pytest.raises(MachineError, match=rf"processes \[{survivor.pid}\] did not end after SIGKILL"):
            lifecycle.down(tmp_path)
    assert processes(tmp_path) == ["n1"]
    # The run with the survivor keeps its slot, so that no other run takes its addresses.
    assert slots.list_assigned_runs() == [str(tmp_path / "b")]
    assert [(tmp_path / name / "nodes" / "n1" / "data").exists() for name in ("a", "b", "c")] == [False, True, False]
    assert left == [tmp_path]
    assert lifecycle.down(tmp_path) == ["n1"]
    assert slots.list_assigned_runs() == []


# Long enough for a supervisor that would start a node again.
QUIET_S = 1.0


def supervise_nodes(run: Path) -> ProcessRuntime:
    """Nodes of a run that have a service manager, which starts them at once."""
    runtime = ProcessRuntime(run / "nodes")
    nodes = [
        NodeSpec(name=name, role="bookie", region="eu", address="127.0.0.1", command=("/bin/sleep", "600"))
        for name in ("n1", "n2", "n3")
    ]
    for node in nodes:
        runtime.prepare(node)
        runtime.start(node)
    runtime.supervise(nodes, {node.name: 0 for node in nodes})
    assert "supervisor" in processes(run)
    return runtime


def crash(runtime: ProcessRuntime, name: str) -> None:
    process = find_recorded_process(runtime.directory(name) / "pid.json")
    assert process is not None
    process.kill()
    psutil.wait_procs([process], timeout=10)


def test_release_ends_the_supervisor_before_the_nodes_and_nothing_is_started_again(
    tmp_path: Path, begin: Callable[..., Run]
) -> None:
    run = begin("run")
    supervise_nodes(tmp_path / "run")
    # It went before the nodes were ended, so it is not among what was still there.
    assert sorted(lifecycle.release(run)) == ["n1", "n2", "n3"]
    time.sleep(QUIET_S)
    assert processes(tmp_path) == []


def test_down_ends_the_supervisor_before_the_nodes_and_nothing_is_started_again(
    tmp_path: Path, begin: Callable[..., Run]
) -> None:
    begin("run")
    supervise_nodes(tmp_path / "run")
    assert lifecycle.down(tmp_path)[0] == "supervisor"
    time.sleep(QUIET_S)
    assert processes(tmp_path) == []


def test_after_a_release_that_was_killed_nothing_is_started_again_and_down_ends_the_rest(
    tmp_path: Path, begin: Callable[..., Run]
) -> None:
    begin("run")
    runtime = supervise_nodes(tmp_path / "run")
    monitor = find_recorded_process(tmp_path / "run" / "monitor.json")
    assert monitor is not None
    # Release waits for it, and is killed while it does.
    monitor.suspend()
    code = f"""
from brokerproof import lifecycle
from brokerproof.run.directory import Run
lifecycle.release(Run({str(tmp_path / "run")!r}), monitor_timeout_s=600)
"""
    with subprocess.Popen([sys.executable, "-c", code]) as release:
        wait_until(lambda: "supervisor" not in processes(tmp_path), timeout_s=30, what="release to end the supervisor")
        release.kill()
    assert processes(tmp_path) == ["monitor", "n1", "n2", "n3"]
    crash(runtime, "n1")
    time.sleep(QUIET_S)
    assert processes(tmp_path) == ["monitor", "n2", "n3"]
    assert sorted(lifecycle.down(tmp_path)) == ["monitor", "n2", "n3"]
    assert processes(tmp_path) == []


def test_the_run_after_one_that_died_ends_its_supervisor_too(tmp_path: Path, begin: Callable[..., Run]) -> None:
    begin_and_be_killed(tmp_path / "dead")
    supervise_nodes(tmp_path / "dead")
    monitor = find_recorded_process(tmp_path / "dead" / "monitor.json")
    assert monitor is not None
    monitor.kill()
    psutil.wait_procs([monitor], timeout=10)
    begin("next")
    time.sleep(QUIET_S)
    assert processes(tmp_path / "dead") == []
