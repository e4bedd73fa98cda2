"""Measurements of a planted run, with the answers known, and of runs in which nothing could be measured.

The planted run: 10 messages a second, each acked after 10 ms and delivered 5 ms later; steady for 20 s, then at 20 s
`kill` takes the owner and a bookie; nothing is acked until 32.505 s, when everything that waited is; the recovery phase
lasts from 60 to 80 s and publishes only every other message. Two messages acked before the kill are lost.
"""

from __future__ import annotations

import json

import pytest
from brokerproof.experiment.metrics import METRICS
from brokerproof.run.records import (
    FaultTargets,
    FoundRate,
    LoadRates,
    PhaseTimes,
    SubscriptionDrain,
    SubscriptionDrains,
)
from brokerproof_judging import table_io
from brokerproof_judging.measurements.measured_values import Estimate, MeasuredValue, make_measurements

from ..history import SECOND, START, TOPIC, History
from ..judged import Judged

OWNER, HEIR, FAR = "broker-eu-1-main", "broker-eu-2-main", "broker-us-1-main"
BOOKIE = "bookie-eu-1-main"
TIMELINE = {"steady_at": 0, "impact_at": 20, "recovery_at": 60, "ends_at": 80}
# Measured where something is replicated, moves or crosses a link, where consumers write outputs, or where a scenario
# bounds shares or changes of owners, consumers share, or nothing is stored: test_replication.py, test_failover.py,
# test_link.py, messages/test_outputs.py, test_node_shares.py, test_shared_subscriptions.py, test_missed.py,
# test_moved_keys.py.
_ELSEWHERE = (
    *("lost_later_", "missing_", "replication_lag_", "repeated_", "missed_by_", "link_added_"),
    *("written_share", "owned_share", "owner_changes", "missed_messages", "redelivered_messages", "overtaken_messages"),
    *("longest_overtaking_s", "largest_consumer_share", "longest_hot_key_gap_s", "moved_keys"),
)
_MEASURED = {name for name in METRICS if not name.startswith(_ELSEWHERE)}
FAULTS = [
    {"name": "kill", "kind": "kill", "targets": {"nodes": [OWNER, BOOKIE]}},
    {"name": "never", "kind": "kill", "targets": {"nodes": [HEIR]}, "at_s": 30},
    # Help is part of the recovery: that it came does not end the time in which the recovery is looked for.
    {"name": "help", "kind": "start", "targets": {"nodes": [HEIR]}, "at_s": 2},
]


@pytest.fixture(scope="module", autouse=True)
def several_tasks():
    """Spark reads these small tables as it reads those of a long run, and moves their rows between tasks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_io, "SMALL_TABLE_BYTES", 0)
        yield


def observe(history, second, source, metric, value):
    history.observations.append(
        {"at": START + int(second * SECOND), "source": source, "metric": metric, "value": str(value)}
    )


BOUNDS = {"rto_s": {"max": 10}, "rto_s/never": {"max": 99}, "rpo_s/nobody": {"max": 1}, "detect_s": {"max": 30}}


def planted(rate=10, *, kind="kill", bounds=BOUNDS, **scenario):
    """`kind` is that of the two faults that do harm."""
    history = History(
        workload={"rate": rate},
        faults=[each | ({} if each["name"] == "help" else {"kind": kind}) for each in FAULTS],
        owner={"steady": "eu", "recovery": "us"},
        bounds=bounds,
        **scenario,
    )
    for number in range(800):
        second = number / 10
        if second >= 60 and number % 2:
            continue
        at = int(second * SECOND)
        acked = 32_505_000 if 20 * SECOND <= at < 32_500_000 else at + 10_000
        place = {"producer": "p0", "seq": len(history.publishes), "key": "k", "offset": history.next_entry()}
        history.publish(**place, at=at, settled_at=START + acked, segment=5)
        if second in (15.0, 18.0):
            continue
        history.store(**place)
        history.deliver(**place, at=acked + 5000)
    for fault, done, state, second in (
        ("kill", kind, "injecting", 19.9),
        ("kill", kind, "effective", 20),
        ("help", "start", "effective", 22),
        ("never", kind, "injecting", 50),
    ):
        row = {"fault": fault, "kind": done, "targets": [HEIR] if fault == "help" else [OWNER, BOOKIE], "state": state}
        history.faults.append({**row, "at": START + int(second * SECOND)})
    for second in range(81):
        brokers = [HEIR, FAR] + ([OWNER] if second < 28 else [])
        observe(history, second, "cluster:main", "alive:broker", json.dumps(brokers))
        observe(history, second, "cluster:main", "alive:bookie", json.dumps([BOOKIE] if second < 26 else []))
        observe(history, second, "cluster:main", "under_replicated", 5 if 31 <= second < 40 else 0)
        owner = OWNER if second < 26 else "" if second < 29 else HEIR if second < 77 else FAR
        observe(history, second, f"topic:{TOPIC}", "owner", owner)
        backlog = 3 if second == 7 else 100 if 22 <= second < 45 else 2
        observe(history, second, f"topic:{TOPIC}", "backlog:audit", backlog)
        observe(history, second, f"topic:{TOPIC}", "published", 10 * second)
        for bookie in ("bookie-eu-2-main", "bookie-us-2-main"):
            observe(history, second, f"node:{bookie}", "bytes_read", 0)
    # What is sampled at all is sampled until the end.
    observe(history, 105, "cluster:main", "under_replicated", 0)
    for second, local, remote in ((0, 0, 0), (10, 100, 300), (30, 40, 300), (80, 40, 300), (105, 40, 800)):
        observe(history, second, f"node:{BOOKIE}", "bytes_read", local)
        observe(history, second, "node:bookie-us-1-main", "bytes_read", remote)
    # Not sampled all the time, so its silence is no gap.
    observe(history, 11, "sampler:bookies", "no_answer", "timed out")
    both, one = ["eu", "us"], ["us", "us"]
    for moment, segment, regions, required in (
        ("steady", 5, both, both),
        ("end", 5, both, both),
        ("end", 5, one, both),
        ("end", 6, one, ["us"]),
    ):
        history.copies.append(
            {
                **{"cluster": "main", "topic": TOPIC, "partition": -1, "at": START + 90 * SECOND, "moment": moment},
                **{"segment": segment, "first_offset": 0, "regions": regions, "regions_required": required},
            }
        )
    history.leave(PhaseTimes(**{name: START + second * SECOND for name, second in TIMELINE.items()}))
    drain = SubscriptionDrain(cluster="main", topic=TOPIC, partition=-1, subscription="audit", drained=True, why="0")
    history.leave(SubscriptionDrains(subscriptions=(drain,), at=START + 83 * SECOND))
    return history


@pytest.fixture(scope="module")
def judged(spark, tmp_path_factory):
    return Judged(spark, tmp_path_factory.mktemp("measured") / "run", planted())


@pytest.fixture(scope="module")
def unmeasured(spark, tmp_path_factory):
    """A fault that took effect in a load that never became steady, and nobody watched."""
    history = History(faults=FAULTS, owner={"recovery": "us"}, bounds={"local_read_share": {"min": 0.9}}).clean()
    history.faults.append({"fault": "kill", "kind": "kill", "targets": [OWNER], "state": "effective", "at": START})
    return Judged(spark, tmp_path_factory.mktemp("unmeasured") / "run", history)


@pytest.mark.parametrize(
    ("metric", "subject", "value"),
    [
        ("detect_s", "kill", 8.0),
        ("reassign_s", "kill", 9.0),
        # Nothing healed it.
        ("node_recovery_s", "kill", None),
        # From the injection at 19.9 s. The first message that is late was due at 20 s.
        ("first_ack_s", "kill", 12.605),
        ("rto_s", "kill", 12.605),
        ("unavailable_s", "kill", 11.505),
        # From the last ack before, at 19.91 s.
        ("longest_ack_gap_s", "kill", 12.595),
        ("longest_delivery_gap_s", "kill", 12.595),
        ("rpo_messages", "kill", 2.0),
        ("rpo_s", "kill", 4.99),
        ("rereplicate_s", "kill", 20.0),
        ("backlog_drain_s", "kill", 25.0),
        ("publish_latency_p50_ms", "steady", 10.0),
        ("publish_latency_p99_ms", "steady", 10.0),
        ("publish_latency_max_ms", "impact", 12_505.0),
        ("publish_latency_max_ms", "recovery", 10.0),
        ("rate_held", "steady", 1.0),
        ("rate_held", "impact", 1.0),
        ("rate_held", "recovery", 0.5),
        ("sampling_gap_s", "run", 50.0),
        ("segments_not_spanning", "steady", 0.0),
        ("segments_not_spanning", "end", 1.0),
        ("under_replicated_segments", "end_of_run", 0.0),
        ("local_read_share", "steady", 0.25),
        ("local_read_share", "impact", 1.0),
        ("local_read_share", "recovery", None),
        ("local_read_share", "read_back", 1.0),
        ("owner_in_region", "steady", 1.0),
        ("owner_in_region", "recovery", 0.5),
    ],
)
def test_it_measures_what_was_planted(judged, metric, subject, value):
    row = judged.measured(metric, subject)

    assert row["value"] == (None if value is None else pytest.approx(value, abs=1e-6))
    assert (row["suite"], row["unit"]) == (METRICS[metric].suite, METRICS[metric].unit)
    assert row["evidence"]


def test_bounds_come_with_the_rows(judged):
    bounds = {
        (row["metric"], row["subject"]): (row["minimum"], row["maximum"])
        for row in judged.table("measurements")
        if (row["minimum"], row["maximum"]) != (None, None)
    }

    assert bounds == {
        ("rto_s", "kill"): (None, 10.0),
        ("rto_s", "never"): (None, 99.0),
        ("rpo_s", "nobody"): (None, 1.0),
        ("detect_s", "kill"): (None, 30.0),
        ("detect_s", "never"): (None, 30.0),
        # The region that the scenario names is a demand.
        ("owner_in_region", "steady"): (1.0, None),
        ("owner_in_region", "recovery"): (1.0, None),
    }


def test_a_bound_on_something_that_there_is_not_has_a_row_without_a_value(judged):
    assert judged.measured("rpo_s", "nobody")["value"] is None


def test_a_fault_without_effect_measures_nothing_and_says_so(judged):
    measured = [row for row in judged.table("measurements") if row["subject"] == "never"]

    # Its kind destroys nothing.
    expected = {name for name, each in METRICS.items() if each.is_per_fault} & _MEASURED
    assert {row["metric"] for row in measured} == expected
    assert {(row["value"], row["evidence"]) for row in measured} == {(None, "the fault never became effective")}


def test_where_nobody_consumes_nothing_is_reported_of_deliveries(spark, tmp_path):
    history = planted()
    history.scenario = history.scenario.model_copy(
        update={"workload": history.scenario.workload.model_copy(update={"subscriptions": []})}
    )
    history.leave(SubscriptionDrains(subscriptions=(), at=START - 10 * SECOND))
    judged = Judged(spark, tmp_path / "run", history)

    assert judged.measured("longest_delivery_gap_s", "kill")["value"] is None
    assert judged.measured("sampling_gap_s", "run")["value"] > 0


@pytest.mark.parametrize(("found", "share"), [(20, 0.5), (None, None)])
def test_the_share_of_a_rate_that_the_load_found_needs_its_record(spark, tmp_path, found, share):
    history = planted(rate="max")
    if found is not None:
        kept = FoundRate(rate=found, held=22, missed=None, busy=None)
        history.leave(LoadRates(steps=(), found=kept, at=START))
    row = Judged(spark, tmp_path / "run", history).measured("rate_held", "steady")

    assert row["value"] == share
    assert ("record of the rate that the load found is missing" in row["evidence"]) is (found is None)


def test_help_is_no_fault_to_recover_from(judged):
    assert "help" not in {row["subject"] for row in judged.table("measurements")}


def test_the_judgement_repeats_what_each_fault_came_to(judged):
    assert judged.judgement["recovery"]["kill"]["rto_s"] == pytest.approx(12.605)
    assert judged.judgement["recovery"]["never"]["rto_s"] is None


def test_every_metric_has_a_row(judged):
    assert {row["metric"] for row in judged.table("measurements")} == _MEASURED


def test_without_a_timeline_and_samples_every_value_is_missing_with_its_reason(unmeasured):
    measured = unmeasured.table("measurements")

    assert {row["metric"] for row in measured} == _MEASURED
    # Some states show in the clients' tables alone.
    assert {row["value"] for row in measured if row["metric"] != "reached"} == {None}
    assert "" not in {row["evidence"] for row in measured}


@pytest.mark.parametrize(
    ("metric", "subject"),
    [("rto_s", "kill"), ("publish_latency_p99_ms", "kill/main"), ("link_added_p99_ms", "eu>us/kill")],
)
@pytest.mark.parametrize(("stale", "bounded", "value"), [(True, True, None), (True, False, 7.0), (False, True, 7.0)])
def test_no_bound_is_claimed_of_a_fault_whose_targets_were_known_only_from_before(
    tmp_path, metric, subject, stale, bounded, value
):
    history = History(faults=FAULTS, bounds={metric: {"max": 5}} if bounded else {})
    if stale:
        history.leave(FaultTargets(fault="kill", targets=(OWNER,), known_at=START, why="no answer", at=START + SECOND))
    measured = [
        MeasuredValue(metric=metric, subject=each, estimate=Estimate(value=7.0, evidence="a message"))
        for each in (subject, subject.replace("kill", "help"))
    ]

    about, other = make_measurements(history.write(tmp_path / "run"), measured)

    assert (about.value, other.value) == (value, 7.0)
    if value is None:
        assert about.evidence == (
            "its targets were known only from 1 s before, so no bound of this fault is claimed; "
            f"7 {METRICS[metric].unit} was measured: a message"
        )


@pytest.mark.parametrize(
    ("bound", "value"),
    [
        # Ten seconds were looked at, so a limit of five is broken, and one of twenty is open.
        ({"max": 5}, 10.0),
        ({"max": 20}, None),
        (None, None),
    ],
)
def test_what_never_came_breaks_a_limit_only_if_it_was_waited_for_long_enough(tmp_path, bound, value):
    run = History(bounds={"rto_s": bound} if bound else {}).write(tmp_path / "run")
    never = Estimate(value=10.0, evidence="not in 10 s", at_least=True)

    (row,) = make_measurements(run, [MeasuredValue(metric="rto_s", subject="kill", estimate=never)])

    assert row.value == value
