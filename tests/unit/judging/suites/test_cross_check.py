"""The second count of a suite's rows: what it doubts, sentence by sentence, and that it doubts nothing else."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from brokerproof.experiment.guarantees import Suite
from brokerproof.run.directory import Run
from brokerproof.suites.suite_file import SuiteFile
from brokerproof.suites.written_expectation import WrittenExpectation
from brokerproof_judging.suites.cross_check import (
    MessageCounts,
    doubt_measurements,
    doubt_messages,
    find_unmeasured,
    list_suites_measured,
)
from brokerproof_judging.suites.tally import Tally
from builders import make_run

NODE = {"nodes": ["broker-eu-1"]}
FAULTS = [
    {"name": "killed", "kind": "kill", "targets": NODE},
    {"name": "back", "kind": "start", "targets": NODE, "at_s": 5},
    {"name": "wiped", "kind": "destroy", "targets": {"nodes": ["bookie-eu-1"]}, "at_s": 8},
]
NAN = float("nan")


@pytest.fixture
def make(tmp_path: Path) -> Any:
    numbers = itertools.count()

    def make_with(**changes: Any) -> Run:
        bounds = changes.pop("bounds", {})
        directory = tmp_path / str(next(numbers)) / "run"
        return make_run(directory, "sync_nominal", {"owner": {}, "bounds": bounds, **changes})

    return make_with


def expect(metric: str, **kwargs: Any) -> WrittenExpectation:
    return WrittenExpectation(name=metric, description="", content={"kwargs": {"metric": metric, **kwargs}})


def row(metric: str, subject: str | None = "steady", value: float | None = 1.0, **columns: Any) -> dict[str, Any]:
    nothing = dict.fromkeys(("minimum", "maximum", "at_least", "at_most", "doubt"))
    found = {"run_id": "planted", "suite": Suite.RECOVERY, "metric": metric, "subject": subject, "value": value}
    return {**nothing, **found, **columns}


def tally(rows: int, unexpected: int = 0, undecided: int = 0, legal: int = 0) -> Tally:
    return Tally(rows=rows, unexpected=unexpected, undecided=undecided, legal=legal)


def doubts(
    run: Run, rows: list[dict[str, Any]], *written: WrittenExpectation, found: Mapping[str, Tally] | None = None
) -> list[str]:
    """The doubts about measurements. Unless `found` differs, Great Expectations counted the rows that there are."""
    tallies = {each.name: tally(sum(one["metric"] == each.name for one in rows)) for each in written} | (found or {})
    here = [{**one, "run_id": run.run_id} if one["run_id"] == "planted" else one for one in rows]
    return list(doubt_measurements(SuiteFile(path="", suite="recovery", expectations=written), tallies, here, run))


# Messages


def count(**changes: Any) -> MessageCounts:
    places = frozenset({("mycluster", None), ("mycluster", "audit")})
    sound = {"rows": 2000, "acked": 2000, "foreign": 0, "contradictory": 0, "places": places, "anomalies": {}}
    return MessageCounts(**{**sound, **changes})


@pytest.mark.parametrize(
    ("found", "counts", "sentences"),
    [
        (tally(2000), count(), []),
        (tally(2000), count(foreign=1001), ["1,001 rows of `messages` belong to another run"]),
        (
            tally(2000),
            count(contradictory=1002),
            ["1,002 rows of `messages` name an unknown anomaly, or an illegal one that was not found"],
        ),
        (
            tally(2000),
            count(anomalies={("z", True): 1, ("odd", False): 1, (None, False): 2}),
            ["`anomalies` holds an unknown anomaly, `None`"],
        ),
        (tally(2000, unexpected=1003), count(anomalies={("lost", False): 1003}), []),
        (
            tally(2000, unexpected=1003, legal=1004),
            count(anomalies={("lost", False): 1005, ("lost", True): 1006}),
            [
                "`messages` has 1,003 illegal `lost`, and `anomalies` has 1,005",
                "`messages` has 1,004 legal `lost`, and `anomalies` has 1,006",
            ],
        ),
        # Only what is unproven is undecided, which the table of anomalies calls legal.
        (tally(2000, undecided=3), count(), []),
        (tally(1999), count(), ["`lost` was asked of 1,999 of 2,000 rows"]),
        (
            tally(2000),
            count(places=frozenset({("other", None)})),
            [
                "no row of `messages` is about the log of `mycluster`",
                "no row of `messages` is about subscription `audit` on `mycluster`",
            ],
        ),
    ],
)
def test_what_is_doubted_about_messages(make: Any, found: Tally, counts: MessageCounts, sentences: list[str]) -> None:
    assert list(doubt_messages({"lost": found}, counts, make())) == sentences


def test_what_is_unproven_counts_as_legal(make: Any) -> None:
    found = {"unproven": tally(2000, undecided=3, legal=4)}
    assert list(doubt_messages(found, count(anomalies={("unproven", True): 7}), make())) == []
    (doubt,) = doubt_messages(found, count(anomalies={("unproven", True): 4}), make())
    assert doubt == "`messages` has 7 legal `unproven`, and `anomalies` has 4"


def test_the_places_of_messages_are_the_clusters_and_subscriptions_of_the_scenario(tmp_path: Path) -> None:
    subscriptions = [{"name": "here"}, {"name": "there", "cluster": "cluster-us"}]
    workload = {"workload.subscriptions": subscriptions, "workload.produce_on": ["cluster-us"]}
    run = make_run(tmp_path / "run", "geo_nominal", {**workload, "bounds": {}})
    assert list(doubt_messages({}, count(places=frozenset()), run)) == [
        "no row of `messages` is about the log of `cluster-us`",
        "no row of `messages` is about subscription `here` on `cluster-eu`",
        "no row of `messages` is about subscription `there` on `cluster-us`",
    ]


# Measurements


def test_the_suites_of_a_file_are_those_of_its_metrics() -> None:
    written = tuple(expect(name) for name in ("rto_s", "owner_in_region", "rpo_s"))
    file = SuiteFile(path="", suite="mine", expectations=written)
    assert list_suites_measured(file) == [Suite.RECOVERY, Suite.PLACEMENT]


@pytest.mark.parametrize(
    ("changes", "sentences"),
    [
        ({}, []),
        ({"run_id": "other"}, ["`rate_held` of `steady` belongs to another run"]),
        # A row of another suite is not judged here.
        ({"run_id": "other", "metric": "owner_in_region", "suite": Suite.PLACEMENT}, []),
        ({"metric": "odd"}, ["`measurements` holds an unknown metric, `odd`"]),
        ({"metric": "odd", "suite": None}, ["`measurements` holds an unknown metric, `odd`"]),
        ({"metric": "odd", "suite": Suite.PLACEMENT}, []),
        ({"metric": "odd", "suite": "strange"}, ["`odd` belongs to no suite that there is, `strange`"]),
        ({"metric": "rto_s", "suite": Suite.PLACEMENT}, ["`rto_s` is filed under `placement`, where it is not judged"]),
        ({"metric": "owner_in_region", "suite": Suite.RECOVERY}, []),
    ],
)
def test_a_row_that_belongs_elsewhere_is_doubted(make: Any, changes: dict[str, Any], sentences: list[str]) -> None:
    assert doubts(make(), [{**row("rate_held"), **changes}], expect("publish_latency_p99_ms")) == sentences


@pytest.mark.parametrize(
    ("kwargs", "columns", "outside"),
    [
        ({}, {}, 0),
        ({"maximum": 0.5}, {}, 1),
        ({"maximum": 1}, {}, 0),
        ({"minimum": 1.5}, {}, 1),
        ({"minimum": 1}, {}, 0),
        # The row's own bounds come first.
        ({"maximum": 0.5}, {"maximum": 2}, 0),
        ({"maximum": 2}, {"maximum": 0.5}, 1),
        ({"minimum": 1.5}, {"minimum": 0.5}, 0),
        ({"minimum": 0.5}, {"minimum": 1.5}, 1),
        # Nothing is claimed of a value that is in doubt, or without a value.
        ({"maximum": 0.5}, {"doubt": "its targets were known only before"}, 0),
        ({"minimum": 0.5, "maximum": 0.5}, {"value": None}, 0),
        ({"maximum": 0.5}, {"value": NAN}, 0),
        ({"minimum": NAN, "maximum": 0.5}, {}, 0),
        ({"minimum": 1.5, "maximum": NAN}, {}, 0),
        # A value between limits is out of bounds if both limits are.
        ({"maximum": 0.5}, {"at_least": 0.6, "at_most": 9.0}, 1),
        ({"maximum": 0.5}, {"at_least": 0.5, "at_most": 9.0}, 0),
        ({"maximum": 0.5}, {"at_least": 0.6, "at_most": None}, 1),
        ({"maximum": 0.5}, {"at_least": None, "at_most": 9.0}, 0),
        ({"minimum": 1.5}, {"at_least": None, "at_most": 1.4}, 1),
        ({"minimum": 1.5}, {"at_least": 0.0, "at_most": 1.5}, 0),
        ({"minimum": 1.5}, {"at_least": 0.0, "at_most": None}, 0),
    ],
)
def test_rows_out_of_bounds_are_counted_again(
    make: Any, kwargs: dict[str, Any], columns: dict[str, Any], outside: int
) -> None:
    run, written = make(), expect("rate_held", **kwargs)
    # A row in doubt ends nothing, and the row after it counts too.
    rows = [row("rate_held", **columns), row("rate_held", "impact", **columns), row("rate_held", "recovery")]
    more = kwargs.get("minimum", 1) > 1 or kwargs.get("maximum", 1) < 1
    found = 2 * outside + (more and not any(map(math.isnan, kwargs.values())))
    assert doubts(run, rows, written, found={"rate_held": tally(3, found)}) == []
    assert doubts(run, rows, written, found={"rate_held": tally(3, found + 1001)}) == [
        f"`rate_held` was found out of bounds {found + 1001:,} times in 3 rows, and is {found:,} times in 3"
    ]
    assert doubts(run, rows, written, found={"rate_held": tally(1004, found)}) == [
        f"`rate_held` was found out of bounds {found:,} times in 1,004 rows, and is {found:,} times in 3"
    ]


@pytest.mark.parametrize(
    ("bounds", "columns", "sentences"),
    [
        ({"rate_held": {"min": 0.5}}, {"minimum": 0.5}, []),
        (
            {"rate_held": {"min": 0.5}},
            {"maximum": 2.0},
            ["the scenario's bound on `rate_held` of `steady`, 0.5 to no limit, arrived as no limit to 2"],
        ),
        (
            {"rate_held/steady": {"max": 2}, "rate_held": {"min": 0.5}},
            {"minimum": 0.5},
            ["the scenario's bound on `rate_held` of `steady`, no limit to 2, arrived as 0.5 to no limit"],
        ),
        ({"rate_held": {"min": 0.5}}, {"subject": None, "minimum": 0.5}, []),
        # A bound that the scenario does not give comes from a default.
        ({}, {"minimum": 0.5}, []),
    ],
)
def test_a_bound_arrives_with_its_row(
    make: Any, bounds: dict[str, Any], columns: dict[str, Any], sentences: list[str]
) -> None:
    rows = [{**row("rate_held"), **columns}, {**row("rate_held", "impact"), "minimum": 0.5}]
    wanted = [each for each in sentences if "steady" in each]
    found = [each for each in doubts(make(bounds=bounds), rows, expect("rate_held")) if "`impact`" not in each]
    assert [each for each in found if "not measured" not in each] == wanted


def test_a_region_of_the_owner_is_a_demand(make: Any) -> None:
    run = make(**{"owner": {"steady": "eu", "recovery": "eu"}})
    rows = [row("owner_in_region", suite=Suite.PLACEMENT), row("owner_in_region", "recovery", suite=Suite.PLACEMENT)]
    rows[0]["minimum"] = 1.0
    assert doubts(run, rows, expect("owner_in_region")) == ["`owner_in_region` of `recovery` came without a minimum"]
    bounded = make(**{"owner": {"steady": "eu"}}, bounds={"owner_in_region": {"max": 1}})
    rows = [row("owner_in_region", suite=Suite.PLACEMENT, maximum=1)]
    assert doubts(bounded, rows, expect("owner_in_region")) == []
    # Other metrics need no minimum.
    assert doubts(make(), [row("rate_held")], expect("rate_held")) == []


UNMEASURED = [
    # metric, required, bounds, subjects that have a row, what is missing
    ("rate_held", False, {}, [], []),
    ("rate_held", True, {}, [], [""]),
    ("rate_held", True, {}, ["steady"], []),
    ("rate_held", False, {"rate_held": {"min": 1}}, [], [""]),
    ("rate_held", False, {"rate_held": {"min": 1}}, ["steady"], []),
    ("rate_held", False, {"rate_held/steady": {"min": 1}, "rate_held/impact": {"min": 1}}, ["steady"], ["impact"]),
    ("rate_held", True, {"rate_held/steady": {"min": 1}}, [], ["steady"]),
    # Another metric's bound demands nothing of this one.
    ("rate_held", False, {"rto_s": {"max": 1}, "rpo_s/killed": {"max": 1}}, [], []),
    # A fault that helps the cluster is not measured.
    ("rto_s", False, {}, [], []),
    ("rto_s", True, {}, [], ["killed", "wiped"]),
    ("rto_s", True, {}, ["killed", "wiped"], []),
    ("rto_s", False, {"rto_s": {"max": 1}}, ["wiped"], ["killed"]),
    ("rto_s", False, {"rto_s/killed": {"max": 1}}, [], ["killed"]),
    ("lost_later_messages", True, {}, [], ["wiped"]),
    ("lost_later_messages", False, {"lost_later_messages": {"max": 0}}, [], ["wiped"]),
    # A bound demands its own row, beside those that all bounds or the suite demand.
    ("rto_s", True, {"rto_s/back": {"max": 1}}, [], ["back", "killed", "wiped"]),
    ("owner_in_region", False, {}, ["steady"], ["recovery"]),
    ("owner_in_region", False, {"owner_in_region/impact": {"min": 1}}, ["steady"], ["impact", "recovery"]),
]


@pytest.mark.parametrize(("metric", "required", "bounds", "measured", "missing"), UNMEASURED)
def test_what_is_demanded_is_measured(
    make: Any, metric: str, required: bool, bounds: dict[str, Any], measured: list[str], missing: list[str]
) -> None:
    owner = {"steady": "eu", "recovery": "eu"} if metric == "owner_in_region" else {}
    run = make(bounds=bounds, owner=owner, faults=FAULTS)
    rows = [row(metric, subject) for subject in measured]
    found = list(find_unmeasured(expect(metric, required=required), rows, run.scenario))
    assert found == [f"`{metric}`{f' of `{subject}`' if subject else ''} was not measured" for subject in missing]


def test_without_harmful_faults_a_metric_of_faults_has_no_rows(make: Any) -> None:
    assert list(find_unmeasured(expect("rto_s", required=True), [], make().scenario)) == []
    run = make(bounds={"rto_s": {"max": 1}})
    assert list(find_unmeasured(expect("rto_s"), [], run.scenario)) == ["`rto_s` was not measured"]
