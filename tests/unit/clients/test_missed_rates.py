"""When a producer's rate counts as missed, and which of the measured reasons is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from brokerproof.clients.missed_rates import (
    Activity,
    LoadSample,
    ProcessorWait,
    RateWatch,
    SenderTimes,
    measure_miss,
    read_contention,
)
from brokerproof.run.records import MissedRate, RateReason

RATE, S = 1000, 1_000_000
EVERY_S = 0.5
NOTHING: dict[str, float] = dict.fromkeys(
    ("held_back_s", "sending_s", "late_s", "processor_s", "waited_s", "overslept_s", "contended_s"), 0.0
)


def make_sample(at_s: float, acked: float, *, pending: int = 0, **values: Any) -> LoadSample:
    return LoadSample(
        at=int(at_s * S), due=int(at_s * RATE), acked=int(acked), pending=pending, **{**NOTHING, **values}
    )


def watch_share(share: float, seconds: float = 5) -> float | None:
    """The rate is held for 5 s, and then only this share of it. Return the seconds after which the miss is known."""
    watch = RateWatch(RATE)
    for number in range(int((5 + seconds) / EVERY_S) + 1):
        at_s = number * EVERY_S
        watch.add(make_sample(at_s, RATE * (min(at_s, 5) + share * max(0, at_s - 5))))
        if watch.now is not None:
            return at_s - 5
    return None


@pytest.mark.parametrize("share", [0, 0.5, 0.88])
def test_a_missed_rate_is_known_within_four_seconds(share: float) -> None:
    known_s = watch_share(share)
    assert known_s is not None
    assert known_s <= 4


def test_a_rate_that_is_nearly_held_is_not_missed() -> None:
    assert watch_share(0.92, seconds=60) is None


def test_a_pause_of_the_acks_that_ends_before_the_next_sample_is_no_miss() -> None:
    watch = RateWatch(RATE)
    for number in range(20):
        at_s = number * EVERY_S
        watch.add(make_sample(at_s, RATE * (at_s - 0.3 if number == 10 else at_s)))
    assert watch.times == []


def test_a_missed_time_grows_until_the_rate_is_held_again_and_a_later_one_is_another() -> None:
    watch = RateWatch(RATE)
    acked, changes = 0.0, []
    for number in range(60):
        share = 0.2 if 10 <= number < 20 or 40 <= number < 50 else 1
        changed = watch.add(make_sample(number * EVERY_S, acked))
        changes.append((changed, watch.now is not None))
        acked += share * RATE * EVERY_S
    first, second = watch.times
    assert first.begin < 5 * S < first.end < second.begin < 20 * S < second.end
    assert first.acked < 0.9 * first.due
    # Each beginning, growth and end is a change, and nothing else is.
    assert {changed for changed, is_missed in changes if is_missed} == {True}
    assert sum(changed for changed, is_missed in changes if not is_missed) == 2


def test_of_too_many_times_the_newest_is_kept_and_the_others_are_counted() -> None:
    watch = RateWatch(RATE)
    acked = 0.0
    for number in range(205 * 20):
        watch.add(make_sample(number * EVERY_S, acked))
        acked += RATE * EVERY_S * (0 if number % 20 < 4 else 1)
    assert (len(watch.times), watch.omitted) == (200, 5)
    assert watch.times[-1].begin > watch.times[-2].end


@pytest.mark.parametrize(
    ("measured", "reasons"),
    [
        ({}, ()),
        # The cluster: a full `max_pending`, a `send` that blocks, acks that come late.
        ({"held_back_s": 0.6}, (RateReason.CLUSTER,)),
        ({"sending_s": 0.6}, (RateReason.CLUSTER,)),
        ({"pending": 600}, (RateReason.CLUSTER,)),
        # A `send` that computes, or that has no processor, is not blocked by the cluster.
        ({"sending_s": 0.9, "processor_s": 0.9}, ()),
        ({"sending_s": 0.9, "waited_s": 0.9}, (RateReason.MACHINE,)),
        ({"sending_s": 0.9, "overslept_s": 0.9}, (RateReason.MACHINE,)),
        # This machine.
        ({"late_s": 0.6}, (RateReason.MACHINE,)),
        ({"waited_s": 0.6}, (RateReason.MACHINE,)),
        # Both.
        ({"held_back_s": 0.6, "waited_s": 0.6}, (RateReason.CLUSTER, RateReason.MACHINE)),
        # Each explains less than half of the missing second.
        ({"held_back_s": 0.4, "waited_s": 0.4}, ()),
        # Other programs had no processor. That is no reason by itself.
        ({"contended_s": 2.0}, ()),
    ],
)
def test_a_reason_is_what_explains_half_of_the_missing_messages(
    measured: dict[str, Any], reasons: tuple[RateReason, ...]
) -> None:
    # Half of the messages of 2 s are missing.
    missed = measure_miss(make_sample(10, 10_000), make_sample(12, 11_000, **measured), RATE)
    assert missed.reasons == reasons


def test_a_kernel_that_does_not_count_contention_leaves_it_unknown(tmp_path: Path) -> None:
    missed = measure_miss(make_sample(10, 0, contended_s=None), make_sample(12, 0, contended_s=None), RATE)
    assert missed.contended_s is None
    assert read_contention(tmp_path / "missing") is None
    (tmp_path / "cpu").write_text("some avg10=0.00 avg60=3.12 avg300=5.11 total=5738209907\nfull total=0\n")
    assert read_contention(tmp_path / "cpu") == pytest.approx(5738.209907)


def test_nothing_due_explains_nothing() -> None:
    assert MissedRate(begin=0, end=S, due=0, acked=0, pushed_back_s=0.0, no_time_s=0.0).reasons == ()


def test_the_sender_times_count_the_present_activity_and_what_became_late() -> None:
    times = SenderTimes(0)
    times.enter(Activity.SENDING, 10)
    assert times.read(40)[Activity.SENDING] == 30
    times.enter(Activity.HELD_BACK, 50)
    times.enter(Activity.PREPARING, 70)
    times.enter(Activity.SENDING, 100, is_late=True)
    assert times.read(100) == (10, 0, 40, 20, 30)
    # A sender that hangs in its own work is late before it goes on.
    times.enter(Activity.PREPARING, 100)
    assert times.read(100 + S)[Activity.LATE] == 30 + S
    assert times.read(100 + S // 100)[Activity.LATE] == 30


def test_the_wait_for_a_processor_only_grows() -> None:
    wait = ProcessorWait()
    first = wait.measure()
    assert wait.measure() >= first >= 0
