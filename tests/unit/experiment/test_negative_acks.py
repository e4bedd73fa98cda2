"""Subscriptions that answer negatively, and hot keys: what a scenario may say of them."""

from __future__ import annotations

from typing import Any

import pytest
from brokerproof.experiment.workload import Subscription, Workload
from pydantic import ValidationError


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"type": "failover"}, "type"),
        ({"type": "exclusive"}, "type"),
        ({"type": "shared", "commit": "after"}, "commit"),
    ],
)
def test_only_a_subscription_that_shares_and_writes_no_outputs_answers_negatively(
    values: dict[str, Any], field: str
) -> None:
    Subscription.model_validate({"name": "s", **values})
    with pytest.raises(ValidationError, match=f"{field}: only a subscription that shares its messages"):
        Subscription.model_validate({"name": "s", **values, "negative_ack_every": 10})


@pytest.mark.parametrize("kind", ["shared", "key_shared"])
def test_a_subscription_that_shares_answers_negatively(kind: str) -> None:
    subscription = Subscription.model_validate({"name": "s", "type": kind, "negative_ack_every": 10})
    assert Subscription.model_validate_json(subscription.model_dump_json()) == subscription


def test_a_hot_key_needs_another_key_of_its_producer() -> None:
    assert Workload(producers=2, keys=4, hot_key_share=0.5).hot_key_share == 0.5
    assert Workload(producers=2, keys=3).hot_key_share is None
    with pytest.raises(ValidationError, match="hot_key_share: a producer with one key has no other keys"):
        Workload(producers=2, keys=3, hot_key_share=0.5)
