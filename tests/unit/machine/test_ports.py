"""Ports: no two starts get one port, a killed start leaves no reservation, and the listener of a port is found."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from brokerproof.machine import leases
from brokerproof.machine.ports import describe_other_listener, reserve_port

# Reserves a port as a start does, says which one, and waits for its end.
RESERVE = (
    "import sys, time\n"
    "from brokerproof.machine.ports import reserve_port\n"
    "with reserve_port(int(sys.argv[1])) as port:\n"
    "    print(port.number, flush=True)\n"
    "    sys.stdin.read()\n"
)


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKERPROOF_LEASES", str(tmp_path / "leases"))


@pytest.fixture
def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@pytest.fixture
def starters() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


def start_reserving(port: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", RESERVE, str(port)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def read_port(starter: subprocess.Popen[str]) -> int:
    assert starter.stdout is not None
    return int(starter.stdout.readline())


def test_starts_at_once_get_different_ports(free_port: int, starters: list[subprocess.Popen[str]]) -> None:
    starters += [start_reserving(free_port) for _ in range(4)]
    with ThreadPoolExecutor() as pool:
        ports = list(pool.map(read_port, starters))
    assert len(set(ports)) == 4
    assert free_port in ports


def test_a_killed_start_leaves_no_reservation(free_port: int, starters: list[subprocess.Popen[str]]) -> None:
    starters.append(start_reserving(free_port))
    assert read_port(starters[0]) == free_port
    with reserve_port(free_port) as port:
        assert port.number != free_port
    starters[0].kill()
    starters[0].wait()
    with reserve_port(free_port) as port:
        assert port.number == free_port


def test_a_server_that_inherits_the_reservation_keeps_it_until_it_ends(free_port: int) -> None:
    with reserve_port(free_port) as port:
        sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
        server = subprocess.Popen(sleeper, pass_fds=[port.descriptor])
    try:
        with reserve_port(free_port) as port:
            assert port.number != free_port
    finally:
        server.kill()
        server.wait()
    with reserve_port(free_port) as port:
        assert port.number == free_port


def test_a_reservation_that_nobody_inherits_ends_with_the_block(free_port: int) -> None:
    for _ in range(2):
        with reserve_port(free_port) as port:
            assert port.number == free_port


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
def test_a_port_at_which_a_program_without_a_reservation_listens_is_not_reserved(address: str) -> None:
    with socket.create_server((address, 0)) as taken, reserve_port(taken.getsockname()[1]) as port:
        assert port.number != taken.getsockname()[1]


def test_any_port_is_reserved_where_none_is_preferred() -> None:
    with reserve_port(0) as one, reserve_port(0) as other:
        assert 0 < one.number != other.number > 0


def test_the_reservations_are_for_this_user_only() -> None:
    with reserve_port(0) as port:
        lock = leases.find_directory("ports") / f"{port.number}.lock"
        assert [path.stat().st_mode & 0o077 for path in (lock.parent.parent, lock.parent, lock)] == [0, 0, 0]


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::", "::ffff:127.0.0.1"])
def test_the_process_that_answers_at_a_port_is_described(address: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as server:
        if family == socket.AF_INET6:
            server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        server.bind((address, 0))
        server.listen()
        port = server.getsockname()[1]
        described = describe_other_listener(port, list)
        assert described is not None
        assert described.startswith(f"process {os.getpid()} of ")
        assert str(Path.cwd()) in described
        assert describe_other_listener(port, lambda: [os.getpid()]) is None
    assert describe_other_listener(port, list) is None


def test_a_node_at_another_address_of_loopback_is_no_listener_of_the_port() -> None:
    with socket.create_server(("127.10.0.1", 0)) as node:
        assert describe_other_listener(node.getsockname()[1], list) is None


def test_a_bound_socket_that_does_not_listen_is_no_listener() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        assert describe_other_listener(bound.getsockname()[1], list) is None


def test_a_server_that_begins_to_listen_meanwhile_is_not_taken_for_another_program() -> None:
    """The processes that are one's own are listed after the sockets, so none of them is missed."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def end_the_server() -> list[int]:
            server.close()
            return []

        assert describe_other_listener(port, end_the_server) is None


def test_the_process_of_another_user_is_described_by_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("brokerproof.machine.ports._list_sockets", lambda _: set())
    with socket.create_server(("127.0.0.1", 0)) as server:
        described = describe_other_listener(server.getsockname()[1], list)
    assert described is not None
    assert described.startswith("a process of the user ")
