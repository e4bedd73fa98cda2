"""Nodes of the process runtime that end by themselves, and the process that starts them again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from brokerproof import clock
from brokerproof.clock import wait_until
from brokerproof.errors import NodeError
from brokerproof.machine.processes import Mark, end_processes, find_marked_processes, read_mark, start_process
from brokerproof.runtimes.process_runtime import ProcessRuntime
from brokerproof.runtimes.protocols import NodeSpec
from brokerproof.runtimes.restarts import RestartEvent
from brokerproof.runtimes.supervision import Supervision, find_supervisors

from .conftest import MakeSpec

# The supervisor looks ten times a second, on a machine that is busy with other tests.
PATIENCE_S = 20.0
# Long enough for a supervisor that would start the node again.
QUIET_S = 1.0
REPETITIONS = 100


def start(runtime: ProcessRuntime, *specs: NodeSpec) -> None:
    for spec in specs:
        runtime.prepare(spec)
        runtime.start(spec)


def supervise(runtime: ProcessRuntime, *specs: NodeSpec, after_s: float = 0.0) -> psutil.Process:
    """The supervisor of the nodes, once it watches them."""
    runtime.supervise(specs, {spec.name: after_s for spec in specs})
    (supervisor,) = find_supervisors(runtime.nodes)
    return supervisor


def read_pid(runtime: ProcessRuntime, name: str = "n1") -> int:
    return int(json.loads((runtime.directory(name) / "pid.json").read_text())["pid"])


def crash(runtime: ProcessRuntime, name: str = "n1") -> None:
    """End a node without telling the runtime, as it ends by itself."""
    process = psutil.Process(read_pid(runtime, name))
    process.kill()
    psutil.wait_procs([process], timeout=PATIENCE_S)


def await_events(runtime: ProcessRuntime, count: int) -> list[RestartEvent]:
    def read() -> list[RestartEvent]:
        events = runtime.list_restart_events()
        return events if len(events) >= count else []

    return wait_until(read, timeout_s=PATIENCE_S, what=f"{count} events", every_s=0.02)


def list_marks(below: Path) -> list[str]:
    return sorted(mark.name for process in find_marked_processes(below) if (mark := read_mark(process)) is not None)


def test_a_node_that_ended_by_itself_is_started_again_after_its_time(
    runtime: ProcessRuntime, make_spec: MakeSpec
) -> None:
    start(runtime, make_spec("n1"), make_spec("n2"))
    supervise(runtime, make_spec("n1"), make_spec("n2"), after_s=0.8)
    other = read_pid(runtime, "n2")
    crashed_at = clock.now_us()
    crash(runtime)
    ended, restarted = await_events(runtime, 2)
    assert [(event.node, str(event.step), event.times) for event in (ended, restarted)] == [
        ("n1", "ended", 1),
        ("n1", "restarted", 1),
    ]
    assert runtime.is_alive("n1")
    assert (restarted.at - ended.at) / 1e6 >= 0.8
    assert ended.at >= crashed_at
    assert read_pid(runtime, "n2") == other


def test_one_that_ends_as_soon_as_it_starts_is_started_again_and_again(
    runtime: ProcessRuntime, make_spec: MakeSpec
) -> None:
    short = make_spec(code="pass")
    start(runtime, short)
    supervise(runtime, short)
    events = await_events(runtime, 6)
    assert [(str(event.step), event.times) for event in events[:6]] == [
        (step, times) for times in (1, 2, 3) for step in ("ended", "restarted")
    ]


@pytest.mark.parametrize("way", ["kill", "stop", "wipe", "kill after its own end"])
def test_hands_are_off_a_node_that_was_taken_down_until_it_is_started(
    runtime: ProcessRuntime, make_spec: MakeSpec, way: str
) -> None:
    start(runtime, make_spec())
    supervise(runtime, make_spec(), after_s=0.3)
    if way == "kill after its own end":
        crash(runtime)
        await_events(runtime, 1)
    if way == "stop":
        runtime.stop("n1", grace_s=PATIENCE_S)
    else:
        runtime.kill("n1")
    if way == "wipe":
        runtime.wipe(make_spec())
    before = runtime.list_restart_events()
    time.sleep(QUIET_S)
    assert not runtime.is_alive("n1")
    assert runtime.list_restart_events() == before
    runtime.start(make_spec())
    crash(runtime)
    wait_until(lambda: runtime.is_alive("n1"), timeout_s=PATIENCE_S, what="the node after it was started by hand")


def test_one_that_was_never_started_is_not_started(runtime: ProcessRuntime, make_spec: MakeSpec) -> None:
    start(runtime, make_spec("n1"))
    runtime.prepare(make_spec("n2"))
    supervise(runtime, make_spec("n1"), make_spec("n2"))
    crash(runtime)
    await_events(runtime, 2)
    assert not runtime.is_alive("n2")
    assert {event.node for event in runtime.list_restart_events()} == {"n1"}


def test_one_that_is_not_supervised_stays_away(runtime: ProcessRuntime, make_spec: MakeSpec) -> None:
    start(runtime, make_spec("n1"), make_spec("n2"))
    supervise(runtime, make_spec("n1"))
    crash(runtime, "n2")
    crash(runtime)
    await_events(runtime, 2)
    assert not runtime.is_alive("n2")


def test_a_frozen_node_runs(runtime: ProcessRuntime, make_spec: MakeSpec) -> None:
    start(runtime, make_spec())
    supervise(runtime, make_spec())
    pid = read_pid(runtime)
    runtime.pause("n1")
    time.sleep(QUIET_S)
    runtime.resume("n1")
    assert read_pid(runtime) == pid
    assert runtime.list_restart_events() == []


def test_the_supervisor_outlives_its_starter(runtime: ProcessRuntime, make_spec: MakeSpec) -> None:
    start(runtime, make_spec())
    code = f"""
import os, signal, sys
from pathlib import Path
from brokerproof.runtimes.protocols import NodeSpec
from brokerproof.runtimes.process_runtime import ProcessRuntime
node = NodeSpec(name="n1", role="broker", region="eu", address="127.0.0.1",
                command=(sys.executable, "-S", "-c", "import time; time.sleep(600)"))
ProcessRuntime(Path({str(runtime.nodes)!r})).supervise([node], {{"n1": 0}})
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    runtime.check_supervision()
    crash(runtime)
    await_events(runtime, 2)


def test_a_second_supervisor_is_refused(runtime: ProcessRuntime, make_spec: MakeSpec) -> None:
    start(runtime, make_spec())
    supervise(runtime, make_spec())
    with pytest.raises(NodeError, match="was started already"):
        supervise(runtime, make_spec())


def test_one_that_does_not_start_is_reported_with_its_log(
    runtime: ProcessRuntime, make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    start(runtime, make_spec())
    (tmp_path / "psutil.py").write_text("raise ImportError('no such library')")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    with pytest.raises(NodeError, match=r"(?s)does not run; its log ends with.*no such library"):
        supervise(runtime, make_spec())


def test_a_supervisor_that_was_killed_leaves_nothing_that_starts_nodes_and_is_missed(
    runtime: ProcessRuntime, make_spec: MakeSpec
) -> None:
    start(runtime, make_spec())
    supervisor = supervise(runtime, make_spec())
    runtime.check_supervision()
    supervisor.kill()
    psutil.wait_procs([supervisor], timeout=PATIENCE_S)
    with pytest.raises(NodeError, match="does not run"):
        runtime.check_supervision()
    crash(runtime)
    time.sleep(QUIET_S)
    assert not runtime.is_alive("n1")
    assert list_marks(runtime.nodes) == []
    # What ended it is not an end of the supervision, and there is nobody left to end.
    runtime.end_supervision()


def test_without_a_supervisor_nobody_is_there(runtime: ProcessRuntime, make_spec: MakeSpec) -> None:
    start(runtime, make_spec())
    with pytest.raises(NodeError, match="does not run; its log is empty"):
        runtime.check_supervision()
    runtime.end_supervision()
    assert runtime.list_restart_events() == []
    assert runtime.is_alive("n1")


def test_nothing_is_started_after_the_end_of_the_supervision(runtime: ProcessRuntime, make_spec: MakeSpec) -> None:
    start(runtime, make_spec())
    supervise(runtime, make_spec())
    runtime.end_supervision()
    assert list(find_supervisors(runtime.nodes)) == []
    crash(runtime)
    time.sleep(QUIET_S)
    assert not runtime.is_alive("n1")


def test_a_supervisor_whose_plan_is_gone_goes_by_itself(runtime: ProcessRuntime, make_spec: MakeSpec) -> None:
    """As when whoever ends the supervision is killed before it has ended the process."""
    start(runtime, make_spec())
    supervisor = supervise(runtime, make_spec(), after_s=0.3)
    crash(runtime)
    await_events(runtime, 1)
    (runtime.nodes / "supervision.json").unlink()
    psutil.wait_procs([supervisor], timeout=PATIENCE_S)
    assert list_marks(runtime.nodes) == []
    assert not Supervision(runtime.nodes).is_in_force


def test_release_ends_supervisor_and_nodes_and_leaves_none(runtime: ProcessRuntime, make_spec: MakeSpec) -> None:
    names = [f"n{number}" for number in range(1, 9)]
    start(runtime, *map(make_spec, names))
    supervise(runtime, *map(make_spec, names))
    for name in names[:4]:
        crash(runtime, name)
    runtime.release()
    time.sleep(QUIET_S)
    assert list_marks(runtime.nodes) == []


def test_whoever_ends_by_marks_ends_supervisors_first(runtime: ProcessRuntime, make_spec: MakeSpec) -> None:
    start(runtime, make_spec("n1"), make_spec("supervised"))
    supervise(runtime, make_spec("n1"))
    assert end_processes(find_supervisors(runtime.nodes)) == ["supervisor"]
    assert end_processes(find_marked_processes(runtime.nodes)) in (["n1", "supervised"], ["supervised", "n1"])
    time.sleep(QUIET_S)
    assert list_marks(runtime.nodes) == []


def test_a_child_that_executes_no_program_yet_is_no_supervisor(tmp_path: Path) -> None:
    """A child that was just forked has its parent's environment, and with it the mark of a supervisor."""
    forks = "import os, time; os.fork(); time.sleep(60)"
    process = start_process(
        [sys.executable, "-c", forks],
        mark=Mark(tmp_path, "supervisor"),
        record=tmp_path / "record.json",
        log=tmp_path / "log",
        environment=os.environ,
    )
    try:
        deadline = time.monotonic() + PATIENCE_S
        while len(list(find_marked_processes(tmp_path))) < 2:
            assert time.monotonic() < deadline, "the process made no child"
        assert [each.pid for each in find_supervisors(tmp_path)] == [process.pid]
    finally:
        for each in find_marked_processes(tmp_path):
            each.kill()
        process.wait()


def test_a_fault_and_the_supervisor_never_race(runtime: ProcessRuntime) -> None:
    """A node ends by itself at the moment at which a fault takes it down and another one starts it."""
    spec = NodeSpec(name="n1", role="broker", region="eu", address="127.0.0.1", command=("/bin/sleep", "600"))
    start(runtime, spec)
    done, restarts = threading.Event(), 0

    def restart() -> None:
        nonlocal restarts
        other = ProcessRuntime(runtime.nodes)
        while not done.is_set():
            if other.has_ended_by_itself("n1"):
                restarts += other.start_again(spec)

    restarting = [threading.Thread(target=restart) for _ in range(2)]
    for thread in restarting:
        thread.start()
    try:
        for number in range(REPETITIONS):
            os.kill(read_pid(runtime), signal.SIGKILL)
            time.sleep(0.0005 * (number % 10))
            (runtime.kill if number % 2 else lambda name: runtime.stop(name, grace_s=PATIENCE_S))("n1")
            for _ in range(5):
                assert not runtime.is_alive("n1"), number
                time.sleep(0.0005)
            runtime.start(spec)
    finally:
        done.set()
        for thread in restarting:
            thread.join()
    # Both sides had their turns, and no process was left behind that nobody knows.
    assert 0 < restarts <= REPETITIONS
    runtime.kill("n1")
    assert list_marks(runtime.nodes) == []
