"""What Prometheus reads of the last runs, read back with its own parser."""

from __future__ import annotations

import math
import re
from functools import partial

import httpx
import pytest
from brokerproof.commands.history_commands import parse_listen
from brokerproof.errors import InputError
from brokerproof.experiment.guarantees import Anomaly
from brokerproof.reports.last_run_metrics import render_metrics, serve_metrics
from brokerproof.results.history import History
from grafana_dashboards import RESULTS
from prometheus_client.parser import text_string_to_metric_families

RUN = {"topology": "stretched", "system": "pulsar", "version": "4.0.8", "runtime": "process"}


def read(history: History, name: str) -> dict[tuple[str, ...], float]:
    """The samples of a metric, by scenario and by the labels that not every metric has."""
    families = {family.name: family for family in text_string_to_metric_families(render_metrics(history))}
    samples = families[f"brokerproof_last_run_{name}"].samples
    assert [sample for sample in samples if not RUN.items() <= sample.labels.items()] == []
    # The scenario comes first, and then the other labels by their names.
    return {
        (labels.pop("scenario"), *(labels[label] for label in sorted(labels) if label not in RUN)): sample.value
        for sample, labels in ((sample, dict(sample.labels)) for sample in samples)
    }


def test_every_metric_has_a_help_and_is_a_gauge(plant, judgement, sqlite_history):
    sqlite_history.record(plant(judged=judgement()))
    families = list(text_string_to_metric_families(render_metrics(sqlite_history)))
    assert len(families) == 13
    assert {(family.type, bool(family.documentation)) for family in families} == {("gauge", True)}


def test_the_verdict_is_1_and_every_other_one_is_0(plant, judgement, sqlite_history):
    sqlite_history.record(plant(judged=judgement("failed", failed=("ordering",))))
    assert read(sqlite_history, "verdict") == {
        ("kill_region", "passed"): 0,
        ("kill_region", "failed"): 1,
        ("kill_region", "unknown"): 0,
        ("kill_region", "no_data"): 0,
    }
    assert read(sqlite_history, "as_expected") == {("kill_region",): 0}


def test_only_the_last_run_of_each_scenario_counts(plant, judgement, sqlite_history):
    sqlite_history.record(plant("new", judged=judgement(), minutes=9))
    sqlite_history.record(plant("old", judged=judgement("failed", failed=("ordering",)), minutes=1))
    sqlite_history.record(plant("other", judged=judgement(), minutes=3, changes={"name": "other"}))
    assert read(sqlite_history, "as_expected") == {("kill_region",): 1, ("other",): 1}
    start = 1_767_225_600
    assert read(sqlite_history, "start_timestamp_seconds") == {
        ("kill_region",): start + 9 * 60,
        ("other",): start + 3 * 60,
    }


def test_measurements_are_those_of_the_worst_fault_in_seconds(plant, judgement, sqlite_history):
    measured = {
        **{("rto_s", "a"): 3.0, ("rto_s", "b"): 49.3, ("longest_ack_gap_s", "a"): 12.5, ("unavailable_s", "b"): 48.5},
        **{("rpo_messages", "a"): 1470.0, ("rpo_s", "a"): 3.25},
        **{("publish_latency_p99_ms", "steady"): 12.0, ("publish_latency_p99_ms", "recovery"): None},
    }
    sqlite_history.record(plant(judged=judgement(measured=measured)))
    worst = {name: read(sqlite_history, name) for name in ("rto_seconds", "longest_ack_gap_seconds", "rpo_messages")}
    assert worst == {
        "rto_seconds": {("kill_region",): 49.3},
        "longest_ack_gap_seconds": {("kill_region",): 12.5},
        "rpo_messages": {("kill_region",): 1470},
    }
    assert read(sqlite_history, "unavailable_seconds") == {("kill_region",): 48.5}
    assert read(sqlite_history, "rpo_seconds") == {("kill_region",): 3.25}
    assert read(sqlite_history, "publish_latency_p99_seconds") == {("kill_region", "steady"): 0.012}
    assert read(sqlite_history, "duration_seconds") == {("kill_region",): 130.5}


def test_what_a_fault_left_unmeasured_has_no_sample(plant, judgement, sqlite_history):
    sqlite_history.record(plant(judged=judgement(measured={("rto_s", "a"): 3.0, ("rto_s", "b"): None})))
    assert read(sqlite_history, "rto_seconds") == {}


def test_every_anomaly_is_counted_legal_and_illegal_apart(plant, judgement, sqlite_history):
    judged = judgement("failed", failed=("completeness",), illegal={"lost": 7}, legal={"stored_twice": 23})
    sqlite_history.record(plant(judged=judged))
    counted = read(sqlite_history, "anomalies")
    assert len(counted) == 2 * len(Anomaly)
    assert {labels: value for labels, value in counted.items() if value} == {
        ("kill_region", "lost", "no"): 7,
        ("kill_region", "stored_twice", "yes"): 23,
    }
    assert read(sqlite_history, "acked_messages") == {("kill_region",): 990}


def test_a_run_that_was_not_judged_counts_nothing_and_is_unknown(plant, sqlite_history):
    sqlite_history.record(plant())
    assert read(sqlite_history, "anomalies") == read(sqlite_history, "acked_messages") == {}
    assert read(sqlite_history, "verdict")["kill_region", "unknown"] == 1


def test_a_run_that_is_worse_than_the_one_before_is_flagged(plant, judgement, sqlite_history):
    sqlite_history.record(plant("good", judged=judgement()))
    assert read(sqlite_history, "regressed") == {("kill_region",): 0}
    sqlite_history.record(plant("bad", judged=judgement("failed", failed=("ordering",)), minutes=5))
    assert read(sqlite_history, "regressed") == {("kill_region",): 1}


def test_a_run_that_could_not_be_compared_takes_no_sample_from_others(plant, judgement, sqlite_history, monkeypatch):
    sqlite_history.record(plant("good", judged=judgement()))

    def refuse(_run):
        raise InputError("its rule cannot be used")

    monkeypatch.setattr(sqlite_history, "compare", refuse)
    sqlite_history.record(plant("bad", judged=judgement(), changes={"name": "other"}))
    assert read(sqlite_history, "regressed") == {("kill_region",): 0}
    assert read(sqlite_history, "as_expected") == {("kill_region",): 1, ("other",): 1}


def test_a_label_with_quotes_is_read_back_as_it_was(plant, judgement, sqlite_history):
    subject = 'a "b"\\c\nd'
    sqlite_history.record(plant(judged=judgement(measured={("publish_latency_p99_ms", subject): 1.0})))
    (labels,) = read(sqlite_history, "publish_latency_p99_seconds")
    assert labels == ("kill_region", subject)


def test_an_empty_history_has_no_samples(sqlite_history):
    families = list(text_string_to_metric_families(render_metrics(sqlite_history)))
    assert families
    assert not any(family.samples for family in families)


def test_no_sample_is_no_number(plant, judgement, sqlite_history):
    sqlite_history.record(plant(judged=judgement(measured={("rto_s", "a"): None})))
    families = text_string_to_metric_families(render_metrics(sqlite_history))
    assert not any(math.isnan(sample.value) for family in families for sample in family.samples)


def test_grafanas_dashboard_asks_for_metrics_that_there_are(sqlite_history):
    known = {family.name for family in text_string_to_metric_families(render_metrics(sqlite_history))}
    expressions = [chart.expr for charts in RESULTS.values() for chart in charts]
    asked = {name for expr in expressions for name in re.findall(r"brokerproof_\w+", expr)}
    assert asked
    assert asked <= known


def test_who_asks_gets_what_the_history_holds_then(plant, judgement, sqlite_history):
    with serve_metrics(sqlite_history, "127.0.0.1", 0) as port:
        ask = partial(httpx.get, f"http://127.0.0.1:{port}/metrics", trust_env=False)
        assert "brokerproof_last_run_as_expected{" not in ask().text
        sqlite_history.record(plant(judged=judgement()))
        assert "brokerproof_last_run_as_expected{" in ask().text
    with pytest.raises(httpx.ConnectError):
        ask()


def test_a_port_that_somebody_else_has_is_said(sqlite_history):
    with (
        serve_metrics(sqlite_history, "127.0.0.1", 0) as port,
        pytest.raises(InputError, match=f"nothing can listen at 127.0.0.1:{port}"),
        serve_metrics(sqlite_history, "127.0.0.1", port),
    ):
        pass


@pytest.mark.parametrize("value", ["9101", "127.0.0.1", "127.0.0.1:", ":9101", "127.0.0.1:99999", "127.0.0.1:x"])
def test_an_address_without_a_port_is_refused(value):
    with pytest.raises(InputError, match="is no address with a port"):
        parse_listen(value)
