"""The process runtime, with sleeping processes for nodes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from brokerproof.clock import wait_until
from brokerproof.errors import MachineError, NodeError
from brokerproof.machine.processes import find_marked_processes
from brokerproof.runtimes.process_runtime import ProcessRuntime
from brokerproof.runtimes.protocols import NodeSpec, Program


def spec(name: str = "n1", **changes: object) -> NodeSpec:
    values: dict[str, object] = {
        "name": name,
        "role": "broker",
        "region": "eu",
        "address": "127.0.0.1",
        "command": (sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"),
        **changes,
    }
    return NodeSpec(**values)  # type: ignore[arg-type]


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[ProcessRuntime]:
    runtime = ProcessRuntime(tmp_path / "nodes")
    yield runtime
    runtime.release()


def start(runtime: ProcessRuntime, node: NodeSpec) -> int:
    runtime.prepare(node)
    runtime.start(node)
    return int(json.loads((runtime.directory(node.name) / "pid.json").read_text())["pid"])


def test_a_node_outlives_its_starter_and_is_found_again(runtime: ProcessRuntime) -> None:
    start(runtime, spec())
    again = ProcessRuntime(runtime.nodes)
    assert again.is_alive("n1")
    again.kill("n1")
    assert not runtime.is_alive("n1")


def test_stop_ends_by_force_what_ignores_it(runtime: ProcessRuntime) -> None:
    stubborn = (
        "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
    )
    node = spec(command=(sys.executable, "-c", stubborn))
    start(runtime, node)
    log = runtime.directory("n1") / "log" / "node.log"
    while "up" not in log.read_text():
        time.sleep(0.01)
    began = time.monotonic()
    runtime.stop("n1", grace_s=0.5)
    assert time.monotonic() - began >= 0.5
    assert not runtime.is_alive("n1")


def test_a_recycled_pid_is_not_the_node(runtime: ProcessRuntime) -> None:
    start(runtime, spec())
    runtime.kill("n1")
    file = runtime.directory("n1") / "pid.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"pid": os.getpid()}))
    assert not runtime.is_alive("n1")


def test_wipe_removes_what_was_stored_and_only_of_a_dead_node(runtime: ProcessRuntime) -> None:
    start(runtime, spec())
    stored = runtime.directory("n1") / "data" / "x"
    stored.write_text("message")
    with pytest.raises(NodeError, match="still runs"):
        runtime.wipe(spec())
    assert stored.exists()
    runtime.kill("n1")
    runtime.wipe(spec())
    assert list((runtime.directory("n1") / "data").iterdir()) == []


def test_wipe_and_forget_go_by_what_the_spec_calls_data(runtime: ProcessRuntime) -> None:
    node = spec(data=("log-1", "disks/2"))
    start(runtime, node)
    runtime.kill("n1")
    directory = runtime.directory("n1")
    for folder in node.data:
        (directory / folder / "x").write_text("message")
    runtime.wipe(node)
    assert [list((directory / folder).iterdir()) for folder in node.data] == [[], []]
    for folder in node.data:
        (directory / folder / "x").write_text("message")
    # Whoever forgets has no specs, as when a run died.
    ProcessRuntime(runtime.nodes).forget()
    assert not any((directory / folder).exists() for folder in node.data)


FORMAT = (sys.executable, "-c", "import os; os.mkdir('data/made'); print(os.environ.get('SECRET_TOKEN'))")


def test_a_node_is_formatted_before_its_first_start_and_after_a_wipe_only(runtime: ProcessRuntime) -> None:
    node = spec(format=FORMAT)
    start(runtime, node)
    made = runtime.directory("n1") / "data" / "made"
    first = made.stat().st_ino
    runtime.kill("n1")
    runtime.start(node)
    assert made.stat().st_ino == first
    runtime.kill("n1")
    runtime.wipe(node)
    assert not made.exists()
    runtime.start(node)
    assert made.exists()


def test_a_node_that_cannot_be_formatted_is_reported_with_its_last_log_lines_and_does_not_start(
    runtime: ProcessRuntime,
) -> None:
    node = spec(format=(sys.executable, "-c", "import sys; print('no storage id'); sys.exit(1)"))
    with pytest.raises(
        NodeError, match=r"(?s)node n1 that formats its empty data directories failed: .*status 1.*no storage id"
    ):
        start(runtime, node)
    assert not runtime.is_alive("n1")


def test_a_program_runs_beside_the_nodes_with_its_files_and_nothing_of_the_starter(
    runtime: ProcessRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "s")
    code = "import os; assert 'SECRET_TOKEN' not in os.environ; open('made', 'w').write(open('conf/x').read())"
    runtime.execute(
        Program(purpose="making something", command=(sys.executable, "-c", code), files={"conf/x": "in {node}"})
    )
    directory = runtime.directory("initialize")
    assert (directory / "made").read_text() == f"in {directory}"
    assert runtime.pids() == {}


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("print('no such store'); exit(3)", "status 3; its last lines are\nno such store"),
        ("while True: pass", "did not end in 1 s"),
    ],
)
def test_a_program_that_fails_is_reported_with_its_purpose(runtime: ProcessRuntime, code: str, reason: str) -> None:
    program = Program(
        purpose="writing the metadata",
        command=(sys.executable, "-c", code),
        files={},
        timeout_s=1 if "while" in code else 30,
    )
    with pytest.raises(NodeError, match=f"^writing the metadata failed: it .*{reason}"):
        runtime.execute(program)
    assert not list(find_marked_processes(runtime.nodes))


def test_a_dead_node_whose_port_refuses_is_evidence_and_nothing_else_is(runtime: ProcessRuntime) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        node = spec(ports=(port,))
        # Prepared without the port, which is taken here.
        start(runtime, spec())
        assert runtime.evidence_of_death(node) is None
        runtime.kill("n1")
        listener.listen()
        assert runtime.evidence_of_death(node) is None
    assert runtime.evidence_of_death(node) == f"process gone, 127.0.0.1:{port} refuses connections"
    assert runtime.evidence_of_death(spec()) == "process gone"


def test_forget_removes_what_ended_nodes_stored_and_keeps_what_they_logged(runtime: ProcessRuntime) -> None:
    for name in ("n1", "n2"):
        start(runtime, spec(name))
        (runtime.directory(name) / "data" / "x").write_text("message")
    runtime.kill("n1")
    runtime.forget()
    assert sorted(path.name for path in runtime.directory("n1").iterdir()) == ["log", "node.json", "pid.json"]
    assert (runtime.directory("n1") / "log" / "node.log").exists()
    assert (runtime.directory("n2") / "data" / "x").exists()


def test_what_cannot_be_removed_is_reported_and_stops_nothing(
    runtime: ProcessRuntime, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    runtime.prepare(spec())
    (runtime.directory("n1") / "data" / "x").write_text("message")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("refused")

    monkeypatch.setattr(os, "unlink", refuse)
    runtime.forget()
    assert "data/x stays: refused" in caplog.text
    assert not (runtime.directory("n1") / "tmp").exists()


def test_pause_freezes_and_resume_lets_go_on(runtime: ProcessRuntime) -> None:
    process = psutil.Process(start(runtime, spec()))
    assert not runtime.is_paused("n1")
    runtime.pause("n1")
    wait_until(lambda: runtime.is_paused("n1"), timeout_s=5, what="the process to be stopped")
    assert process.status() == psutil.STATUS_STOPPED
    assert runtime.is_alive("n1")
    runtime.resume("n1")
    wait_until(lambda: not runtime.is_paused("n1"), timeout_s=5, what="the process to go on")


def test_a_node_that_does_not_run_is_not_paused(runtime: ProcessRuntime) -> None:
    start(runtime, spec())
    runtime.kill("n1")
    assert not runtime.is_paused("n1")


def test_a_port_in_use_is_reported_before_the_start(runtime: ProcessRuntime) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(MachineError, match=rf"127\.0\.0\.1:{port}.*brokerproof down"):
            runtime.prepare(spec(ports=(port,)))


def test_a_directory_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineError, match="cannot be written"):
        ProcessRuntime(tmp_path / "file").prepare(spec())


def test_a_process_whose_starter_was_killed_before_writing_it_down_is_ended(runtime: ProcessRuntime) -> None:
    start(runtime, spec())
    (runtime.directory("n1") / "pid.json").unlink()
    assert not runtime.is_alive("n1")
    assert runtime.release() == ["n1"]
    assert not list(find_marked_processes(runtime.nodes))


def test_release_leaves_other_runs_alone(runtime: ProcessRuntime, tmp_path: Path) -> None:
    start(runtime, spec())
    other = ProcessRuntime(tmp_path / "nodes2")
    try:
        start(other, spec("n2"))
        assert runtime.release() == ["n1"]
        assert other.is_alive("n2")
    finally:
        other.release()


def test_a_nodes_environment_holds_nothing_of_the_starter(
    runtime: ProcessRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "s")
    pid = start(runtime, spec())
    assert "SECRET_TOKEN" not in psutil.Process(pid).environ()


def test_the_reason_is_reported_though_a_page_of_usage_follows_it(runtime: ProcessRuntime) -> None:
    start(runtime, spec())
    log = runtime.directory("n1") / "log" / "node.log"
    wait_until(lambda: "up" in log.read_text(), timeout_s=30, what="what the node itself says")
    log.write_text("fine\n" * 50 + "java.lang.IllegalStateException: no such storage\n" + "usage\n" * 20)
    told = runtime.log_tail("n1").splitlines()
    assert told[0] == "java.lang.IllegalStateException: no such storage"
    assert told[1:] == ["usage"] * 15


def test_a_starter_that_is_killed_takes_no_node_with_it(runtime: ProcessRuntime) -> None:
    code = f"""
import os, signal, sys, time
from pathlib import Path
from brokerproof.runtimes.protocols import NodeSpec
from brokerproof.runtimes.process_runtime import ProcessRuntime
runtime = ProcessRuntime(Path({str(runtime.nodes)!r}))
node = NodeSpec(name="n1", role="broker", region="eu", address="127.0.0.1",
                command=(sys.executable, "-c", "import time; time.sleep(600)"))
runtime.prepare(node)
runtime.start(node)
os.kill(os.getpid(), signal.SIGKILL)
"""
    result = subprocess.run([sys.executable, "-c", code], env={**os.environ}, check=False)
    assert result.returncode == -signal.SIGKILL
    assert runtime.is_alive("n1")


def test_a_nodes_files_name_its_directory_and_its_machine(runtime: ProcessRuntime) -> None:
    runtime.prepare(spec(files={"conf/hosts": "{host} {node}"}))
    directory = runtime.directory("n1")
    assert (directory / "conf" / "hosts").read_text() == f"{socket.gethostname()} {directory}"
