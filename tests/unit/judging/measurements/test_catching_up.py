"""When missing copies were replaced and backlogs drained: the first low sample after the last high one."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from brokerproof.run.directory import Run
from brokerproof_judging.measurements.catching_up import measure_backlog_drain, measure_rereplication
from brokerproof_judging.measurements.failover import measure_detection, measure_reassignment
from brokerproof_judging.measurements.measured_values import Estimate
from brokerproof_judging.measurements.run_times import EffectiveFault, RunTimes, Span
from brokerproof_judging.measurements.samples import Samples, list_expected_series, read_samples

from ..history import REPLICATED, SECOND, TOPIC, History

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


def repair(run: Run, cut_off_by: str | None, *values: tuple[int, object]) -> Estimate:
    return measure_rereplication(run, sample(REPAIR, *values), make_fault(cut_off_by))


def drain(cut_off_by: str | None, *values: tuple[int, object]) -> Estimate:
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
    for estimate in (repair(run, cut_off_by, *values), drain(cut_off_by, *values)):
        assert (estimate.value, estimate.at_least) == (value, at_least)
        assert estimate.cut_off_by == (cut_off_by if at_least else None)
        assert ("by the last sample" in estimate.evidence) is at_least


NO_RISE = Estimate(value=0.0, evidence="no backlog rose to more than twice what it was before the first fault")


def test_a_backlog_that_was_about_as_high_before_the_effect_did_not_rise() -> None:
    assert drain(None, (0, 3), (25, 3)) == drain(None, (0, 3), (25, 6), (30, 3)) == NO_RISE
    assert drain(None, (0, 3), (25, 7), (30, 3)).value == 10.0


def test_a_rise_that_is_small_beside_the_one_before_it_is_told_and_moves_no_end() -> None:
    small = drain(None, (0, 3), (25, 1003), (30, 4), (32, 3), (50, 103), (55, 3))
    assert (small.value, small.at_least) == (12.0, False)
    assert small.evidence.endswith("; slightly above again until 34.0 s after the effect")
    large = drain(None, (0, 3), (25, 1003), (30, 4), (32, 3), (50, 104), (55, 3))
    assert (large.value, "slightly" in large.evidence) == (35.0, False)


SECOND_OUTAGE = ((0, 30), (22, 30_000), (38, 30), (42, 55_000), (90, 30))
NO_SECOND_OUTAGE = ((0, 30), (22, 30_000), (38, 30), (42, 60), (90, 30))
# A subscription that moves is made after the first fault.
SECOND_OUTAGE_OF_MOVED = ((35, 30), (42, 55_000), (90, 30))
NO_OUTAGE_OF_MOVED = ((35, 30), (42, 60), (90, 30))
FIRST_SAMPLED_AT_THE_EFFECT = ((20, 30), (22, 30_000), (38, 30), (42, 55_000), (90, 30))


@pytest.mark.parametrize(
    ("values", "first", "second"),
    [
        (SECOND_OUTAGE, 18.0, 50.0),
        (NO_SECOND_OUTAGE, 18.0, 0.0),
        (SECOND_OUTAGE_OF_MOVED, 19.0, 50.0),
        (NO_OUTAGE_OF_MOVED, 19.0, 0.0),
        (FIRST_SAMPLED_AT_THE_EFFECT, 18.0, 50.0),
    ],
)
def test_the_backlog_of_a_fault_does_not_hide_that_of_the_next_one(
    values: tuple[tuple[int, int], ...], first: float, second: float
) -> None:
    span = Span(start_us=NEXT * SECOND, end_us=100 * SECOND)
    faults = (make_fault("next"), EffectiveFault(name="next", targets=(BOOKIE,), span=span, client_span=span))
    times = RunTimes(phases={"steady": Span(start_us=0, end_us=EFFECT * SECOND)}, effective=faults)
    found = [measure_backlog_drain(times, sample(BACKLOG, *values), fault).value for fault in faults]
    assert found == [first, second]


def test_a_backlog_that_was_sampled_when_the_steady_phase_began_was_as_usual_then() -> None:
    span = Span(start_us=NEXT * SECOND, end_us=100 * SECOND)
    faults = (make_fault("next"), EffectiveFault(name="next", targets=(BOOKIE,), span=span, client_span=span))
    times = RunTimes(phases={"steady": Span(start_us=0, end_us=EFFECT * SECOND)}, effective=faults)
    (series,) = sample(BACKLOG, *SECOND_OUTAGE).series.values()
    once = Samples(series={BACKLOG: [(at, value) for at, value in series if at == 0 or at >= 22 * SECOND]})
    assert [measure_backlog_drain(times, once, fault).value for fault in faults] == [18.0, 50.0]


def test_a_backlog_that_was_not_sampled_before_the_effect_was_empty() -> None:
    assert drain(None, (25, 1), (30, 0)).value == 10.0


def test_a_tenth_of_the_rise_is_counted_from_the_usual_height() -> None:
    # It rose by 1,900, and 300 exceeds 100 by more than 190.
    assert drain(None, (0, 100), (25, 2000), (28, 100), (30, 300), (35, 100)).value == 15.0


def test_a_backlog_that_stays_slightly_above_has_not_drained() -> None:
    estimate = drain(None, (0, 3), (25, 1003), (30, 4))
    assert (estimate.value, estimate.at_least) == (79.0, True)


def test_a_cluster_without_a_missing_copy_needs_no_repair_and_one_that_is_silent_may(run: Run) -> None:
    assert repair(run, None, (0, 0)).evidence == "no segment was under-replicated after the effect"
    silent = measure_rereplication(run, Samples(series={REPAIR: [(19 * SECOND, "0")]}), make_fault())
    assert silent == Estimate(value=None, evidence="cluster:main was not sampled after the effect")


@pytest.mark.parametrize(
    ("targets", "value"),
    [(("bookie-eu-1-main",), 10.0), (("bookie-eu-1-other",), 20.0), (("shared",), 20.0)],
)
def test_a_repair_is_that_of_the_clusters_of_the_faults_targets(
    tmp_path: Path, targets: tuple[str, ...], value: float
) -> None:
    run = History(clusters=("main", "other")).write(tmp_path / "run")
    other = sample(("cluster:other", "under_replicated"), (0, 0), (25, 3), (40, 0))
    samples = Samples(series=sample(REPAIR, *ONE_RISE).series | other.series)
    assert measure_rereplication(run, samples, make_fault(None, *targets)).value == value


def test_what_is_still_high_at_the_end_is_named(run: Run) -> None:
    still = "segments were still under-replicated"
    assert still in repair(run, None, *NEVER_LOW).evidence
    assert "a backlog was still higher than before the first fault" in drain(None, *NEVER_LOW).evidence
    assert "first sample of 0 after the last one above 0" in repair(run, None, *ONE_RISE).evidence
    assert "first sample back at what it was before the first fault" in drain(None, *ONE_RISE).evidence


def test_a_backlog_that_was_not_sampled_any_more_is_not_drained() -> None:
    two = sample(BACKLOG, (0, 0)).series | {(f"topic:{TOPIC}", "backlog:other"): [(19 * SECOND, "0")]}
    phases = {"steady": Span(start_us=0, end_us=EFFECT * SECOND)}
    estimate = measure_backlog_drain(RunTimes(phases=phases), Samples(series=two), make_fault())
    why = f"the backlog of other on topic:{TOPIC} was not sampled after the effect"
    assert estimate == Estimate(value=None, evidence=why)
    # One that is made after the fault had none to drain.
    two[f"topic:{TOPIC}", "backlog:other"] = [(NEXT * SECOND, "0")]
    late = measure_backlog_drain(RunTimes(phases=phases), Samples(series=two), make_fault("next"))
    assert late == NO_RISE


def record(
    directory: Path, *, clusters: tuple[str, ...] = ("main",), samples: Samples | None = None, **scenario: Any
) -> Run:
    """A run with these samples, of a topic that reaches all its clusters."""
    history = History(clusters=clusters, workload={"namespace": REPLICATED}, **scenario)
    series = samples.series if samples else {}
    history.observations = [
        {"at": at, "source": source, "metric": metric, "value": value}
        for (source, metric), values in series.items()
        for at, value in values
    ]
    return history.write(directory)


def drain_recorded(run: Run, fault: EffectiveFault) -> Estimate:
    phases = {"steady": Span(start_us=0, end_us=EFFECT * SECOND)}
    return measure_backlog_drain(RunTimes(phases=phases), read_samples(run), fault)


REPLICATED_TOPIC = f"topic:persistent://{REPLICATED}/orders"
TWO_SUBSCRIPTIONS = [{"name": "audit"}, {"name": "other"}]


@pytest.mark.parametrize("sampled", [(), ((80, 0),)], ids=["never", "after the next fault"])
def test_a_backlog_that_was_not_sampled_may_have_risen(tmp_path: Path, sampled: tuple[tuple[int, int], ...]) -> None:
    low = sample((REPLICATED_TOPIC, "backlog:audit"), (0, 0)).series
    others = sample((REPLICATED_TOPIC, "backlog:other"), *sampled).series
    run = record(tmp_path / "run", samples=Samples(series=low | others), subscriptions=TWO_SUBSCRIPTIONS)
    why = f"the backlog of other on {REPLICATED_TOPIC} was not sampled after the effect and before next took effect"
    assert drain_recorded(run, make_fault("next")) == Estimate(value=None, evidence=why, cut_off_by="next")


def test_no_backlog_rose_if_every_subscription_was_sampled_as_low(tmp_path: Path) -> None:
    low = {
        (REPLICATED_TOPIC, f"backlog:{name}"): sample(BACKLOG, (0, 0)).series[BACKLOG] for name in ("audit", "other")
    }
    run = record(tmp_path / "run", samples=Samples(series=low), subscriptions=TWO_SUBSCRIPTIONS)
    assert drain_recorded(run, make_fault()) == NO_RISE


def test_a_subscription_that_was_never_seen_where_it_moves_to_had_nothing_to_drain_there(tmp_path: Path) -> None:
    run = record(
        tmp_path / "run",
        clusters=("main", "away"),
        samples=sample((f"{REPLICATED_TOPIC}@main", "backlog:mover"), (0, 0)),
        subscriptions=[{"name": "mover", "moves": {"to": "away", "after": "f"}}],
        faults=[{"name": "f", "kind": "kill", "targets": {"nodes": [BROKER]}}],
    )
    assert drain_recorded(run, make_fault()) == NO_RISE


@pytest.mark.parametrize("subscriptions", [[], TWO_SUBSCRIPTIONS])
def test_without_any_sample_of_a_backlog_no_subscription_is_named(
    tmp_path: Path, subscriptions: list[dict[str, str]]
) -> None:
    run = record(tmp_path / "run", subscriptions=subscriptions)
    why = "the backlog of a subscription was not sampled after the effect"
    assert drain_recorded(run, make_fault()) == Estimate(value=None, evidence=why)


@pytest.mark.parametrize(
    ("gone_at", "cut_off_by", "value", "at_least"),
    [(30, None, 10.0, False), (30, "next", 10.0, False), (45, None, 25.0, False), (45, "next", 19.0, True)],
)
def test_a_node_that_another_fault_left_no_time_to_miss_was_missed_no_earlier(
    run: Run, gone_at: int, cut_off_by: str | None, value: float, at_least: bool
) -> None:
    listed = sample(("cluster:main", "alive:bookie"), (0, f'["{BOOKIE}"]'), (gone_at, "[]"))
    owned = sample((f"topic:{TOPIC}", "owner"), (0, BROKER), (gone_at, OTHER))
    for estimate in (
        measure_detection(run, listed, make_fault(cut_off_by)),
        measure_reassignment(run, owned, make_fault(cut_off_by, BROKER)),
    ):
        assert (estimate.value, estimate.at_least) == (value, at_least)
        assert estimate.cut_off_by == (cut_off_by if at_least else None)


@pytest.mark.parametrize(("partitions", "value"), [(2, 5.0), (3, 11.0)])
def test_the_topic_is_reassigned_when_every_partition_of_the_target_has_another_owner(
    tmp_path: Path, partitions: int, value: float
) -> None:
    run = History(workload={"partitions": partitions}).write(tmp_path / "run")
    source = f"topic:{TOPIC}"
    owners = [
        sample((source, "owner:0"), (0, BROKER), (25, OTHER)).series,
        sample((source, "owner:1"), (0, OTHER)).series,
        sample((source, "owner:2"), (0, BROKER), (31, OTHER)).series,
    ]
    series = {key: values for each in owners[:partitions] for key, values in each.items()}
    samples = Samples(series=series, expected=tuple(list_expected_series(run)))
    assert measure_reassignment(run, samples, make_fault(None, BROKER)).value == value


@pytest.mark.parametrize("owner", [None, OTHER])
def test_a_partition_whose_owner_no_broker_named_may_have_been_the_targets(tmp_path: Path, owner: str | None) -> None:
    history = History(workload={"partitions": 3})
    for second in range(60):
        for number, name in enumerate([BROKER if second < 25 else OTHER, OTHER, owner]):
            row = {"source": f"topic:{TOPIC}", "metric": f"owner:{number}", "value": name}
            history.observations.append({"at": second * SECOND, **row})
    run = history.write(tmp_path / "run")
    estimate = measure_reassignment(run, read_samples(run), make_fault(None, BROKER))
    assert estimate.value == (5.0 if owner else None)
    why = "first sample with another owner" if owner else f"the owner of topic:{TOPIC} 2 before the effect is not known"
    assert estimate.evidence == why


@pytest.mark.parametrize(("targets", "value"), [((BROKER,), 5.0), ((BROKER, "broker-eu-1-away"), None)])
def test_an_owner_in_a_cluster_without_a_target_need_not_be_known(
    tmp_path: Path, targets: tuple[str, ...], value: float | None
) -> None:
    owned = sample((f"{REPLICATED_TOPIC}@main", "owner"), (0, BROKER), (25, OTHER))
    for clusters in (("main", "away"), ("away", "main")):
        run = record(tmp_path / clusters[0], clusters=clusters, samples=owned)
        assert measure_reassignment(run, read_samples(run), make_fault(None, *targets)).value == value


def test_a_topic_is_not_reassigned_if_a_partition_had_no_known_owner_before(run: Run) -> None:
    source = f"topic:{TOPIC}"
    known = sample((source, "owner:0"), (0, BROKER), (22, OTHER)).series
    late = sample((source, "owner:3"), (80, OTHER)).series
    assert measure_reassignment(run, Samples(series=known), make_fault(None, BROKER)).value == 2.0
    estimate = measure_reassignment(run, Samples(series={**known, **late}), make_fault(None, BROKER))
    assert (estimate.value, estimate.evidence) == (None, f"the owner of {source} 3 before the effect is not known")


@pytest.mark.parametrize(
    ("grown_at", "value"),
    # The fault took effect at 20 s. A partition that was added before had an owner, which no broker named.
    [(60, 5.0), (None, 5.0), (20, 5.0), (10, None)],
)
def test_a_partition_that_is_added_after_the_effect_had_no_owner_before(
    tmp_path: Path, grown_at: int | None, value: float | None
) -> None:
    run = History(workload={"partitions": 1, "grows_to": 2}).write(tmp_path / "run")
    source = f"topic:{TOPIC}"
    known = sample((source, "owner:0"), (0, BROKER), (25, OTHER)).series
    added = sample((source, "owner:1"), (61, BROKER)).series
    grown_us = None if grown_at is None else grown_at * SECOND
    estimate = measure_reassignment(run, Samples(series={**known, **added}), make_fault(None, BROKER), grown_us)
    assert estimate.value == value
    assert value is not None or estimate.evidence == f"the owner of {source} 1 before the effect is not known"


def test_without_an_owner_before_the_effect_nothing_is_known_of_a_reassignment(run: Run) -> None:
    def explain(series: Any) -> str:
        estimate = measure_reassignment(run, Samples(series=series), make_fault(None, BROKER))
        assert estimate.value is None
        return estimate.evidence

    assert explain({}) == "the owner before the effect is not known"
    assert explain(sample((f"topic:{TOPIC}", "owner"), (0, OTHER)).series) == "owner was not a target"


def test_the_owner_at_the_time_of_the_effect_is_the_owner_before_it(run: Run) -> None:
    owned = sample((f"topic:{TOPIC}", "owner"), (EFFECT, BROKER), (25, OTHER))
    assert measure_reassignment(run, owned, make_fault(None, BROKER)).value == 5.0
    stays = measure_reassignment(run, sample((f"topic:{TOPIC}", "owner"), (0, BROKER)), make_fault(None, BROKER))
    assert (stays.value, stays.evidence) == (79.0, "no other node owned the topic by the last sample")


def test_an_owner_that_nobody_names_any_more_is_no_proof_that_there_is_none(run: Run) -> None:
    owned = Samples(series={(f"topic:{TOPIC}", "owner"): [(19 * SECOND, BROKER)]})
    estimate = measure_reassignment(run, owned, make_fault(None, BROKER))
    assert (estimate.value, estimate.at_least) == (None, False)


@pytest.mark.parametrize(("silent", "least"), [(None, 10.0), ((8, 20), 10.0), ((22, 30), 2.0)])
def test_a_time_that_ends_behind_a_silence_of_the_monitor_may_be_shorter(
    run: Run, silent: tuple[int, int] | None, least: float
) -> None:
    silences = () if silent is None else ((silent[0] * SECOND, silent[1] * SECOND),)
    samples = replace(sample(REPAIR, *ONE_RISE), silences=silences)
    estimate = measure_rereplication(run, samples, make_fault())
    assert (estimate.value, estimate.limits) == (10.0, (least, 10.0))
    assert ("monitor took no sample" in estimate.evidence) is (least != 10.0)


LOW = ((0, 0),)


@pytest.mark.parametrize(
    ("values", "silent", "cut_off_by", "limits"),
    [
        # A value may have been high in a time without a sample: before it was seen low, after that, or only then.
        (ONE_RISE, (31, 50), None, (10.0, 30.0)),
        (ONE_RISE, (27, 50), None, (7.0, 30.0)),
        (ONE_RISE, (24, 50), None, (0.0, 30.0)),
        (LOW, (22, 30), None, (0.0, 10.0)),
        (LOW, (15, 26), None, (0.0, 6.0)),
        # Not before the effect, and not after the next fault's.
        (LOW, (10, 20), None, None),
        (LOW, (36, 50), "next", (0.0, 20.0)),
        (LOW, (40, 50), "next", None),
        # Nor after the load.
        (LOW, (80, 90), None, None),
        (LOW, (79, 90), None, (0.0, 70.0)),
    ],
)
def test_what_may_have_been_high_while_the_monitor_took_no_sample_has_limits(
    run: Run,
    values: Any,
    silent: tuple[int, int],
    cut_off_by: str | None,
    limits: tuple[float | None, float | None] | None,
) -> None:
    begin, end = silent
    fault = make_fault(cut_off_by)

    def be_silent(key: tuple[str, str]) -> Samples:
        (series,) = sample(key, *values).series.values()
        kept = [(at, value) for at, value in series if not begin * SECOND < at < end * SECOND]
        return Samples(series={key: kept}, silences=((begin * SECOND, end * SECOND),), last_us=99 * SECOND)

    times = RunTimes(phases={"steady": Span(start_us=0, end_us=EFFECT * SECOND)})
    repaired = measure_rereplication(run, be_silent(REPAIR), fault)
    drained = measure_backlog_drain(times, be_silent(BACKLOG), fault)

    assert repaired.limits == (limits or (None, None))
    assert drained.limits == (limits or (0.0, 0.0))
    for estimate in (repaired, drained):
        assert ("the monitor took no sample" in estimate.evidence) is (limits is not None)


@pytest.mark.parametrize(("stood_still", "least"), [((40, 50), 10.0), ((22, 30), 2.0)])
def test_a_drain_that_ends_behind_a_standstill_of_a_consumer_may_be_shorter(
    stood_still: tuple[int, int], least: float
) -> None:
    times = RunTimes(phases={"steady": Span(start_us=0, end_us=EFFECT * SECOND)})
    stood = [(stood_still[0] * SECOND, stood_still[1] * SECOND)]
    estimate = measure_backlog_drain(times, sample(BACKLOG, *ONE_RISE), make_fault(), stood)
    assert (estimate.value, estimate.limits) == (10.0, (least, 10.0))
    assert ("stood still" in estimate.evidence) is (least != 10.0)


@pytest.mark.parametrize(("last_second", "value"), [(100, 0.0), (106, None)])
def test_a_backlog_that_was_silent_at_the_end_may_have_risen(last_second: int, value: float | None) -> None:
    times = RunTimes(phases={"steady": Span(start_us=0, end_us=EFFECT * SECOND)})
    # The series ends at 21 s, and the load at 80 s; other sources were sampled for longer.
    samples = Samples(
        series={BACKLOG: [(second * SECOND, "0") for second in range(22 if value is None else 100)]},
        last_us=last_second * SECOND,
    )
    estimate = measure_backlog_drain(times, samples, make_fault())
    assert estimate.value == value
