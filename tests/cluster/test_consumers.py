"""Real consumers of a subscription: their samples change when one connects anew, joins or leaves, and only then."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from brokerproof import lifecycle
from brokerproof.clock import wait_until
from brokerproof.experiment.workload import Subscription
from brokerproof.run.directory import Run
from brokerproof.systems.pulsar.observation import PulsarObservation
from brokerproof.systems.pulsar.system import PulsarAdministration
from brokerproof.systems.registry import make_clients


@pytest.mark.usefixtures("prepared")
def test_the_samples_of_consumers_change_with_their_connections(reserve_small: Callable[..., Run]) -> None:
    subscriptions = [{"name": kind, "type": kind} for kind in ("failover", "exclusive", "key_shared")]
    # The first client of a broker on a busy machine waits longer than the usual 30 s.
    workload = {"workload.subscriptions": subscriptions, "workload.client": {"operation_timeout_s": 120}}
    run = reserve_small("consumers", **workload)
    lifecycle.provision(run)
    lifecycle.configure(run)
    observation = PulsarObservation(run)
    sampler = observation.samplers()["topic"]

    def sample(kind: str) -> list[str]:
        values = {each.metric: each.value for each in sampler()}
        return [str(each) for each in json.loads(values.get(f"consumers:{kind}") or "[]")]

    clients = make_clients(run, "small")
    try:
        kinds: dict[str, Any] = {each.name: each for each in run.scenario.workload.subscriptions}
        assert isinstance(kinds["failover"], Subscription)
        consumers = {kind: clients.consumer(kinds[kind], f"{kind}-c0") for kind in kinds}
        first = {kind: sample(kind) for kind in kinds}
        assert {kind: len(names) for kind, names in first.items()} == dict.fromkeys(kinds, 1)
        assert {kind: first[kind][0].endswith(", active") for kind in kinds} == {
            "failover": True,
            "exclusive": True,
            "key_shared": False,
        }
        assert {kind: sample(kind) for kind in kinds} == first
        for kind in ("failover", "key_shared"):
            second = clients.consumer(kinds[kind], f"{kind}-c1")
            assert len(sample(kind)) == 2
            assert first[kind][0] in sample(kind)
            second.close()
            wait_until(lambda kind=kind: sample(kind) == first[kind], timeout_s=10, what="the second one's end")
        # The topic's owner lets go of it, and the consumers connect anew.
        PulsarAdministration(run).unload("small")
        for kind in kinds:
            wait_until(lambda kind=kind: len(sample(kind)) == 1, timeout_s=30, what="the consumers are back")
            assert sample(kind) != first[kind]
        for consumer in consumers.values():
            consumer.close()
    finally:
        clients.close()
