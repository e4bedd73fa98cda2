"""Subscriptions of streaming queries: what a scenario may say of them, and what their outputs are promised."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from brokerproof.experiment.guarantees import Guarantee
from brokerproof.experiment.workload import ClientRole, Commit, Subscription, Workload
from pydantic import ValidationError


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("commit", "after"),
        ("consumers", 2),
        ("standby", 1),
        ("acks", "individual"),
        ("replicated", True),
        ("type", "shared"),
        ("moves", {"to": "other", "after": "gone"}),
        ("negative_ack_every", 2),
    ],
)
def test_a_streaming_query_has_nothing_that_only_brokers_know(field: str, value: Any) -> None:
    with pytest.raises(ValidationError, match=f"{field}: a streaming query is one consumer"):
        Subscription.model_validate({"name": "stream", "streaming": "after", field: value})


def test_a_recorded_streaming_query_is_read_again() -> None:
    subscription = Subscription.model_validate({"name": "stream", "streaming": "by_batch", "region": "eu"})
    assert Subscription.model_validate_json(subscription.model_dump_json()) == subscription


@pytest.mark.parametrize(
    ("streaming", "guarantee"),
    [
        ("before", Guarantee.AT_MOST_ONCE),
        ("after", Guarantee.AT_LEAST_ONCE),
        ("by_batch", Guarantee.EFFECTIVELY_ONCE),
        ("foreach", Guarantee.AT_LEAST_ONCE),
    ],
)
def test_each_way_to_write_has_its_guarantee(streaming: str, guarantee: Guarantee) -> None:
    subscription = Subscription.model_validate({"name": "stream", "streaming": streaming})
    assert subscription.outputs_guarantee is guarantee


def test_brokers_know_no_streaming_query() -> None:
    plain, processing = Subscription(name="plain"), Subscription(name="processing", commit=Commit.AFTER)
    streaming = Subscription.model_validate({"name": "stream", "streaming": "foreach"})
    workload = Workload(subscriptions=[plain, processing, streaming])
    assert workload.known_subscriptions == [plain, processing]
    assert workload.writes_outputs
    assert not Workload(subscriptions=[plain]).writes_outputs


def test_a_streaming_query_has_longer_to_start_than_a_consumer() -> None:
    workload = Workload(subscriptions=[Subscription(name="plain"), Subscription(name="stream", streaming="by_batch")])
    topology = SimpleNamespace(clusters={"mycluster": None})
    plain, stream = workload.list_clients(topology, ClientRole.CONSUMER)  # type: ignore[arg-type]
    assert [plain.start_s, stream.start_s] == [60, 300]
    assert [plain.moment_s, stream.moment_s] == [20, 120]
