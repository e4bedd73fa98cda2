"""A regression is suspected; noise and runs that do not compare are not; a note says what could not be compared.

How a suspicion becomes a mark, and how often, is in test_regression_rule.py.
"""

from __future__ import annotations

import json

import pytest
from brokerproof.experiment.metrics import METRICS, MINIMUM_CHANGE
from brokerproof.results.comparability import compute_digest, select_comparable
from brokerproof.results.regressions import ENOUGH_TO_SUSPECT

STEADY = (52.0, 51.0, 53.0, 52.5, 51.5)
RTO = ("rto_s", "kill_us")


@pytest.fixture
def record(plant, judgement, sqlite_history):
    """Records one run after the other, a minute apart, and compares each: `record(value=52.0)`."""
    recorded = []

    def one(verdict="passed", *, metric="rto_s", subject="kill_us", value=None, measured=None, failed=(), **more):
        found = {(metric, subject): value} if measured is None else measured
        index = len(recorded)
        run = plant(
            f"r{index}",
            judged=judgement(verdict, measured=found, failed=failed, illegal=more.pop("illegal", None)),
            minutes=index,
            **more,
        )
        recorded.append(sqlite_history.record(run))
        return sqlite_history.compare(recorded[-1])

    return one


def list_worse(comparison):
    """What is marked or suspected."""
    return [*comparison.marks, *comparison.suspicions]


def test_a_value_far_from_the_usual_one_is_suspected_with_the_reason(record):
    for value in STEADY:
        assert record(value=value).marks == ()

    comparison = record(value=75.0)

    [mark] = comparison.suspicions
    assert (mark.metric, mark.subject, mark.value, mark.usual, mark.unit) == (*RTO, 75.0, 52.0, "s")
    assert mark.reason == (
        "rto_s of kill_us is 75 s, usually 52 ± 1.06 s (median of 5 comparable runs); "
        "a mark needs 17 comparable runs before it"
    )
    assert comparison.marks == ()
    assert comparison.compared_with == ("r4", "r3", "r2", "r1", "r0")


def test_with_too_little_history_there_is_a_note_and_no_mark(record):
    for value in STEADY[:4]:
        record(value=value)

    comparison = record(value=500.0)

    assert list_worse(comparison) == []
    assert comparison.notes == ("measurements are not compared: 4 comparable judged runs before it, 5 needed",)


def test_a_new_metric_has_a_note_about_too_little_history(record):
    for value in STEADY:
        record(value=value)

    comparison = record(measured={RTO: 52.0, ("detect_s", "kill_us"): 900.0})

    assert list_worse(comparison) == []
    assert comparison.notes == ("detect_s of kill_us is not compared: measured in 0 comparable runs, 5 needed",)


@pytest.mark.parametrize(
    ("metric", "before", "now", "marked"),
    [
        pytest.param("rto_s", (52.0,) * 5, 51.0, False, id="better"),
        pytest.param("rto_s", (52.0,) * 5, 52.9, False, id="under the minimum change after identical runs"),
        pytest.param("longest_ack_gap_s", (0.2,) * 5, 1.1, False, id="five times as long, yet under a second"),
        pytest.param("longest_ack_gap_s", (0.2,) * 5, 1.3, True, id="a second longer"),
        pytest.param("rto_s", (52.0,) * 5, 56.0, False, id="under a tenth more"),
        pytest.param("rto_s", (52.0,) * 5, 58.0, True, id="over a tenth more"),
        pytest.param("rto_s", (30.0, 60.0, 40.0, 50.0, 45.0), 65.0, False, id="far, where it always varied"),
        pytest.param("rto_s", (52.0, 52.0, 52.0, 52.0, 600.0), 75.0, True, id="one bad run does not hide it"),
        pytest.param("rpo_messages", (0.0,) * 5, 1.0, True, id="the first message lost"),
        pytest.param("under_replicated_segments", (0.0,) * 5, 1.0, True, id="the first segment left under-replicated"),
        pytest.param("publish_latency_p99_ms", (8.0,) * 5, 12.0, False, id="milliseconds of noise"),
        pytest.param("publish_latency_p99_ms", (8.0,) * 5, 14.0, True, id="more milliseconds than noise"),
        pytest.param("local_read_share", (1.0,) * 5, 0.4, True, id="less where more is better"),
        pytest.param("local_read_share", (0.4,) * 5, 1.0, False, id="more where more is better"),
        pytest.param("local_read_share", (1.0,) * 5, 0.97, False, id="a little less"),
        pytest.param("rereplicate_s", (40.0,) * 5, None, True, id="not measured any more"),
        pytest.param("rereplicate_s", (40.0, 40.0, 40.0, None, 40.0), None, False, id="not always measured"),
        pytest.param("sampling_gap_s", (1.0,) * 5, 90.0, False, id="the platform's own error"),
    ],
)
def test_a_measurement_is_marked_if_it_is_worse_by_enough(record, metric, before, now, marked):
    for value in before:
        record(metric=metric, value=value)

    assert bool(list_worse(record(metric=metric, value=now))) is marked


def test_only_the_same_subject_compares(record):
    for value in STEADY:
        record(subject="kill_us", value=value)

    assert list_worse(record(subject="kill_eu", value=500.0)) == []


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        pytest.param({"workload": {"namespace": "shop/orders", "rate": 2000}}, "workload.rate 1000 → 2000", id="rate"),
        pytest.param(
            {"workload": {"namespace": "shop/orders", "rate": 1000, "size": 5000}},
            "workload.size 200 → 5000",
            id="size",
        ),
        pytest.param({"runtime": "docker"}, "scenario.runtime process → docker", id="runtime"),
        pytest.param({"phases": {"impact_s": 90}}, "phases.impact_s 60.0 → 90.0", id="timeline"),
        pytest.param(
            {"settings": {"broker": {"zooKeeperSessionTimeoutMillis": 5000}}}, "settings.broker", id="settings"
        ),
    ],
)
def test_runs_with_other_parameters_do_not_compare_and_a_note_names_the_difference(record, changes, difference):
    for value in STEADY:
        record(value=value)

    comparison = record("failed", value=500.0, changes=changes, failed=("recovery",))

    assert list_worse(comparison) == []
    assert comparison.notes[0] == "measurements are not compared: 0 comparable judged runs before it, 5 needed"
    assert comparison.notes[1].startswith("run r4 is not comparable: ")
    assert difference in comparison.notes[1]


@pytest.mark.parametrize(
    "machine", [{"architecture": "arm64", "processors": 2}, {"architecture": "x86_64", "processors": 64}]
)
def test_runs_on_another_kind_of_machine_do_not_compare(record, machine):
    for value in STEADY:
        record(value=value, machine={"architecture": "x86_64", "processors": 2})

    assert list_worse(record(value=500.0, machine=machine)) == []


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"version": "4.1.0"}, id="version"),
        pytest.param({"title": "Another title", "tags": ["nightly"]}, id="description"),
        pytest.param({"bounds": {"rto_s": {"max": 500}}}, id="bounds"),
    ],
)
def test_versions_descriptions_and_bounds_need_not_be_equal(record, changes):
    for value in STEADY:
        record(value=value)

    assert [worse.metric for worse in list_worse(record(value=75.0, changes=changes))] == ["rto_s"]


def test_a_comparison_names_the_changed_versions(record):
    for value in STEADY:
        record(value=value, versions={"java": "21.0.7"})

    comparison = record(value=75.0, changes={"version": "4.1.0"}, versions={"java": "21.0.8"})

    assert comparison.changed_versions == ("java 21.0.7 → 21.0.8", "pulsar 4.0.8 → 4.1.0")


def test_unknown_runs_do_not_count_as_history(record):
    for value in STEADY:
        record("unknown", value=value)

    assert record(value=500.0).notes[0].startswith("measurements are not compared: 0 comparable")


CONTROL = {"expect": {"verdict": "failed", "at_least": {"lost": 1}}}
PASSED = {"verdict": "passed"}
UNKNOWN = {"verdict": "unknown"}
FAILED = {"verdict": "failed", "failed": ("completeness",)}
LOST = {**FAILED, "illegal": {"lost": 3}}


@pytest.mark.parametrize(
    ("changes", "before", "now", "reason"),
    [
        pytest.param({}, PASSED, PASSED, None, id="passed again"),
        pytest.param({}, FAILED, PASSED, None, id="passed at last"),
        pytest.param({}, FAILED, FAILED, None, id="failed as before"),
        pytest.param({}, PASSED, FAILED, "the verdict is failed (expected passed) and was passed", id="failed"),
        pytest.param({}, PASSED, UNKNOWN, "the verdict is unknown (expected passed) and was passed", id="unknown"),
        pytest.param({}, UNKNOWN, FAILED, "the verdict is failed (expected passed) and was unknown", id="from unknown"),
        pytest.param({}, FAILED, UNKNOWN, None, id="unknown after failed"),
        pytest.param(CONTROL, LOST, LOST, None, id="a control that fails as before"),
        pytest.param(CONTROL, PASSED, LOST, None, id="a control that fails at last"),
        pytest.param(
            CONTROL, LOST, PASSED, "the verdict is passed (expected failed) and was failed", id="a control that passes"
        ),
        pytest.param(
            CONTROL,
            LOST,
            FAILED,
            "is failed (not as expected) and was failed (as expected)",
            id="a control that lost 0",
        ),
    ],
)
def test_a_verdict_that_got_worse_is_marked_without_any_history(record, changes, before, now, reason):
    record(**before, changes=changes)

    marks = record(**now, changes=changes).marks

    assert [mark.metric for mark in marks] == ([] if reason is None else ["verdict"])
    assert reason is None or reason in marks[0].reason


def test_the_first_run_has_no_regression(record):
    comparison = record("failed", failed=("recovery",), value=500.0)

    assert (list_worse(comparison), comparison.compared_with, comparison.changed_versions) == ([], (), ())


def test_an_older_run_is_not_compared_with_newer_ones(plant, judgement, sqlite_history):
    for index in range(ENOUGH_TO_SUSPECT):
        sqlite_history.record(plant(f"r{index}", judged=judgement(measured={RTO: 52.0}), minutes=10 + index))
    late = sqlite_history.record(plant("late", judged=judgement(measured={RTO: 500.0}), minutes=1))

    assert sqlite_history.compare(late).compared_with == ()


def test_the_first_message_lost_is_marked_at_once(record):
    for _ in range(ENOUGH_TO_SUSPECT):
        record(metric="rpo_messages", value=0.0)

    assert [mark.metric for mark in record(metric="rpo_messages", value=1.0).marks] == ["rpo_messages"]


def test_what_a_scenario_says_of_regressions_is_in_force_and_does_not_keep_runs_from_comparing(record):
    for value in STEADY:
        record(value=value)

    tolerant = record(value=75.0, changes={"regression": {"tolerance": 0.5}})

    assert len(tolerant.compared_with) == 5
    assert list_worse(tolerant) == []
    assert [worse.metric for worse in list_worse(record(value=75.0))] == ["rto_s"]


def test_every_unit_has_a_minimum_change():
    assert {metric.unit for metric in METRICS.values()} == set(MINIMUM_CHANGE)


def test_the_digest_does_not_depend_on_the_order_of_fields(scenario, topology):
    parameters = {"scenario": scenario().model_dump(mode="json"), "topology": topology.model_dump(mode="json")}
    turned = {name: dict(reversed(fields.items())) for name, fields in parameters.items()}

    assert compute_digest(turned) == compute_digest(parameters)
    assert "version" not in select_comparable(parameters)["scenario"]


def test_the_digest_depends_on_the_shared_metadata_store_but_not_on_an_empty_one(scenario, topology):
    parameters = {"scenario": scenario().model_dump(mode="json"), "topology": topology.model_dump(mode="json")}
    without = {**parameters, "topology": {k: v for k, v in parameters["topology"].items() if k != "shared_metadata"}}
    shared = {**parameters["topology"], "shared_metadata": {"metadata-1": {"role": "metadata", "region": "witness"}}}
    assert compute_digest(parameters) == compute_digest(without)
    assert compute_digest({**parameters, "topology": shared}) != compute_digest(parameters)


def test_the_digest_depends_on_the_delays_of_links(scenario, topology):
    parameters = {"scenario": scenario().model_dump(mode="json"), "topology": topology.model_dump(mode="json")}
    near = {**parameters["topology"], "links": [{"between": ["eu", "us"], "delay_ms": 5.0}]}
    far = {**parameters["topology"], "links": [{"between": ["eu", "us"], "delay_ms": 20.0}]}
    told = {compute_digest({**parameters, "topology": each}) for each in (parameters["topology"], near, far)}
    assert len(told) == 3


def test_a_run_recorded_before_a_field_existed_compares_with_later_runs(scenario, topology):
    parameters = {"scenario": scenario().model_dump(mode="json"), "topology": topology.model_dump(mode="json")}
    before = json.loads(json.dumps(parameters))
    for subscription in before["scenario"]["workload"]["subscriptions"]:
        del subscription["replicated"], subscription["moves"], subscription["region"]
    for cluster in before["topology"]["clusters"].values():
        for node in cluster["nodes"].values():
            del node["standby"]
    assert compute_digest(before) == compute_digest(parameters)
    before["scenario"]["workload"]["partitions"] = None
    assert compute_digest(before) != compute_digest(parameters), "0 says something"
    before = json.loads(json.dumps(parameters))
    next(iter(before["topology"]["clusters"].values()))["placement"]["local_reads"] = False
    assert compute_digest(before) != compute_digest(parameters)
