"""To which side of a fault a lost message belongs, and what leaves the losses open."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from brokerproof import clock
from brokerproof.run.tables import SCHEMAS
from brokerproof_judging.database import open_database
from brokerproof_judging.measurements.losses import measure_losses
from brokerproof_judging.measurements.run_times import EffectiveFault, Span

from ..history import SECOND, START

EFFECT, NEXT = 20, 40


def measure(
    *messages: tuple[float | None, str],
    destroyed: Sequence[tuple[str, int, int | None]] = (),
    outcome: str = "acked",
    of_subscription: str = "",
) -> dict[str, tuple[float | None, bool]]:
    """The losses of a fault, each with whether it is "at least".

    A message is when it was sent to `main`, and its anomaly in the log. Each has its outcome 0.2 s later, and the
    anomaly `of_subscription` in a subscription.
    """
    rows = []
    for seq, (sent, anomaly) in enumerate(messages):
        times = [None if sent is None else clock.to_utc(START + int(at * SECOND)) for at in (sent, (sent or 0) + 0.2)]
        sent_at, settled_at = times
        message = {"topic": "t", "producer": "p0", "seq": seq, "home": "main", "outcome": outcome, "copies": 0}
        message |= {"sent_at": sent_at, "settled_at": settled_at}
        rows.append({**message, "anomalies": [anomaly]})
        if of_subscription:
            rows.append({**message, "subscription": "audit", "anomalies": [of_subscription]})
    span = Span(start_us=START + EFFECT * SECOND, end_us=START + 80 * SECOND)
    fault = EffectiveFault(name="gone", targets=(), span=span, client_span=span)
    with open_database() as connection:
        connection.register("messages", pa.Table.from_pylist(rows, schema=SCHEMAS["messages"]))
        found = measure_losses(connection, [fault], destroyed)["gone"]
    return {metric: (estimate.value, estimate.at_least) for metric, estimate in found.items()}


@pytest.mark.parametrize(("sent", "before"), [(EFFECT - 5, 1.0), (EFFECT - 0.1, 1.0), (EFFECT, 0.0), (EFFECT + 1, 0.0)])
def test_a_loss_belongs_to_the_time_before_the_effect_if_the_message_was_sent_then(sent: float, before: float) -> None:
    found = measure((sent, "lost"))
    assert found["rpo_messages"] == (before, False)
    assert found["lost_later_messages"] == (1.0 - before, False)


def test_a_seen_message_without_an_ack_is_a_loss_without_an_age() -> None:
    found = measure((EFFECT - 5, "lost"), (EFFECT + 5, "lost"), outcome="unknown")
    assert found == {"rpo_messages": (1.0, False), "rpo_s": (0.0, False), "lost_later_messages": (1.0, False)}
    # A message that failed for certain and was delivered is none.
    assert measure((EFFECT - 5, "position_conflict"), outcome="failed")["rpo_messages"] == (0.0, False)


def test_a_loss_with_an_unknown_time_of_sending_belongs_to_the_time_before_the_effect() -> None:
    found = measure((None, "lost"), outcome="unknown")
    assert (found["rpo_messages"], found["lost_later_messages"]) == ((1.0, False), (0.0, False))


def test_a_message_that_was_acked_after_the_effect_has_no_age_at_the_effect() -> None:
    assert measure((EFFECT - 0.1, "lost"))["rpo_s"] == (0.0, False)


@pytest.mark.parametrize("anomaly", ["unproven", "unreadable"])
@pytest.mark.parametrize(("sent", "before"), [(EFFECT - 5, True), (EFFECT, False), (EFFECT + 5, False)])
def test_a_message_that_may_be_there_or_not_leaves_the_losses_of_its_time_open(
    anomaly: str, sent: float, before: bool
) -> None:
    found = measure((EFFECT - 1, "lost"), (EFFECT + 1, "lost"), (sent, anomaly))
    assert found["rpo_messages"] == (1.0, before)
    assert found["rpo_s"] == (0.8, before)
    assert found["lost_later_messages"] == (1.0, not before)


@pytest.mark.parametrize(
    ("home", "sent", "later"), [("main", NEXT - 1, 0.0), ("main", NEXT, 1.0), ("other", NEXT - 1, 1.0)]
)
@pytest.mark.parametrize("anomaly", ["lost", "unproven"])
def test_what_the_next_fault_destroyed_is_no_later_loss_of_this_one(
    anomaly: str, home: str, sent: float, later: float
) -> None:
    found = measure((sent, anomaly), destroyed=[(home, START + NEXT * SECOND, None)])
    is_open = anomaly == "unproven" and later > 0
    assert found["lost_later_messages"] == (0.0 if anomaly == "unproven" else later, is_open)


@pytest.mark.parametrize("anomaly", ["unproven", "lost"])
def test_only_what_a_log_lacks_is_a_loss(anomaly: str) -> None:
    found = measure((EFFECT - 5, "corrupted"), (EFFECT + 5, "corrupted"), of_subscription=anomaly)
    assert (found["rpo_messages"], found["lost_later_messages"]) == ((0.0, False), (0.0, False))
