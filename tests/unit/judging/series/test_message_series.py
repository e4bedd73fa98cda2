"""The series of messages: what is counted in which step."""

from __future__ import annotations

from brokerproof_judging.series.message_series import TimeSteps, make_message_series

from ..history import REPLICATED, SECOND, START, History
from ..judged import Judged

STEPS = TimeSteps(start_us=START, step_s=1, count=4)


def test_each_message_counts_in_the_step_of_its_schedule_its_ack_and_its_delivery(spark, tmp_path):
    history = History()
    history.message("p0", 0, at=0)
    # Scheduled in the first second, acked in the third, delivered twice in the fourth.
    late = history.message("p0", 1, at=900_000)
    late["settled_at"] = START + 2 * SECOND + 100_000
    (delivered,) = history.rows("deliveries", "p0", 1)
    delivered["received_at"] = START + 3 * SECOND
    history.deliver(at=3 * SECOND + 5, producer="p0", seq=1, offset=delivered["offset"], key=delivered["key"])
    # One with an unknown outcome, one that failed, and one that was not sent.
    history.publish(at=SECOND, producer="p0", seq=2, outcome="unknown")
    history.publish(at=SECOND + 1, producer="p0", seq=3, outcome="failed")
    history.publish(at=2 * SECOND, producer="p0", seq=4, outcome="not_sent", sent_at=None, settled_at=None)
    run = Judged(spark, tmp_path / "run", history).run

    (published,), (received,) = make_message_series(run, STEPS)

    assert published.cluster == "main"
    assert published.acked == (1, 0, 1, 0)
    assert published.unknown == (0, 1, 0, 0)
    assert published.failed == (0, 1, 0, 0)
    assert published.not_sent == (0, 0, 1, 0)
    # 400 µs and 1.2 s, both by the first second, in which they were scheduled.
    assert published.p50_ms == (0.4, None, None, None)
    assert published.max_ms == (1200.0, None, None, None)
    assert (received.cluster, received.subscription) == ("main", "audit")
    assert received.delivered == (1, 0, 0, 2)
    # From schedule to first delivery.
    assert received.p50_ms == (0.5, None, None, 2100.0)


def test_what_happened_outside_the_steps_is_not_squeezed_into_them(spark, tmp_path):
    history = History()
    history.message("p0", 0, at=0)
    history.message("p0", 1, at=60 * SECOND)
    run = Judged(spark, tmp_path / "run", history).run
    (published,), (received,) = make_message_series(run, STEPS)
    assert sum(published.acked) == 1
    assert sum(received.delivered) == 1


def test_a_run_without_messages_has_no_series(spark, tmp_path):
    run = Judged(spark, tmp_path / "run", History()).run
    assert make_message_series(run, STEPS) == ((), ())


def test_only_the_home_of_a_message_counts_its_publishing(spark, tmp_path):
    subscriptions = [{"name": "audit"}, {"name": "near"}, {"name": "far", "cluster": "other"}]
    history = History(clusters=("main", "other"), subscriptions=subscriptions)
    history.topic = f"persistent://{REPLICATED}/orders"
    history.message("p0", 0, at=0)
    history.publish(at=SECOND, producer="p0", seq=1, outcome="unknown")
    run = Judged(spark, tmp_path / "run", history).run

    (published,), received = make_message_series(run, STEPS)

    assert (published.cluster, published.acked, published.unknown) == ("main", (1, 0, 0, 0), (0, 1, 0, 0))
    assert [(each.cluster, each.subscription, each.delivered) for each in received] == [
        ("main", "audit", (1, 0, 0, 0)),
        ("main", "near", (1, 0, 0, 0)),
        ("other", "far", (1, 0, 0, 0)),
    ]
