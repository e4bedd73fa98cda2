"""The log server behind Brokerproof's protocols: what it refuses, and its parts asked of real servers."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from brokerproof import clock, lifecycle
from brokerproof.checks import load_scenario
from brokerproof.clock import wait_until
from brokerproof.errors import AdminError, InputError
from brokerproof.machine.processes import find_marked_processes
from brokerproof.results.run_outcome import collect_restarts
from brokerproof.run.directory import Run
from brokerproof.run.records import ObservationsRequested, ObservationsWritten, read_record, write_record
from brokerproof.run.tables import AttemptOutcome
from brokerproof.runtimes.process_runtime import ProcessRuntime
from brokerproof.runtimes.registry import make_runtime
from brokerproof.systems.clients import Settled, hash_payload, make_payload
from brokerproof.systems.registry import make_clients, make_observation, make_provisioning
from own_slots import own_slots

SYSTEMS = Path(__file__).resolve().parent
MESSAGES = 200


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """The system in the registry, and slots of the test's own."""
    monkeypatch.setenv("BROKERPROOF_SYSTEMS", "testlog=testlog_system.system:TESTLOG")
    monkeypatch.setenv("PYTHONPATH", str(SYSTEMS), prepend=os.pathsep)
    with own_slots(tmp_path / "leases", 1):
        yield


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """A run whose three servers are up and configured."""
    scenario, topology = load_scenario(SYSTEMS / "scenarios" / "nominal.yaml", SYSTEMS / "topologies")
    begun = lifecycle.reserve(scenario, topology, directory=str(tmp_path / "run"), run_id="nominal-1")
    try:
        lifecycle.provision(begun)
        lifecycle.configure(begun)
        yield begun
    finally:
        lifecycle.release(begun)


def load_changed(**overrides: Any) -> None:
    load_scenario(SYSTEMS / "scenarios" / "nominal.yaml", SYSTEMS / "topologies", overrides)


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("workload.subscriptions", [{"name": "audit", "consumers": 2}], "has one consumer"),
        ("workload.client.batch_by_key", True, r"nominal\.yaml: workload\.client\.batch_by_key: unknown field"),
        ("workload.client.answer_timeout", 1, r"workload\.client\.answer_timeout: .*did you mean `answer_timeout_s`"),
        ("workload.client.answer_timeout_s", 0, r"workload\.client\.answer_timeout_s: is `0`, .*a number above 0"),
        ("workload.client.max_pending", 0, r"workload\.client\.max_pending: is `0`, .*write at least 1"),
        ("guarantee", "effectively_once", "testlog cannot store a message once that its producer sends again"),
        ("overrides", {"clusters.log.misbehaviour": "sleep"}, "clusters.log.misbehaviour"),
        ("overrides", {"clusters.log.misbehavior": "lose"}, "did you mean `misbehaviour`"),
        ("overrides", {"clusters.log.nodes.server-1.role": "broker"}, "no role of testlog is called `broker`"),
        ("overrides", {"clusters.log.nodes.server-1.standby": True}, "leave it out"),
        (
            "faults",
            [{"name": "dead", "kind": "kill", "targets": {"now": "topic_holders"}}],
            "testlog cannot say which nodes hold the copies",
        ),
    ],
)
def test_what_the_system_cannot_do_is_refused_before_the_run(path: str, value: Any, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        load_changed(**{path: value})


def test_a_scenario_has_the_settings_of_its_systems_clients_with_their_defaults() -> None:
    scenario, _ = load_scenario(
        SYSTEMS / "scenarios" / "nominal.yaml", SYSTEMS / "topologies", {"workload.client.answer_timeout_s": 3}
    )
    assert scenario.workload.client.model_dump() == {
        "operation_timeout_s": 30,
        "max_pending": 10_000,
        "on_restart": None,
        "answer_timeout_s": 3.0,
    }


def test_messages_come_back_with_their_identity_and_the_log_is_read_to_its_exclusive_end(run: Run) -> None:
    clients = make_clients(run, "log")
    settled: list[Settled] = []
    producer = clients.producer("p")
    for seq in range(MESSAGES):
        producer.send(seq, f"k{seq % 3}", make_payload("p", seq, 50), settled.append)
    wait_until(lambda: len(settled) == MESSAGES, timeout_s=20, what="the acks")
    producer.close()
    assert {each.outcome for each in settled} == {AttemptOutcome.ACKED}
    positions = [each.position for each in settled]
    assert None not in positions

    (log,) = make_observation(run).find_logs()
    reader = clients.reader(log.partition)
    read = []
    while not (reader.at_end() and log.end is not None and reader.next_position().reaches(log.end)):  # type: ignore[union-attr]
        if (message := reader.read(1.0)) is not None:
            read.append(message)
    found = clients.describe(read)
    assert list(zip(found["producer"], found["seq"], found["segment"], found["offset"], strict=True)) == [
        ("p", seq, position.segment, position.offset) for seq, position in enumerate(positions) if position is not None
    ]
    assert list(found["payload_hash"]) == [hash_payload(make_payload("p", seq, 50)) for seq in range(MESSAGES)]
    # A control record takes the last offset, so no message ever has it.
    assert log.end is not None
    assert found["offset"][-1] < log.end.offset - 1


def test_a_subscription_drains_and_confirms_its_acks(run: Run) -> None:
    clients, observation = make_clients(run, "log"), make_observation(run)
    (subscription,) = run.scenario.workload.subscriptions
    consumer = clients.consumer(subscription, "c")
    settled: list[Settled] = []
    producer = clients.producer("p")
    for seq in range(MESSAGES):
        producer.send(seq, "k", b"x", settled.append)
    wait_until(lambda: len(settled) == MESSAGES, timeout_s=20, what="the acks")
    (drain,) = observation.find_subscription_drains()
    assert not drain.drained
    assert drain.backlog == MESSAGES
    for _ in range(MESSAGES):
        message = consumer.receive(5.0)
        assert message is not None
        consumer.acknowledge(message)
    consumer.close()
    wait_until(lambda: observation.find_subscription_drains()[0].drained, timeout_s=10, what="the drain")
    last = settled[-1].position
    assert last is not None
    assert observation.find_acknowledged("log", "audit")[-1].offset == last.offset + 1


def test_a_killed_leader_is_seen_dead_and_replaced(run: Run) -> None:
    observation, provisioning, runtime = make_observation(run), make_provisioning(run), make_runtime(run)
    leader = observation.find_owner()
    assert leader is not None
    spec = provisioning.specs()[leader]
    assert provisioning.is_healthy(spec)
    assert runtime.evidence_of_death(spec) is None
    runtime.kill(leader)
    assert runtime.evidence_of_death(spec) is not None
    assert not provisioning.is_healthy(spec)

    def is_led_by_another() -> bool:
        try:
            return observation.find_owner() != leader
        except AdminError:
            return False

    wait_until(is_led_by_another, timeout_s=20, what="another leader")
    wait_until(
        lambda: leader not in observation.list_alive()["server"], timeout_s=20, what="the list without the dead one"
    )


def test_a_server_that_crashes_is_started_again_by_its_service_manager_and_one_that_was_killed_is_not(
    tmp_path: Path,
) -> None:
    overrides = {"overrides.restart": {"server": {"after_s": 1}}}
    scenario, topology = load_scenario(SYSTEMS / "scenarios" / "nominal.yaml", SYSTEMS / "topologies", overrides)
    run = lifecycle.reserve(scenario, topology, directory=str(tmp_path / "run"), run_id="managed-1")
    try:
        lifecycle.provision(run)
        lifecycle.configure(run)
        runtime, provisioning = ProcessRuntime(Path(run.path("nodes"))), make_provisioning(run)
        specs = provisioning.specs()
        runtime.kill("server-1")
        # As it ends by itself: the runtime does not know of it.
        os.kill(runtime.pids()["server-2"], signal.SIGKILL)
        wait_until(lambda: not runtime.is_alive("server-2"), timeout_s=10, what="the crash", every_s=0.01)
        wait_until(lambda: provisioning.is_healthy(specs["server-2"]), timeout_s=20, what="the server that crashed")
        assert not runtime.is_alive("server-1")
        runtime.start(specs["server-1"])
        wait_until(lambda: provisioning.is_healthy(specs["server-1"]), timeout_s=20, what="the server that was killed")
        write_record(run, ObservationsRequested(at=clock.now_us()))
        wait_until(lambda: read_record(run, ObservationsWritten), timeout_s=30, what="the samples")
    finally:
        ended = lifecycle.release(run)
    assert sorted(ended) == ["server-1", "server-2", "server-3"]
    assert not list(find_marked_processes(tmp_path))
    (restarts,) = collect_restarts(run)
    assert (restarts.node, restarts.ended, restarts.restarted) == ("server-2", 1, 1)
    assert restarts.first_restarted_at is not None
    assert 1.0 <= (restarts.first_restarted_at - restarts.first_ended_at) / 1e6 < 10


def test_where_nobody_answers_it_is_an_error_and_never_a_good_answer(run: Run) -> None:
    observation, runtime = make_observation(run, patience_s=1.0), make_runtime(run)
    for name in run.topology.nodes:
        runtime.kill(name)
    started = time.monotonic()
    for ask in (observation.find_owner, observation.count_published, observation.list_alive):
        with pytest.raises(AdminError):
            ask()
    (drain,) = observation.find_subscription_drains()
    assert not drain.drained
    assert drain.backlog is None
    (log,) = observation.find_logs()
    assert log.why is not None
    assert log.end is None
    assert time.monotonic() - started < 30
