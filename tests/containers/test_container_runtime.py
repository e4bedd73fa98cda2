"""The docker runtime, with shells for nodes."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import docker
import psutil
import pytest
from brokerproof import lifecycle
from brokerproof.checks import load_topology
from brokerproof.clock import wait_until
from brokerproof.errors import MachineError, NodeError
from brokerproof.machine import slots
from brokerproof.runtimes import engine
from brokerproof.runtimes.container_runtime import ContainerRuntime
from brokerproof.runtimes.node_addresses import Subnet
from brokerproof.runtimes.protocols import NodeSpec, Program
from brokerproof.settings import from_environment
from builders import TOPOLOGIES

# Beyond those of any slot of this machine.
ADDRESSES = {"eu": "10.223.0.11", "us": "10.223.16.11"}
# The first process of a container gets no signal that it does not ask for.
LIVES = "trap 'exit 0' TERM; echo up; while true; do sleep 0.1; done"


@pytest.fixture
def runtime(client: docker.APIClient, tmp_path: Path) -> Iterator[ContainerRuntime]:
    runtime = ContainerRuntime(tmp_path / "nodes")
    yield runtime
    runtime.release()
    runtime.forget()


@pytest.fixture
def spec(image: str) -> NodeSpec:
    return make_spec(image)


def make_spec(image: str, name: str = "n1", region: str = "eu", code: str = LIVES, **changes: Any) -> NodeSpec:
    values = {"role": "broker", "address": ADDRESSES[region], **changes}
    return NodeSpec(name=name, region=region, image=image, command=("sh", "-c", code), **values)


def start(runtime: ContainerRuntime, spec: NodeSpec) -> None:
    runtime.prepare(spec)
    runtime.start(spec)
    assert runtime.is_alive(spec.name)


def has_printed(runtime: ContainerRuntime, name: str, text: str) -> None:
    wait_until(lambda: text in runtime.log_tail(name), timeout_s=10, what=f"{name} to print {text!r}")


def test_a_node_finds_its_files_and_owns_what_it_writes(runtime: ContainerRuntime, image: str) -> None:
    code = "cat /node/conf/x; echo written > /node/data/y && cat /node/data/y; id -u; " + LIVES
    spec = make_spec(image, code=code, files={"conf/x": "in {node} of {host}\n"})
    start(runtime, spec)
    has_printed(runtime, "n1", "in /node of n1\nwritten\n10000\nup")
    assert (runtime.nodes / "n1" / "conf" / "x").read_text() == "in /node of n1\n"


def test_a_node_that_runs_is_not_started_again(runtime: ContainerRuntime, spec: NodeSpec) -> None:
    start(runtime, spec)
    with pytest.raises(NodeError, match="runs already"):
        runtime.start(spec)


def test_stop_asks_and_kill_does_not(runtime: ContainerRuntime, image: str, spec: NodeSpec) -> None:
    start(runtime, spec)
    has_printed(runtime, "n1", "up")
    runtime.stop("n1", grace_s=20)
    assert runtime.evidence_of_death(spec) == "container ended with 0"
    runtime.start(spec)
    runtime.kill("n1")
    assert runtime.evidence_of_death(spec) == "container ended with 137"
    assert not runtime.is_alive("n1")


def test_one_that_does_not_listen_is_ended_after_the_grace(runtime: ContainerRuntime, image: str) -> None:
    start(runtime, make_spec(image, code="trap '' TERM; while true; do sleep 0.1; done"))
    started = time.monotonic()
    runtime.stop("n1", grace_s=1)
    assert not runtime.is_alive("n1")
    assert 0.9 < time.monotonic() - started < 10


def test_a_frozen_node_does_nothing_until_it_goes_on(runtime: ContainerRuntime, image: str) -> None:
    start(runtime, make_spec(image, code="i=0; while true; do i=$((i+1)); echo $i; sleep 0.05; done"))
    has_printed(runtime, "n1", "3")
    runtime.pause("n1")
    assert runtime.is_paused("n1")
    before = runtime.log_tail("n1", 1)
    time.sleep(0.5)
    assert runtime.log_tail("n1", 1) == before
    runtime.resume("n1")
    assert not runtime.is_paused("n1")
    has_printed(runtime, "n1", str(int(before) + 5))


def test_a_frozen_node_is_killed(runtime: ContainerRuntime, spec: NodeSpec) -> None:
    start(runtime, spec)
    runtime.pause("n1")
    runtime.kill("n1")
    assert not runtime.is_alive("n1")
    runtime.resume("n1")
    assert not runtime.is_alive("n1")


def test_what_it_stored_outlives_a_kill_and_not_a_wipe(runtime: ContainerRuntime, image: str) -> None:
    spec = make_spec(image, code="cat /node/data/y; echo kept > /node/data/y; " + LIVES)
    start(runtime, spec)
    has_printed(runtime, "n1", "up")
    runtime.kill("n1")
    runtime.start(spec)
    has_printed(runtime, "n1", "kept")
    with pytest.raises(NodeError, match="still runs"):
        runtime.wipe(spec)
    runtime.kill("n1")
    runtime.wipe(spec)
    assert runtime.evidence_of_death(spec) == "container not started"
    runtime.start(spec)
    has_printed(runtime, "n1", "No such file")


def test_a_container_that_was_removed_by_hand_is_dead_and_comes_back_with_what_it_stored(
    runtime: ContainerRuntime, image: str, client: docker.APIClient
) -> None:
    spec = make_spec(image, code="cat /node/data/y; echo kept > /node/data/y; " + LIVES)
    start(runtime, spec)
    has_printed(runtime, "n1", "up")
    client.remove_container(runtime._in_engine.name("n1"), force=True)
    assert not runtime.is_alive("n1")
    assert runtime.evidence_of_death(spec) == "no container"
    assert runtime.log_tail("n1") == "(no log)"
    runtime.kill("n1")
    runtime.stop("n1", grace_s=1)
    runtime.start(spec)
    has_printed(runtime, "n1", "kept")


def test_a_node_whose_volume_was_removed_by_hand_does_not_come_back_empty(
    runtime: ContainerRuntime, spec: NodeSpec, client: docker.APIClient
) -> None:
    start(runtime, spec)
    client.remove_container(runtime._in_engine.name("n1"), force=True)
    client.remove_volume(runtime._in_engine.name("n1-data"))
    with pytest.raises(NodeError, match=r"somebody outside the run removed the volume .*n1-data of node n1"):
        runtime.start(spec)


# More than its container may have, which the kernel ends.
GROWS = "x=0123456789abcdef; while true; do x=$x$x; done"


@pytest.mark.parametrize(
    ("code", "act", "how"),
    [
        (LIVES, lambda client, name: client.kill(name), "a signal ended its container, with 137"),
        (LIVES, lambda client, name: client.remove_container(name, force=True), "its container was removed"),
        (GROWS, lambda client, name: None, "its container had no memory left"),
    ],
    ids=["killed", "removed", "out of memory"],
)
def test_who_ends_a_node_from_outside_is_no_failure_of_the_system(
    runtime: ContainerRuntime, image: str, client: docker.APIClient, code: str, act: Any, how: str
) -> None:
    spec = make_spec(image, code=f"echo up; sleep 1; {code}", memory_mb=64)
    start(runtime, spec)
    runtime.check_nobody_interfered()
    act(client, runtime._in_engine.name("n1"))
    wait_until(lambda: not runtime.is_alive("n1"), timeout_s=30, what="n1 to be gone")
    with pytest.raises(NodeError, match=f"somebody outside the run ended node n1: .*{how}"):
        runtime.check_nobody_interfered()
    # As its service manager does, after which the engine knows no more of it.
    assert runtime.start_again(replace(spec, command=("sh", "-c", LIVES)))
    with pytest.raises(NodeError, match=f"somebody outside the run ended node n1: .*{how}"):
        runtime.check_nobody_interfered()


def test_a_node_that_ends_by_itself_or_by_a_fault_was_ended_by_nobody_else(
    runtime: ContainerRuntime, image: str
) -> None:
    spec = make_spec(image, "n1", code="sleep 0.5; exit 3")
    start(runtime, spec)
    other = make_spec(image, "n2", "us")
    start(runtime, other)
    runtime.kill("n2")
    wait_until(lambda: not runtime.is_alive("n1"), timeout_s=10, what="n1 to end")
    runtime.check_nobody_interfered()
    assert runtime.start_again(spec)
    runtime.start(other)
    runtime.check_nobody_interfered()


def test_only_empty_volumes_are_formatted(runtime: ContainerRuntime, image: str) -> None:
    formats = ("sh", "-c", "echo x >> /node/data/formatted")
    spec = make_spec(image, code="cat /node/data/formatted; " + LIVES, format=formats)
    start(runtime, spec)
    has_printed(runtime, "n1", "x\nup")
    runtime.kill("n1")
    runtime.start(spec)
    has_printed(runtime, "n1", "x\nup\nx\nup")


def test_a_program_of_a_node_that_fails_says_why(runtime: ContainerRuntime, image: str) -> None:
    spec = make_spec(image, reset=("sh", "-c", "echo no cookie; exit 7"))
    runtime.prepare(spec)
    with pytest.raises(
        NodeError, match=r"(?s)of node n1 that makes the cluster.*status 7; its last lines are\nno cookie"
    ):
        runtime.reset(spec)


def test_a_program_beside_the_nodes_reaches_them(runtime: ContainerRuntime, image: str) -> None:
    spec = make_spec(image, code="nc -l -p 7000 < /dev/null; " + LIVES)
    start(runtime, spec)
    reaches = Program(
        purpose="reaching a node",
        image=image,
        command=("sh", "-c", f"cat /node/conf/x; until nc -w 1 {spec.address} 7000 < /dev/null; do sleep 0.1; done"),
        files={"conf/x": "hello"},
        timeout_s=20,
    )
    runtime.execute(reaches)
    with pytest.raises(NodeError, match="reaching a node failed: it did not end in 1 s"):
        runtime.execute(Program(purpose="reaching a node", image=image, command=("sleep", "60"), files={}, timeout_s=1))


def test_nodes_of_two_regions_reach_each_other(runtime: ContainerRuntime, image: str) -> None:
    eu = make_spec(image, "n1", "eu", "nc -l -p 7000 < /dev/null; echo met; " + LIVES)
    call = f"until nc -w 1 {ADDRESSES['eu']} 7000 < /dev/null; do sleep 0.1; done; "
    us = make_spec(image, "n2", "us", call + LIVES)
    for spec in (eu, us):
        runtime.prepare(spec)
    for spec in (eu, us):
        runtime.start(spec)
    has_printed(runtime, "n1", "met")


def test_a_death_is_not_believed_while_something_answers_in_its_place(
    runtime: ContainerRuntime, image: str, spec: NodeSpec
) -> None:
    spec = make_spec(image, ports=(7000,))
    start(runtime, spec)
    assert runtime.evidence_of_death(spec) is None
    runtime.kill("n1")
    assert runtime.evidence_of_death(spec) == f"container ended with 137, {spec.address}:7000 does not answer"
    # The engine lets somebody else have the address of a container that does not run.
    start(runtime, make_spec(image, "n2", code="while true; do nc -l -p 7000 < /dev/null; done"))
    wait_until(lambda: runtime.evidence_of_death(spec) is None, timeout_s=10, what="the other one to answer")


def test_containers_of_clients_reach_the_nodes_as_long_as_there_are_some(
    runtime: ContainerRuntime, image: str, client: docker.APIClient
) -> None:
    labels = {engine.CLIENTS: str(from_environment().leases)}
    ours = client.create_container(image, ["sleep", "600"], labels=labels, host_config=client.create_host_config())[
        "Id"
    ]
    client.start(ours)
    try:
        start(runtime, make_spec(image, code="while true; do echo here | nc -l -p 7000; done"))
        heard = client.exec_start(client.exec_create(ours, ["nc", "-w", "10", ADDRESSES["eu"], "7000"])["Id"])
        assert heard == b"here\n"
        runtime.release()
        found = client.inspect_container(ours)
        assert found["State"]["Running"]
        assert list(found["NetworkSettings"]["Networks"]) == ["bridge"]
    finally:
        client.remove_container(ours, force=True)


def test_a_client_that_was_stopped_in_the_middle_of_a_run_starts_again_after_it(
    runtime: ContainerRuntime, image: str, client: docker.APIClient
) -> None:
    labels = {engine.CLIENTS: str(from_environment().leases)}
    ours = client.create_container(image, ["sleep", "600"], labels=labels)["Id"]
    client.start(ours)
    try:
        start(runtime, make_spec(image))
        client.kill(ours)
        runtime.release()
        client.start(ours)
        assert list(client.inspect_container(ours)["NetworkSettings"]["Networks"]) == ["bridge"]
    finally:
        client.remove_container(ours, force=True)


def test_a_published_port_is_on_this_machine_alone(runtime: ContainerRuntime, image: str) -> None:
    spec = make_spec(image, code="while true; do echo here | nc -l -p 7000; done", published={28_999: 7000})
    start(runtime, spec)

    def hear() -> bytes:
        try:
            with socket.create_connection(("127.0.0.1", 28_999), timeout=5) as peer:
                return peer.recv(10)
        except OSError:
            return b""

    wait_until(lambda: hear() == b"here\n", timeout_s=10, what="the node to answer at the published port")
    listening = [one.laddr for one in psutil.net_connections("tcp") if one.status == psutil.CONN_LISTEN]
    assert {one.ip for one in listening if one.port == 28_999} == {"127.0.0.1"}


def test_release_ends_everything_and_keeps_the_logs(
    runtime: ContainerRuntime, image: str, client: docker.APIClient
) -> None:
    start(runtime, make_spec(image, "n1", "eu"))
    start(runtime, make_spec(image, "n2", "us", code="echo broken; sleep 1; exit 3"))
    has_printed(runtime, "n1", "up")
    wait_until(lambda: not runtime.is_alive("n2"), timeout_s=10, what="n2 to end")
    assert runtime.release() == ["n1"]
    assert (runtime.nodes / "n1" / "log" / "node.log").read_text() == "up\n"
    assert (runtime.nodes / "n2" / "log" / "node.log").read_text() == "broken\n"
    assert str(runtime.nodes) in engine.list_runs_in_engine()
    runtime.forget()
    assert str(runtime.nodes) not in engine.list_runs_in_engine()
    assert runtime.release() == []


def test_release_does_not_mind_a_node_that_ends_meanwhile(
    runtime: ContainerRuntime, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(runtime, make_spec(image))
    listed = runtime._in_engine.list_containers()
    assert [one["State"] for one in listed] == ["running"]
    runtime.kill("n1")
    listings = iter([listed])
    list_now = runtime._in_engine.list_containers
    monkeypatch.setattr(runtime._in_engine, "list_containers", lambda: next(listings, None) or list_now())
    assert runtime.release() == ["n1"]


def test_release_does_not_mind_a_container_that_leaves_or_comes_meanwhile(
    runtime: ContainerRuntime, image: str, client: docker.APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those do that the engine was stopping or making for a process that was killed."""
    start(runtime, make_spec(image))
    [network] = runtime._in_engine.list_networks()
    leaving, coming = (client.create_container(image, ["sleep", "600"])["Id"] for _ in range(2))
    for each in (leaving, coming):
        client.start(each)
    client.connect_container_to_network(leaving, network["Id"])
    inspect, remove = client.inspect_network, client.remove_network
    refused = []

    def inspect_and_leave(name: str) -> Any:
        found = inspect(name)
        if leaving in found["Containers"]:
            client.disconnect_container_from_network(leaving, name)
        return found

    def come_and_remove(name: str) -> None:
        if not refused:
            client.connect_container_to_network(coming, name)
        try:
            remove(name)
        except docker.errors.APIError as error:
            refused.append(error)
            raise

    monkeypatch.setattr(engine, "connect", lambda _: client)
    monkeypatch.setattr(client, "inspect_network", inspect_and_leave)
    monkeypatch.setattr(client, "remove_network", come_and_remove)
    try:
        assert runtime.release() == ["n1"]
        assert [error.status_code for error in refused] == [403]
        assert runtime._in_engine.list_networks() == []
    finally:
        for each in (leaving, coming):
            client.remove_container(each, force=True)


def test_release_removes_what_the_engine_made_after_it_had_looked(
    runtime: ContainerRuntime, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(runtime, make_spec(image))
    end = runtime._end

    def end_and_make(container: Any) -> None:
        end(container)
        runtime._make_node(make_spec(image, "n2"))

    monkeypatch.setattr(runtime, "_end", end_and_make)
    assert runtime.release() == ["n1"]
    assert runtime._in_engine.list_containers() == []


def test_a_run_is_ended_in_the_engine_that_it_began_in(
    runtime: ContainerRuntime, image: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    start(runtime, make_spec(image))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    assert ContainerRuntime(runtime.nodes).release() == ["n1"]


def test_where_an_engine_does_not_answer_for_a_dead_run_another_slot_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKERPROOF_LEASES", str(tmp_path / "leases"))
    monkeypatch.setenv("BROKERPROOF_MAX_CLUSTERS", "2")
    dead = tmp_path / "dead"
    (dead / "nodes").mkdir(parents=True)
    (dead / "nodes" / "containers.json").write_text(json.dumps({"host": f"unix://{tmp_path}/nobody.sock"}))
    with slots.take(timeout_s=5) as slot:
        assert slot.number == 0
        slot.assign(str(dead))
    with slots.take(timeout_s=5, excluded=[0]) as slot:
        slot.assign(str(tmp_path / "ended"))
    # `down` ends what can be ended, and says what cannot.
    with pytest.raises(MachineError, match=r"nobody\.sock cannot be used"):
        lifecycle.down(below=tmp_path)
    assert slots.list_assigned_runs() == [str(dead)]
    with lifecycle._take_clean_slot(5) as slot:
        assert slot.number == 1
        slot.assign(str(dead))
    with pytest.raises(MachineError, match=r"nobody\.sock cannot be used"):
        lifecycle._take_clean_slot(5)
    assert slots.list_held_runs() == []


def test_what_a_killed_caller_left_is_found_by_its_run(
    runtime: ContainerRuntime, image: str, client: docker.APIClient
) -> None:
    stranger = client.create_container(image, ["sleep", "600"], name=f"stranger-{os.getpid()}")["Id"]
    try:
        if os.fork() == 0:
            start(runtime, make_spec(image))
            os._exit(0)
        os.wait()
        assert "n1" in lifecycle.end_run(str(runtime.nodes.parent))
        assert str(runtime.nodes) not in engine.list_runs_in_engine()
        assert client.inspect_container(stranger)["State"]["Status"] == "created"
    finally:
        client.remove_container(stranger, force=True)


def test_the_next_run_of_a_slot_removes_what_the_last_one_left(
    runtime: ContainerRuntime, image: str, tmp_path: Path
) -> None:
    start(runtime, make_spec(image))
    # Its directory was deleted by hand, so nothing but the labels leads to it.
    (runtime.nodes / "containers.json").unlink()
    after = ContainerRuntime(tmp_path / "after" / "nodes")
    try:
        start(after, make_spec(image))
        assert str(runtime.nodes) not in engine.list_runs_in_engine()
    finally:
        after.release()
        after.forget()


def test_a_run_that_goes_on_keeps_its_addresses(runtime: ContainerRuntime, image: str, tmp_path: Path) -> None:
    start(runtime, make_spec(image))
    with slots.take(timeout_s=5) as slot:
        slot.assign(str(runtime.nodes.parent))
        with pytest.raises(MachineError, match="overlaps another one of this machine"):
            ContainerRuntime(tmp_path / "after" / "nodes").prepare(make_spec(image))
        slot.clear()
    assert runtime.is_alive("n1")


def test_the_next_run_of_the_slot_ends_a_run_whose_directory_is_gone(
    client: docker.APIClient, image: str, tmp_path: Path
) -> None:
    gone = ContainerRuntime(tmp_path / "gone" / "nodes")
    start(gone, make_spec(image))
    shutil.rmtree(tmp_path / "gone")
    assert lifecycle.end_run(str(tmp_path / "gone")) == ["n1"]
    assert engine.list_runs_in_engine() == []


def test_down_finds_what_a_run_left_whose_directory_is_gone(
    runtime: ContainerRuntime, image: str, tmp_path: Path
) -> None:
    start(runtime, make_spec(image))
    other = ContainerRuntime(tmp_path / "other" / "nodes")
    start(other, make_spec(image, "n2", "us"))
    shutil.rmtree(runtime.nodes)
    assert lifecycle.down(below=runtime.nodes) == ["n1"]
    assert engine.list_runs_in_engine() == [str(other.nodes)]
    assert lifecycle.down(below=tmp_path) == ["n2"]
    assert engine.list_runs_in_engine() == []


def test_down_says_that_the_engine_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    with pytest.raises(MachineError, match=r"Docker's engine .*cannot be used"):
        lifecycle.down(below=tmp_path)


def test_the_run_of_another_installation_is_left_alone(
    runtime: ContainerRuntime, image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(runtime, make_spec(image))
    # It counts slots of its own, so that its run and this one may have the same number.
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("BROKERPROOF_LEASES", str(tmp_path / "leases"))
        assert engine.list_runs_in_engine() == []
        with pytest.raises(MachineError, match="overlaps another one of this machine"):
            ContainerRuntime(tmp_path / "after" / "nodes").prepare(make_spec(image))
    assert runtime.is_alive("n1")


def test_a_network_of_somebody_else_is_named_and_left_alone(
    runtime: ContainerRuntime, image: str, client: docker.APIClient
) -> None:
    pool = {"Subnet": str(Subnet.around(ADDRESSES["eu"]).whole)}
    network = client.create_network(f"stranger-{os.getpid()}", ipam={"Config": [pool]})["Id"]
    try:
        with pytest.raises(
            MachineError, match=r"10\.223\.0\.0/20 of region eu overlaps.*BROKERPROOF_CONTAINER_SUBNETS"
        ):
            runtime.prepare(make_spec(image))
        assert client.inspect_network(network)["Id"] == network
    finally:
        client.remove_network(network)


def test_an_image_that_nobody_has_is_named(runtime: ContainerRuntime, client: docker.APIClient) -> None:
    with pytest.raises(
        MachineError, match=r"the image localhost:1/none:1 is not here and cannot be fetched.*docker load"
    ):
        runtime.prepare(make_spec("localhost:1/none:1"))


def test_a_file_of_an_image_is_read_without_starting_it(runtime: ContainerRuntime, image: str) -> None:
    assert runtime.read_image_file(image, "/etc/shipped") == "as shipped\n"
    with pytest.raises(NodeError, match="/etc/nothing cannot be read"):
        runtime.read_image_file(image, "/etc/nothing")


def test_an_engine_that_does_not_answer_is_a_sentence(
    runtime: ContainerRuntime, spec: NodeSpec, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    with pytest.raises(
        MachineError,
        match=r"Docker's engine at unix:.*nobody.sock cannot be used: .*; start Docker, or say in DOCKER_HOST",
    ):
        runtime.prepare(spec)
    with pytest.raises(MachineError, match=r"Docker's engine .*cannot be used"):
        runtime.require(load_topology("sync_active_passive", TOPOLOGIES))


def test_a_run_that_asked_no_engine_needs_none_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    runtime = ContainerRuntime(tmp_path / "nodes")
    assert runtime.release() == []
    runtime.forget()


def test_everything_says_whose_it_is(runtime: ContainerRuntime, image: str, client: docker.APIClient) -> None:
    start(runtime, make_spec(image, memory_mb=64))
    labels = {engine.RUN: str(runtime.nodes), engine.SLOTS: str(from_environment().leases)}
    filters = {"label": [f"{name}={value}" for name, value in labels.items()]}
    (container,) = client.containers(filters=filters)
    assert {name: container["Labels"][name] for name in (engine.NODE, engine.ROLE, engine.REGION)} == {
        engine.NODE: "n1", engine.ROLE: "broker", engine.REGION: "eu",
    }  # fmt: skip
    assert len(client.networks(filters=filters)) == len(client.volumes(filters=filters)["Volumes"]) == 1
    assert client.inspect_container(container["Id"])["HostConfig"]["Memory"] == 64 * 2**20
    assert json.loads((runtime.nodes / "containers.json").read_text()) == {**labels, "host": os.environ["DOCKER_HOST"]}


def test_a_node_that_ends_by_itself_is_started_again_and_one_that_was_killed_is_not(
    runtime: ContainerRuntime, image: str
) -> None:
    spec = make_spec(image, code="echo up; sleep 0.5; exit 1")
    start(runtime, spec)
    runtime.supervise([spec], {"n1": 0.2})
    events = wait_until(
        lambda: found if len(found := runtime.list_restart_events()) >= 4 else [], timeout_s=30, what="two restarts"
    )
    assert [str(event.step) for event in events[:4]] == ["ended", "restarted"] * 2
    runtime.kill("n1")
    before = runtime.list_restart_events()
    time.sleep(1.5)
    assert not runtime.is_alive("n1")
    assert runtime.list_restart_events() == before
    runtime.check_supervision()
    runtime.end_supervision()
    with pytest.raises(NodeError, match="does not run"):
        runtime.check_supervision()
