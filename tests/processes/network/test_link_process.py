"""The link process: how it starts, who finds it, what is said when it cannot."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from brokerproof.errors import MachineError, NodeError, RunError
from brokerproof.machine.processes import Mark, end_processes, find_marked_processes, read_mark
from brokerproof.network import LinkClient, Plan, Route, start_link_process

from .lab import PORT, Lab, one_way_s


def test_an_address_in_use_is_reported_in_one_sentence(lab: Lab) -> None:
    taken = f"{lab.subnet}.101"
    with (
        socket.create_server((taken, PORT)),
        pytest.raises(
            MachineError, match=rf"^the link eu-1 → us-1 cannot listen on {taken}:{PORT}: .*down.*$"
        ) as error,
    ):
        lab.start()
    assert "\n" not in str(error.value)
    one_way_s(*(lab.start() and lab.connect()))


def test_a_starter_that_is_killed_leaves_a_link_that_goes_on_and_is_found_by_its_mark(lab: Lab) -> None:
    plan = lab.run / "plan.json"
    plan.write_text(lab.plan().model_dump_json())
    code = f"""
import os, signal
from pathlib import Path
from brokerproof.network import Plan, start_link_process
start_link_process(Path({str(lab.nodes)!r}), Plan.model_validate_json(Path({str(plan)!r}).read_text()))
os.kill(os.getpid(), signal.SIGKILL)
"""
    result = subprocess.run([sys.executable, "-c", code], check=False)
    assert result.returncode == -signal.SIGKILL
    link = LinkClient(lab.nodes)
    assert link.ping() == link.pid
    one_way_s(*lab.connect())
    found = [process.pid for process in find_marked_processes() if read_mark(process) == Mark(lab.nodes, "link")]
    assert found == [link.pid]
    assert end_processes(find_marked_processes(lab.run)) == ["link"]
    assert not psutil.pid_exists(link.pid) or psutil.Process(link.pid).status() == psutil.STATUS_ZOMBIE


def test_a_second_start_is_refused_and_one_after_a_kill_is_not(lab: Lab) -> None:
    link = lab.start()
    with pytest.raises(NodeError, match="runs already"):
        lab.start()
    os.kill(link.pid, signal.SIGKILL)
    psutil.wait_procs([psutil.Process(link.pid)], timeout=10)
    assert lab.start().ping() != link.pid
    one_way_s(*lab.connect())


def test_a_link_that_died_is_reported(lab: Lab) -> None:
    link = lab.start()
    os.kill(link.pid, signal.SIGKILL)
    psutil.wait_procs([psutil.Process(link.pid)], timeout=10)
    with pytest.raises(NodeError, match=rf"pid {link.pid}\) does not answer `state`"):
        link.state()


def test_a_run_without_a_link_is_reported(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no link process was started"):
        LinkClient(tmp_path / "nodes")


def test_a_directory_too_deep_for_a_unix_socket_will_do(lab: Lab) -> None:
    deep = lab.run / ("d" * 100) / "nodes"
    link = start_link_process(deep, lab.plan())
    try:
        assert link.ping() == link.pid
        assert not (deep / "link" / "control.sock").exists()
    finally:
        end_processes(find_marked_processes(deep))


def test_a_thousand_listeners_are_fine(lab: Lab) -> None:
    routes = [
        Route(
            viewer=f"eu-{number}",
            viewer_region="eu",
            target="us-1",
            target_region="us",
            listen_address=f"{lab.subnet}.{100 + number}",
            target_address=f"{lab.subnet}.1",
            ports=list(range(PORT, PORT + 10)),
        )
        for number in range(1, 101)
    ]
    link = start_link_process(lab.nodes, Plan(routes=routes))
    assert link.state().listeners == 1000
    assert len(link.routes()) == 100
    one_way_s(*lab.connect())
