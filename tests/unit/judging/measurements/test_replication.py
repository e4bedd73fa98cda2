"""Replication between two clusters, planted with the answers known.

`main` publishes 10 messages a second for 80 s, each acked after 10 ms and delivered on `main` 1 ms later; `other` gets
it 20 ms after the ack, those of 20 s to 40 s not before 50 s. `main` is destroyed at 20 s and back, empty, at 40 s.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from brokerproof.experiment.metrics import METRICS
from brokerproof.run.records import PhaseTimes
from brokerproof.systems.pulsar.roles import Role
from brokerproof_judging.measurements.catching_up import measure_agreement
from brokerproof_judging.measurements.failover import measure_detection
from brokerproof_judging.measurements.measured_values import Estimate, MeasuredValue, make_measurements
from brokerproof_judging.measurements.run_times import EffectiveFault, Span, read_run_times
from brokerproof_judging.measurements.samples import Samples, read_samples

from ..history import REPLICATED, SECOND, START, History
from ..judged import Judged

TOPIC = f"persistent://{REPLICATED}/orders"
TIMELINE = {"steady_at": 0, "impact_at": 20, "recovery_at": 60, "ends_at": 80}
FAULT = {"name": "gone", "kind": "destroy", "targets": {"cluster": "main"}, "heal_at_s": 20}
WAY = "main>other"
# By when each was acked: what becomes of it in the two logs.
NOWHERE, AT_HOME_NO_MORE, LATER_NOWHERE, NOT_SENT_ON = 15.0, 18.0, 50.0, 55.0


def planted(**scenario):
    history = History(
        clusters=("main", "other"),
        workload={"namespace": REPLICATED, "rate": 10, "produce_on": ["main", "other"]},
        subscriptions=[{"name": "audit"}, {"name": "audit", "cluster": "other"}],
        faults=[FAULT, {"name": "slow", "kind": "delay", "targets": {"region": "eu"}, "link": {"delay_ms": 50}}],
        **scenario,
    )
    history.topic = TOPIC
    for number in range(800):
        second = number / 10
        at = int(second * SECOND)
        entry = number
        message = {"producer": "main-p0", "seq": number, "key": "k", "offset": entry}
        history.publish(**message, at=at, settled_at=START + at + (60_000 if 62 <= second < 70 else 10_000), segment=5)
        if second not in (NOWHERE, AT_HOME_NO_MORE, LATER_NOWHERE):
            history.store(**message)
            history.deliver(**message, at=at + 11_000)
        if second not in (NOWHERE, LATER_NOWHERE, NOT_SENT_ON):
            copy = {**message, "cluster": "other", "replicated_from": "main"}
            history.store(**copy)
            arrival = max(at, 50 * SECOND) if 20 <= second < 40 else at
            history.deliver(**copy, at=arrival + 30_000)
    # One of the other cluster's own, which its home lost.
    history.publish(producer="other-p0", seq=0, key="o", at=0, cluster="other", segment=5, offset=9000)
    history.store(producer="other-p0", seq=0, key="o", offset=9001, replicated_from="other")
    history.deliver(producer="other-p0", seq=0, key="o", offset=9001, at=500)
    for state, second in (("injecting", 19.9), ("effective", 20), ("healing", 38), ("recovered", 40)):
        row = {"fault": "gone", "kind": "destroy", "targets": ["broker-eu-1-main", "bookie-eu-1-main"], "state": state}
        history.faults.append({**row, "at": START + int(second * SECOND)})
    for second in range(81):
        backlogs = {WAY: 7 if 40 <= second < 45 else 3, "other>main": 500 if 21 <= second < 52 else 2}
        for way, backlog in backlogs.items():
            home = way.split(">")[0]
            if home == "main" and 20 <= second < 40:
                continue
            history.observations.append(
                {
                    **{"at": START + second * SECOND, "source": f"topic:{TOPIC}@{home}"},
                    **{"metric": f"replication_backlog:{way}", "value": str(backlog)},
                }
            )
    history.leave(PhaseTimes(**{name: START + second * SECOND for name, second in TIMELINE.items()}))
    # From 62 s on things are slow.
    for state, second in (("injecting", 61.9), ("effective", 62), ("healing", 70), ("recovered", 70.1)):
        row = {"fault": "slow", "kind": "delay", "targets": ["broker-eu-1-main"], "state": state}
        history.faults.append({**row, "at": START + int(second * SECOND)})
    return history


@pytest.fixture(scope="module")
def judged(spark, tmp_path_factory):
    history = planted(destroyed=["main"], bounds={"rpo_messages": {"max": 5}})
    return Judged(spark, tmp_path_factory.mktemp("replicated") / "run", history)


@pytest.mark.parametrize(
    ("metric", "subject", "value"),
    [
        ("replication_lag_p50_ms", f"{WAY}/steady", 20.0),
        ("replication_lag_max_ms", f"{WAY}/steady", 20.0),
        ("replication_lag_p50_ms", f"{WAY}/recovery", 20.0),
        # Sent at 20 s, acked 10 ms later, and delivered there at 50.03 s.
        ("replication_lag_max_ms", f"{WAY}/impact", 30_020.0),
        # other-p0's message was delivered on main 100 µs after its ack.
        ("replication_lag_max_ms", "other>main/steady", 0.1),
        ("replication_lag_max_ms", "other>main/impact", None),
        # Both ways agree at 52 s, 12 s after the return; main>other did at 45 s.
        ("agree_s", "gone", 12.0),
        # What another cluster still holds is not gone.
        ("rpo_messages", "gone", 1.0),
        ("rpo_s", "gone", 4.99),
        ("lost_later_messages", "gone", 1.0),
    ],
)
def test_it_measures_what_was_planted(judged, metric, subject, value):
    row = judged.measured(metric, subject)
    assert row["value"] == (None if value is None else pytest.approx(value, abs=1e-6)), row["evidence"]
    assert (row["suite"], row["unit"]) == (METRICS[metric].suite, METRICS[metric].unit)


def test_a_message_that_was_never_delivered_has_no_lag(judged):
    # That of NOWHERE in the steady phase, and those of LATER_NOWHERE and NOT_SENT_ON in the impact.
    for phase, deliveries in (("steady", "199 of 200"), ("impact", "398 of 400"), ("recovery", "200 of 200")):
        row = judged.measured("replication_lag_p50_ms", f"{WAY}/{phase}")
        assert row["evidence"] == f"{deliveries} deliveries"


def test_what_a_destroyed_cluster_lost_is_found_and_legal_and_another_clusters_loss_is_not(judged):
    def at(second):
        return ("main-p0", int(second * 10))

    found = {row for row in judged.anomalies(TOPIC) if row[0] in ("lost", "not_replicated")}
    assert found == {
        *(("lost", True, "main", None, *at(second)) for second in (NOWHERE, AT_HOME_NO_MORE)),
        ("not_replicated", True, "other", None, *at(NOWHERE)),
        # They were sent after main was destroyed.
        ("lost", False, "main", None, *at(LATER_NOWHERE)),
        *(("not_replicated", False, "other", None, *at(second)) for second in (LATER_NOWHERE, NOT_SENT_ON)),
        ("lost", False, "other", None, "other-p0", 0),
    }


def test_the_messages_say_the_same_of_what_is_illegal_as_the_anomalies(judged):
    illegal = [row for row in judged.table("messages") if row["illegal"] and row["subscription"] is None]
    found = {(row["cluster"], row["producer"], row["seq"], *row["illegal"]) for row in illegal}
    assert found == {
        ("main", "main-p0", int(LATER_NOWHERE * 10), "lost"),
        ("other", "main-p0", int(LATER_NOWHERE * 10), "not_replicated"),
        ("other", "main-p0", int(NOT_SENT_ON * 10), "not_replicated"),
        ("other", "other-p0", 0, "lost"),
    }


def test_what_was_lost_after_a_destroyed_cluster_returned_may_be_nothing(judged):
    assert judged.measured("lost_later_messages", "gone")["maximum"] == 0.0


def test_a_fault_that_destroys_nothing_has_no_later_losses(judged):
    rows = judged.table("measurements")
    assert {row["subject"] for row in rows if row["metric"] == "rpo_messages"} == {"gone", "slow"}
    assert {row["subject"] for row in rows if row["metric"] == "lost_later_messages"} == {"gone"}


def detected(directory, *, gone, staying=()):
    """What detection comes to where the last list of the brokers that had one of them is of 8 s after the effect.

    The targets are the nodes of the roles `gone`, without those of `staying`.
    """
    run = History(clusters=("main", "other")).write(directory / "run")
    before, after = json.dumps(run.topology.clusters["main"].names(role=Role.BROKER)), "[]"
    samples = Samples(series={("cluster:main", "alive:broker"): [(START + 19, before), (START + 28 * SECOND, after)]})
    span = Span(start_us=START + 20 * SECOND, end_us=START + 60 * SECOND)
    names = [name for role in gone for name in run.topology.clusters["main"].names(role=role) if name not in staying]
    return measure_detection(
        run, samples, EffectiveFault(name="gone", targets=tuple(names), span=span, client_span=span)
    )


def test_a_cluster_with_all_its_brokers_gone_has_a_metadata_store_that_says_so(tmp_path):
    assert detected(tmp_path, gone=[Role.BROKER]) == Estimate(value=8.0, evidence="first sample without a target")


def test_a_broker_that_stays_says_so_too(tmp_path):
    found = detected(tmp_path, gone=[Role.BROKER, Role.METADATA], staying=["broker-eu-1-main"])
    assert found == Estimate(value=8.0, evidence="first sample without a target")


def test_a_cluster_with_all_its_brokers_and_its_metadata_store_gone_has_nobody_to_say_so(tmp_path):
    why = "no broker of main and no node that coordinates it was left to say who lives"
    assert detected(tmp_path, gone=[Role.BROKER, Role.METADATA]) == Estimate(value=None, evidence=why)


@pytest.fixture(scope="module")
def undeclared(spark, tmp_path_factory):
    history = planted()
    history.not_replicated("main", "other")
    return Judged(spark, tmp_path_factory.mktemp("undeclared") / "run", history)


def test_the_same_is_illegal_where_the_scenario_does_not_destroy_the_cluster(undeclared):
    lost = {(row[1], row[5]) for row in undeclared.anomalies(TOPIC) if row[0] == "lost" and row[2] == "main"}
    assert lost == {(False, int(second * 10)) for second in (NOWHERE, AT_HOME_NO_MORE, LATER_NOWHERE)}
    assert undeclared.measured("lost_later_messages", "gone")["maximum"] is None


def test_without_proof_that_replication_drained_nothing_is_known_of_what_is_missing_there(undeclared):
    missing = ("unproven", "not_replicated", "undelivered")
    there = (row for row in undeclared.anomalies(TOPIC) if row[2] == "other" and row[4] == "main-p0")
    found = {(row[0], row[5]) for row in there if row[0] in missing}
    assert found == {("unproven", int(second * 10)) for second in (NOWHERE, LATER_NOWHERE, NOT_SENT_ON)}
    for metric in ("rpo_messages", "rpo_s", "lost_later_messages"):
        row = undeclared.measured(metric, "gone")
        assert row["value"] is None
        assert "nothing proves why" in row["evidence"]
    assert undeclared.judgement["verdict"] == "unknown"


@pytest.mark.parametrize(
    ("cut_off", "limit", "value"),
    [
        (False, 30.0, 40.0),
        # The last sample before `slow` took effect at 62 s is that of 61 s, 21 s after the return.
        (True, 15.0, 21.0),
        (True, 30.0, None),
    ],
)
def test_clusters_that_never_agree_break_the_limit_that_was_waited_for(tmp_path, cut_off, limit, value):
    history = planted(bounds={"agree_s": {"max": limit}})
    if not cut_off:
        history.faults = [row for row in history.faults if row["fault"] != "slow"]
    for row in history.observations:
        if row["metric"].endswith("other>main") and row["at"] >= START + 52 * SECOND:
            row["value"] = "400"
    run = history.write(tmp_path / "run")
    times = read_run_times(run)
    gone = next(fault for fault in times.effective if fault.name == "gone")
    estimate = measure_agreement(times, read_samples(run), gone)
    (row,) = make_measurements(run, [MeasuredValue(metric="agree_s", subject="gone", estimate=estimate)])
    assert (row.value, row.maximum) == (value, limit)
    assert row.cut_off_by == ("slow" if value is None else None)
    assert "400 entries behind" in row.evidence


def test_clusters_agree_only_when_no_backlog_rises_again_before_the_next_fault(tmp_path):
    history = planted()
    for row in history.observations:
        if row["metric"].endswith("other>main") and START + 55 * SECOND <= row["at"] < START + 58 * SECOND:
            row["value"] = "90"
        # What `slow` did is its own.
        if row["metric"].endswith("other>main") and row["at"] >= START + 63 * SECOND:
            row["value"] = "90"
    run = history.write(tmp_path / "run")
    times = read_run_times(run)
    gone = next(fault for fault in times.effective if fault.name == "gone")
    assert measure_agreement(times, read_samples(run), gone).value == 18.0


@pytest.mark.parametrize(
    ("silent", "limits"), [((53, 60), (12.0, 20.0)), ((58, 70), (12.0, 22.0)), ((63, 70), (12.0, 12.0))]
)
def test_clusters_may_have_disagreed_again_while_the_monitor_took_no_sample(tmp_path, silent, limits):
    history = planted()
    begin, end = (START + second * SECOND for second in silent)
    history.observations = [row for row in history.observations if not begin < row["at"] < end]
    run = history.write(tmp_path / "run")
    times = read_run_times(run)
    gone = next(fault for fault in times.effective if fault.name == "gone")
    assert measure_agreement(times, read_samples(run), gone).limits == limits


# `slow` takes effect at 62 s.
@pytest.mark.parametrize(("recovered", "value"), [(40, 12.0), (62, None), (65, None)])
def test_clusters_agree_after_the_nodes_returned_or_nothing_is_known(tmp_path, recovered, value):
    history = planted()
    for row in history.faults:
        if (row["fault"], row["state"]) == ("gone", "recovered"):
            row["at"] = START + recovered * SECOND
    run = history.write(tmp_path / "run")
    times = read_run_times(run)
    gone = next(fault for fault in times.effective if fault.name == "gone")
    estimate = measure_agreement(times, read_samples(run), gone)
    assert estimate.value == value
    if value is None:
        assert (estimate.evidence, estimate.cut_off_by) == (
            "slow took effect before the failed nodes returned", "slow",
        )  # fmt: skip


def agree(history, directory, name="gone"):
    """What agreement comes to after a fault; the nodes of `gone` returned at 40 s."""
    run = history.write(directory / "run")
    times = read_run_times(run)
    fault = next(fault for fault in times.effective if fault.name == name)
    return measure_agreement(times, read_samples(run), fault)


def test_clusters_whose_nodes_did_not_return_do_not_agree(tmp_path):
    history = planted()
    history.faults = [
        row for row in history.faults if row["fault"] == "gone" and row["state"] not in ("healing", "recovered")
    ]
    assert agree(history, tmp_path) == Estimate(value=None, evidence="the failed nodes did not return")


@pytest.mark.parametrize("latest", [WAY, "other>main"])
def test_of_two_ways_that_stay_behind_the_one_that_was_sampled_last_is_named(tmp_path, latest):
    history = planted()
    history.faults = [row for row in history.faults if row["fault"] != "slow"]
    for row in history.observations:
        if row["at"] >= START + 52 * SECOND and row["metric"].endswith((WAY, "other>main")):
            row["value"] = "300" if row["metric"].endswith(latest) else "400"
    last = max(row["at"] for row in history.observations)
    # The other way was sampled before it, but twice after the sample before it.
    moved = {last: last - SECOND // 5, last - SECOND: last - SECOND // 2}
    for row in history.observations:
        if row["metric"].endswith(latest):
            row["value"] = "301" if row["at"] == last else row["value"]
        else:
            row["at"] = moved.get(row["at"], row["at"])
    estimate = agree(history, tmp_path)
    assert estimate.evidence == f"{latest} was still 301 entries behind by the last sample"
    assert estimate.value == (last - START - 40 * SECOND) / SECOND


def test_clusters_that_disagree_slightly_after_they_agreed_are_told_of(tmp_path):
    history = planted()
    for row in history.observations:
        if row["metric"].endswith("other>main") and START + 55 * SECOND <= row["at"] < START + 58 * SECOND:
            row["value"] = "10"
    estimate = agree(history, tmp_path)
    assert estimate.value == 12.0
    slightly = "slightly above again until 37.0 s after the effect"
    assert estimate.evidence == f"other>main was last, 32.0 s after the effect; {slightly}"


def test_clusters_that_agree_behind_a_silence_of_the_monitor_may_have_agreed_earlier(tmp_path):
    run = planted().write(tmp_path / "run")
    times = read_run_times(run)
    gone = next(fault for fault in times.effective if fault.name == "gone")
    samples = replace(read_samples(run), silences=((START + 45 * SECOND, START + 52 * SECOND),))
    estimate = measure_agreement(times, samples, gone)
    assert (estimate.value, estimate.limits) == (12.0, (5.0, 12.0))


@pytest.mark.parametrize("way", [WAY, "other>main"])
def test_a_way_that_was_not_sampled_after_the_nodes_returned_may_be_behind(tmp_path, way):
    history = planted()
    history.observations = [
        row for row in history.observations if not row["metric"].endswith(way) or row["at"] < START + 40 * SECOND
    ]
    estimate = agree(history, tmp_path)
    assert estimate.value is None
    assert estimate.evidence.startswith(f"replication {way} was not sampled after the failed nodes returned")


def test_clusters_that_agreed_before_the_nodes_returned_agree_with_the_first_sample_after_that(tmp_path):
    history = planted()
    for row in history.observations:
        if row["at"] >= START + 35 * SECOND:
            row["value"] = "2"
    assert agree(history, tmp_path).value == 0.0


def test_a_way_that_was_never_sampled_may_be_behind(tmp_path):
    history = planted()
    # The cluster that stayed is the only one that was sampled.
    history.observations = [row for row in history.observations if row["metric"].endswith("other>main")]
    for row in history.observations:
        if row["at"] >= START + 35 * SECOND:
            row["value"] = "2"
    estimate = agree(history, tmp_path)
    assert estimate.value is None
    assert estimate.evidence.startswith(f"replication {WAY} was not sampled after the failed nodes returned")


def test_without_any_sample_of_replication_no_way_is_named(tmp_path):
    history = planted()
    history.observations = []
    assert agree(history, tmp_path) == Estimate(value=None, evidence="no replication was sampled")


@pytest.mark.parametrize(("backlog", "value"), [(400, 4.9), (2, 0.9)])
def test_the_backlog_of_a_fault_does_not_hide_that_clusters_disagree_after_the_next_one(tmp_path, backlog, value):
    """`gone` left 500 entries until 52 s. The nodes of `slow` return at 70.1 s; there is a sample each second."""
    history = planted()
    for row in history.observations:
        if row["metric"].endswith("other>main") and START + 62 * SECOND <= row["at"] < START + 75 * SECOND:
            row["value"] = str(backlog)
    assert agree(history, tmp_path, "slow").value == pytest.approx(value)


@pytest.mark.parametrize(
    ("subject", "value"),
    [("slow", 60.0), ("slow/main", 60.0), ("slow/other", None), ("steady/main", 10.0), ("steady/other", 0.4)],
)
def test_publishing_is_measured_by_cluster_and_while_a_fault_slowed_it_down(judged, subject, value):
    assert judged.measured("publish_latency_p50_ms", subject)["value"] == value


def test_only_what_slows_things_down_has_a_latency_of_its_own(judged):
    subjects = {row["subject"] for row in judged.table("measurements") if row["metric"] == "publish_latency_p50_ms"}

    assert {subject.partition("/")[0] for subject in subjects} == {"steady", "impact", "recovery", "slow"}
