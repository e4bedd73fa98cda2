"""To which side of a fault a lost message belongs, and what makes the losses unknown."""

from __future__ import annotations

import pytest
from brokerproof import clock
from brokerproof_judging.measurements.losses import measure_losses
from brokerproof_judging.measurements.run_times import EffectiveFault, Span
from pyspark.sql import SparkSession

from ..history import SECOND, START

EFFECT = 20
MESSAGES = (
    "topic string, producer string, seq bigint, subscription string, outcome string, anomalies array<string>, "
    "copies int, sent_at timestamp, settled_at timestamp"
)


def measure(spark: SparkSession, *messages: tuple[float, str]) -> dict[str, float | None]:
    """The losses of a fault; a message is when it was sent, and its anomaly. Each was acked 0.2 s later."""
    rows = [
        (
            "t",
            "p0",
            seq,
            None,
            "acked",
            [anomaly],
            0,
            *(clock.to_utc(START + int(at * SECOND)) for at in (sent, sent + 0.2)),
        )
        for seq, (sent, anomaly) in enumerate(messages)
    ]
    span = Span(start_us=START + EFFECT * SECOND, end_us=START + 80 * SECOND)
    fault = EffectiveFault(name="gone", targets=(), span=span, client_span=span)
    found = measure_losses(spark.createDataFrame(rows, MESSAGES), [fault])["gone"]
    return {metric: reading.value for metric, reading in found.items()}


@pytest.mark.parametrize(("sent", "before"), [(EFFECT - 5, 1.0), (EFFECT - 0.1, 1.0), (EFFECT, 0.0), (EFFECT + 1, 0.0)])
def test_a_loss_belongs_to_the_time_before_the_effect_if_the_message_was_sent_then(
    spark: SparkSession, sent: float, before: float
) -> None:
    found = measure(spark, (sent, "lost"))
    assert (found["rpo_messages"], found["lost_later_messages"]) == (before, 1.0 - before)


@pytest.mark.parametrize("anomaly", ["unproven", "unreadable"])
@pytest.mark.parametrize(("sent", "known"), [(EFFECT - 5, "lost_later_messages"), (EFFECT + 5, "rpo_messages")])
def test_a_message_that_may_be_there_or_not_makes_the_losses_of_its_time_unknown(
    spark: SparkSession, anomaly: str, sent: float, known: str
) -> None:
    found = measure(spark, (EFFECT - 1, "lost"), (EFFECT + 1, "lost"), (sent, anomaly))
    assert {metric: found[metric] for metric in ("rpo_messages", "lost_later_messages")} == {
        **dict.fromkeys(("rpo_messages", "lost_later_messages")),
        known: 1.0,
    }
