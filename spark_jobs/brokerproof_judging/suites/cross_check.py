"""What a suite's result is checked against, counted without Great Expectations and without the suite files.

A disagreement makes the suite `unknown`: one of the two ways to count is wrong, and a verdict may rest on neither.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from brokerproof.experiment.guarantees import DEFINITIONS, Anomaly, Suite
from brokerproof.experiment.metrics import METRICS
from brokerproof.experiment.scenario import Scenario
from brokerproof.faults.registry import harmful
from brokerproof.run.directory import Run
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from brokerproof_judging.suites.suite_file import SuiteFile


@dataclass(frozen=True, kw_only=True)
class Tally:
    """Numbers of rows that one expectation is about, and that are unexpected, undecided and legal."""

    rows: int
    unexpected: int
    undecided: int
    legal: int


@dataclass(frozen=True, kw_only=True)
class MessageCounts:
    """`messages` and `anomalies`, counted. A place is a cluster and a subscription, None for the cluster's log."""

    rows: int
    acked: int
    foreign: int
    contradictory: int
    places: frozenset[tuple[str, str | None]]
    anomalies: Mapping[tuple[str, bool], int]

    @classmethod
    def of(cls, messages: DataFrame, anomalies: DataFrame, run_id: str) -> MessageCounts:
        """Two Spark jobs, whatever the number of anomalies."""
        known = F.array(*(F.lit(str(anomaly)) for anomaly in DEFINITIONS))
        # An illegal anomaly of an unknown name is asked for by no expectation; one that is not among the row's
        # anomalies was not found by anything.
        unheard_of, not_found = F.array_except("anomalies", known), F.array_except("illegal", "anomalies")
        strange = (F.size(unheard_of) > 0) | (F.size(not_found) > 0)
        places = (
            messages.groupBy("cluster", "subscription")
            .agg(
                F.count(F.lit(1)).alias("rows"),
                F.count_if(F.col("outcome") == "acked").alias("acked"),
                F.count_if(~F.col("run_id").eqNullSafe(F.lit(run_id))).alias("foreign"),
                F.count_if(strange).alias("contradictory"),
            )
            .collect()
        )
        found = anomalies.groupBy("anomaly", "legal").agg(F.count(F.lit(1)).alias("rows")).collect()
        return cls(
            rows=sum(place["rows"] for place in places),
            acked=sum(place["acked"] for place in places),
            foreign=sum(place["foreign"] for place in places),
            contradictory=sum(place["contradictory"] for place in places),
            places=frozenset((place["cluster"], place["subscription"]) for place in places),
            anomalies={(row["anomaly"], row["legal"]): row["rows"] for row in found},
        )


def doubts_about_messages(suite: Suite, tallies: Mapping[str, Tally], counts: MessageCounts, run: Run) -> list[str]:
    """Reasons, as sentences, not to believe the suite's result on `messages`."""
    doubts = []
    if counts.foreign:
        doubts.append(f"{counts.foreign:,} rows of `messages` belong to another run")
    if counts.contradictory:
        doubts.append(
            f"{counts.contradictory:,} rows of `messages` name an unknown anomaly, or an illegal one that was not found"
        )
    if strange := sorted(str(name) for name, _ in counts.anomalies if name not in DEFINITIONS):
        doubts.append(f"`anomalies` holds an unknown anomaly, `{strange[0]}`")
    for name, tally in tallies.items():
        seen = tally.legal + (tally.undecided if name == Anomaly.UNPROVEN else 0)
        for what, ours, theirs in (
            ("illegal", tally.unexpected, counts.anomalies.get((name, False), 0)),
            ("legal", seen, counts.anomalies.get((name, True), 0)),
        ):
            if ours != theirs:
                doubts.append(f"`messages` has {ours:,} {what} `{name}`, and `anomalies` has {theirs:,}")
        if tally.rows != counts.rows:
            doubts.append(f"`{name}` was asked of {tally.rows:,} of {counts.rows:,} rows")
    for cluster, subscription in _places(run):
        if (cluster, subscription) not in counts.places:
            place = f"subscription `{subscription}` on" if subscription else "the log of"
            doubts.append(f"no row of `messages` is about {place} `{cluster}`")
    return doubts


def _places(run: Run) -> list[tuple[str, str | None]]:
    """The places that a scenario's own words name; replication adds more."""
    first = next(iter(run.topology.clusters))
    workload = run.scenario.workload
    logs: list[tuple[str, str | None]] = [(cluster, None) for cluster in workload.produce_on or [first]]
    return [*logs, *((subscription.cluster or first, subscription.name) for subscription in workload.subscriptions)]


def doubts_about_measurements(
    file: SuiteFile, tallies: Mapping[str, Tally], rows: list[dict[str, Any]], run: Run
) -> list[str]:
    """Reasons, as sentences, not to believe the suite's result on `measurements`, of which `rows` are all."""
    suite = file.suite
    doubts = []
    for row in rows:
        metric = METRICS.get(row["metric"])
        if metric is None and row["suite"] not in (None, Suite.PLACEMENT, Suite.RECOVERY):
            doubts.append(f"`{row['metric']}` belongs to no suite that there is, `{row['suite']}`")
        elif metric is None and row["suite"] in (None, suite):
            doubts.append(f"`measurements` holds an unknown metric, `{row['metric']}`")
        elif metric is not None and metric.suite is suite and row["suite"] != suite:
            doubts.append(f"`{row['metric']}` is filed under `{row['suite']}`, where it is not judged")
        if row["run_id"] != run.run_id and row["suite"] == suite:
            doubts.append(f"`{row['metric']}` of `{row['subject']}` belongs to another run")
    rows = [row for row in rows if row["suite"] == suite]
    for written in file.expectations:
        own = [row for row in rows if row["metric"] == written.name]
        doubts += _recount(written.name, written.kwargs, tallies[written.name], own)
        doubts += _bounds_not_in_force(written.name, own, run.scenario)
        doubts += _not_measured(written.name, bool(written.kwargs.get("required")), own, run.scenario)
    return doubts


def _recount(name: str, kwargs: Mapping[str, Any], tally: Tally, rows: Iterable[dict[str, Any]]) -> list[str]:
    total = outside = 0
    for row in rows:
        total += 1
        lower = kwargs.get("minimum") if row["minimum"] is None else row["minimum"]
        upper = kwargs.get("maximum") if row["maximum"] is None else row["maximum"]
        value = row["value"]
        if value is None or any(bound is not None and math.isnan(bound) for bound in (value, lower, upper)):
            continue
        outside += (lower is not None and value < lower) or (upper is not None and value > upper)
    if (total, outside) == (tally.rows, tally.unexpected):
        return []
    return [
        f"`{name}` was found out of bounds {tally.unexpected:,} times in {tally.rows:,} rows, "
        f"and is {outside:,} times in {total:,}"
    ]


def _bounds_not_in_force(name: str, rows: Iterable[dict[str, Any]], scenario: Scenario) -> list[str]:
    """Bounds come with the rows; the scenario's own copy tells whether they arrived."""
    doubts = []
    for row in rows:
        bound = scenario.bound(name, row["subject"] or "")
        if name == "owner_in_region" and bound is None and row["minimum"] is None:
            # It is measured only where the scenario names a region under `owner`, which is a demand.
            doubts.append(f"`{name}` of `{row['subject']}` came without a minimum")
        if bound and (bound.min, bound.max) != (row["minimum"], row["maximum"]):
            doubts.append(
                f"the scenario's bound on `{name}` of `{row['subject']}`, {_span(bound.min, bound.max)}, "
                f"arrived as {_span(row['minimum'], row['maximum'])}"
            )
    return doubts


def _not_measured(name: str, required: bool, rows: list[dict[str, Any]], scenario: Scenario) -> list[str]:
    """What has to have a row and has none."""
    measured = {row["subject"] for row in rows}
    bounded = {key.partition("/")[2] for key in scenario.bounds if key.partition("/")[0] == name}
    needed = {subject for subject in bounded if subject}
    if METRICS[name].subject == "fault" and (required or "" in bounded):
        needed |= set(harmful(scenario))
    if name == "owner_in_region":
        needed |= {phase for phase in ("steady", "recovery") if getattr(scenario.owner, phase) is not None}
    doubts = [f"`{name}` of `{subject}` was not measured" for subject in sorted(needed - measured)]
    if not rows and not needed and ("" in bounded or (required and METRICS[name].subject != "fault")):
        doubts.append(f"`{name}` was not measured")
    return doubts


def _span(minimum: float | None, maximum: float | None) -> str:
    low, high = ("no limit" if bound is None else f"{bound:g}" for bound in (minimum, maximum))
    return f"{low} to {high}"
