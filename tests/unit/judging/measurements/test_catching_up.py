"""When missing copies were replaced and backlogs drained: the first low sample after the last high one."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from brokerproof.run.directory import Run
from brokerproof_judging.measurements.catching_up import measure_backlog_drain, measure_rereplication
from brokerproof_judging.measurements.detection import measure_detection, measure_reassignment
from brokerproof_judging.measurements.measured_values import Reading
from brokerproof_judging.measurements.run_times import EffectiveFault, RunTimes, Span
from brokerproof_judging.measurements.samples import Samples

from ..history import SECOND, TOPIC, History

BOOKIE, BROKER, OTHER = "bookie-eu-1-main", "broker-eu-1-main", "broker-eu-2-main"
EFFECT, NEXT, END = 20, 40, 80
REPAIR, BACKLOG = ("cluster:main", "under_replicated"), (f"topic:{TOPIC}", "backlog:audit")


def make_fault(cut_off_by: str | None = None, *targets: str) -> EffectiveFault:
    """A fault of 20 s; the next one takes effect at 40 s, or the load ends at 80 s."""
    span = Span(start_us=EFFECT * SECOND, end_us=(NEXT if cut_off_by else END) * SECOND)
    return EffectiveFault(name="f", targets=targets or (BOOKIE,), span=span, client_span=span, cut_off_by=cut_off_by)


def sample(key: tuple[str, str], *values: tuple[int, object]) -> Samples:
    """A value every second of 100, from the second given with it until the next one's."""
    steps = [*values, (100, None)]
    series = [
        (second * SECOND, str(value)) for (start, value), (end, _) in pairwise(steps) for second in range(start, end)
    ]
    return Samples(series={key: series})


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return History().write(tmp_path / "run")


def repair(run: Run, cut_off_by: str | None, *values: tuple[int, object]) -> Reading:
    return measure_rereplication(run, sample(REPAIR, *values), make_fault(cut_off_by))


def drain(cut_off_by: str | None, *values: tuple[int, object]) -> Reading:
    phases = {"steady": Span(start_us=0, end_us=EFFECT * SECOND)}
    return measure_backlog_drain(RunTimes(phases=phases), sample(BACKLOG, *values), make_fault(cut_off_by))


ONE_RISE = ((0, 0), (25, 5), (30, 0))
TWO_RISES = ((0, 0), (25, 5), (30, 0), (35, 1), (38, 0))
RISE_AFTER_THE_NEXT = ((0, 0), (25, 5), (30, 0), (50, 7), (60, 0))
STILL_HIGH = ((0, 0), (25, 5), (45, 0))
NEVER_LOW = ((0, 0), (25, 5))


@pytest.mark.parametrize(
    ("values", "cut_off_by", "value", "at_least"),
    [
        (ONE_RISE, None, 10.0, False),
        (ONE_RISE, "next", 10.0, False),
        (TWO_RISES, None, 18.0, False),
        (TWO_RISES, "next", 18.0, False),
        # What rises after the next fault took effect belongs to that one; without one it belongs to this one.
        (RISE_AFTER_THE_NEXT, None, 40.0, False),
        (RISE_AFTER_THE_NEXT, "next", 10.0, False),
        (STILL_HIGH, None, 25.0, False),
        (STILL_HIGH, "next", 19.0, True),
        (NEVER_LOW, None, 79.0, True),
    ],
)
def test_a_repair_and_a_drain_end_with_the_first_low_sample_after_the_last_high_one(
    run: Run, values: tuple[tuple[int, int], ...], cut_off_by: str | None, value: float, at_least: bool
) -> None:
    for reading in (repair(run, cut_off_by, *values), drain(cut_off_by, *values)):
        assert (reading.value, reading.at_least) == (value, at_least)
        assert reading.cut_off_by == (cut_off_by if at_least else None)
        assert ("by the last sample" in reading.evidence) is at_least


NO_RISE = Reading(value=0.0, evidence="no backlog rose to more than twice what it was before the effect")


def test_a_backlog_that_was_about_as_high_before_the_effect_did_not_rise() -> None:
    assert drain(None, (0, 3), (25, 3)) == drain(None, (0, 3), (25, 6), (30, 3)) == NO_RISE
    assert drain(None, (0, 3), (25, 7), (30, 3)).value == 10.0


def test_a_rise_that_is_small_beside_the_one_before_it_is_told_and_moves_no_end() -> None:
    small = drain(None, (0, 3), (25, 1003), (30, 4), (32, 3), (50, 103), (55, 3))
    assert (small.value, small.at_least) == (12.0, False)
    assert small.evidence.endswith("; slightly above again until 34.0 s after the effect")
    large = drain(None, (0, 3), (25, 1003), (30, 4), (32, 3), (50, 104), (55, 3))
    assert (large.value, "slightly" in large.evidence) == (35.0, False)


def test_a_backlog_that_stays_slightly_above_has_not_drained() -> None:
    reading = drain(None, (0, 3), (25, 1003), (30, 4))
    assert (reading.value, reading.at_least) == (79.0, True)


def test_a_cluster_without_a_missing_copy_needs_no_repair_and_one_that_is_silent_may(run: Run) -> None:
    assert repair(run, None, (0, 0)).evidence == "no segment was under-replicated after the effect"
    silent = measure_rereplication(run, Samples(series={REPAIR: [(19 * SECOND, "0")]}), make_fault())
    assert silent == Reading(value=None, evidence="cluster:main was not sampled after the effect")


def test_a_backlog_that_was_not_sampled_any_more_is_not_drained() -> None:
    two = sample(BACKLOG, (0, 0)).series | {(f"topic:{TOPIC}", "backlog:other"): [(19 * SECOND, "0")]}
    phases = {"steady": Span(start_us=0, end_us=EFFECT * SECOND)}
    reading = measure_backlog_drain(RunTimes(phases=phases), Samples(series=two), make_fault())
    why = f"the backlog of other on topic:{TOPIC} was not sampled after the effect"
    assert reading == Reading(value=None, evidence=why)
    # One that is made after the fault had none to drain.
    two[f"topic:{TOPIC}", "backlog:other"] = [(NEXT * SECOND, "0")]
    late = measure_backlog_drain(RunTimes(phases=phases), Samples(series=two), make_fault("next"))
    assert late == NO_RISE


@pytest.mark.parametrize(
    ("gone_at", "cut_off_by", "value", "at_least"),
    [(30, None, 10.0, False), (30, "next", 10.0, False), (45, None, 25.0, False), (45, "next", 19.0, True)],
)
def test_a_node_that_another_fault_left_no_time_to_miss_was_missed_no_earlier(
    run: Run, gone_at: int, cut_off_by: str | None, value: float, at_least: bool
) -> None:
    listed = sample(("cluster:main", "alive:bookie"), (0, f'["{BOOKIE}"]'), (gone_at, "[]"))
    owned = sample((f"topic:{TOPIC}", "owner"), (0, BROKER), (gone_at, OTHER))
    for reading in (
        measure_detection(run, listed, make_fault(cut_off_by)),
        measure_reassignment(run, owned, make_fault(cut_off_by, BROKER)),
    ):
        assert (reading.value, reading.at_least) == (value, at_least)
        assert reading.cut_off_by == (cut_off_by if at_least else None)


def test_the_topic_is_reassigned_when_every_partition_of_the_target_has_another_owner(run: Run) -> None:
    source = f"topic:{TOPIC}"
    partitions = {
        **sample((source, "owner:0"), (0, BROKER), (25, OTHER)).series,
        **sample((source, "owner:1"), (0, OTHER)).series,
        **sample((source, "owner:2"), (0, BROKER), (31, OTHER)).series,
    }
    assert measure_reassignment(run, Samples(series=partitions), make_fault(None, BROKER)).value == 11.0
    del partitions[source, "owner:2"]
    assert measure_reassignment(run, Samples(series=partitions), make_fault(None, BROKER)).value == 5.0


def test_a_topic_is_not_reassigned_if_a_partition_had_no_known_owner_before(run: Run) -> None:
    source = f"topic:{TOPIC}"
    known = sample((source, "owner:0"), (0, BROKER), (22, OTHER)).series
    late = sample((source, "owner:3"), (80, OTHER)).series
    assert measure_reassignment(run, Samples(series=known), make_fault(None, BROKER)).value == 2.0
    reading = measure_reassignment(run, Samples(series={**known, **late}), make_fault(None, BROKER))
    assert (reading.value, reading.evidence) == (None, f"the owner of {source} 3 before the effect is not known")


def test_an_owner_that_nobody_names_any_more_is_no_proof_that_there_is_none(run: Run) -> None:
    owned = Samples(series={(f"topic:{TOPIC}", "owner"): [(19 * SECOND, BROKER)]})
    reading = measure_reassignment(run, owned, make_fault(None, BROKER))
    assert (reading.value, reading.at_least) == (None, False)
