"""Counts the rows of a suite's tables a second time, without Great Expectations, and compares the two counts.

If they differ, the suite's verdict is `unknown`, because one of them is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from brokerproof.experiment.guarantees import Anomaly, Suite
from brokerproof.experiment.metrics import METRICS
from brokerproof.experiment.scenario import Scenario
from brokerproof.faults.registry import list_destroying_faults, list_harmful_faults
from brokerproof.run.directory import Run
from brokerproof.suites.suite_file import SuiteFile
from brokerproof.suites.written_expectation import WrittenExpectation

from brokerproof_judging.database import define_values, select_rows
from brokerproof_judging.run_database import open_run_database, read_script
from brokerproof_judging.suites.tally import Tally


@dataclass(frozen=True, kw_only=True)
class MessageCounts:
    """The second count of rows in `messages` and `anomalies`, made without Great Expectations.

    `places` has each (cluster, subscription) in `messages`; the subscription is None in rows about a cluster's log.
    """

    rows: int
    acked: int
    # `foreign` rows are of another run. `contradictory` rows name an unknown anomaly, or an illegal one that was not
    # found.
    foreign: int
    contradictory: int
    places: frozenset[tuple[str, str | None]]
    # Rows of `anomalies` by (anomaly, legal).
    anomalies: Mapping[tuple[str, bool], int]


def count_messages(run: Run) -> MessageCounts:
    """Count the rows of `messages` by place, and those of `anomalies` by anomaly."""
    with open_run_database(run, ("messages", "anomalies")) as connection:
        # No expectation asks for an anomaly with an unknown name.
        define_values(connection, {"judged_run": run.run_id, "known": [str(anomaly) for anomaly in Anomaly]})
        places = select_rows(connection, read_script("suites", "message_counts"))
        found = select_rows(connection, "SELECT anomaly, legal, count(*) AS rows FROM anomalies GROUP BY ALL")
    return MessageCounts(
        rows=sum(place["rows"] for place in places),
        acked=sum(place["acked"] for place in places),
        foreign=sum(place["foreign"] for place in places),
        contradictory=sum(place["contradictory"] for place in places),
        places=frozenset((place["cluster"], place["subscription"]) for place in places),
        anomalies={(row["anomaly"], row["legal"]): row["rows"] for row in found},
    )


_ANOMALIES = frozenset(str(anomaly) for anomaly in Anomaly)

MeasurementRow = Mapping[str, Any]


def doubt_messages(tallies: Mapping[str, Tally], counts: MessageCounts, run: Run) -> Iterator[str]:
    """Yield the reasons to doubt a suite's result on `messages`, as sentences."""
    if counts.foreign:
        yield f"{counts.foreign:,} rows of `messages` belong to another run"
    if counts.contradictory:
        yield (
            f"{counts.contradictory:,} rows of `messages` name an unknown anomaly, or an illegal one that was not found"
        )
    if unknown := sorted(str(name) for name, _ in counts.anomalies if name not in _ANOMALIES):
        yield f"`anomalies` holds an unknown anomaly, `{unknown[0]}`"
    for name, tally in tallies.items():
        legal = tally.legal + (tally.undecided if name == Anomaly.UNPROVEN else 0)
        for legality, ours, theirs in (
            ("illegal", tally.unexpected, counts.anomalies.get((name, False), 0)),
            ("legal", legal, counts.anomalies.get((name, True), 0)),
        ):
            if ours != theirs:
                yield f"`messages` has {ours:,} {legality} `{name}`, and `anomalies` has {theirs:,}"
        if tally.rows != counts.rows:
            yield f"`{name}` was asked of {tally.rows:,} of {counts.rows:,} rows"
    for cluster, subscription in _list_places(run):
        if (cluster, subscription) not in counts.places:
            place = f"subscription `{subscription}` on" if subscription else "the log of"
            yield f"no row of `messages` is about {place} `{cluster}`"


def _list_places(run: Run) -> list[tuple[str, str | None]]:
    """Return (cluster, subscription) of each log and subscription that the scenario names, with None for a log."""
    first = next(iter(run.topology.clusters))
    workload = run.scenario.workload
    logs: list[tuple[str, str | None]] = [(cluster, None) for cluster in workload.produce_on or [first]]
    return [*logs, *((subscription.cluster or first, subscription.name) for subscription in workload.subscriptions)]


def doubt_measurements(
    file: SuiteFile, tallies: Mapping[str, Tally], measurements: Iterable[MeasurementRow], run: Run
) -> Iterator[str]:
    """Yield the reasons to doubt a suite's result on `measurements`, as sentences."""
    measurements = list(measurements)
    suites = list_suites_measured(file)
    for row in measurements:
        for suite in suites:
            yield from _doubt_suite(row, suite)
        if row["run_id"] != run.run_id and row["suite"] in suites:
            yield f"`{row['metric']}` of `{row['subject']}` belongs to another run"
    for written in file.expectations:
        suite = METRICS[written.name].suite
        rows = [row for row in measurements if row["suite"] == suite and row["metric"] == written.name]
        yield from _recount(written, tallies[written.name], rows)
        yield from _doubt_bounds(written.name, rows, run.scenario)
        yield from find_unmeasured(written, rows, run.scenario)


def list_suites_measured(file: SuiteFile) -> list[Suite]:
    """Return the suites to which the metrics in a suite file belong.

    Brokerproof's own file of a suite has only this suite's metrics. A user's file may have metrics of several suites.
    """
    return list(dict.fromkeys(METRICS[written.name].suite for written in file.expectations))


def _doubt_suite(row: MeasurementRow, suite: Suite) -> Iterator[str]:
    """Yield a reason for doubt if a measurement's metric does not exist, or is filed under a wrong suite."""
    metric = METRICS.get(row["metric"])
    if metric is None and row["suite"] not in (None, Suite.PLACEMENT, Suite.RECOVERY):
        yield f"`{row['metric']}` belongs to no suite that there is, `{row['suite']}`"
    elif metric is None and row["suite"] in (None, suite):
        yield f"`measurements` holds an unknown metric, `{row['metric']}`"
    elif metric is not None and metric.suite is suite and row["suite"] != suite:
        yield f"`{row['metric']}` is filed under `{row['suite']}`, where it is not judged"


def _recount(written: WrittenExpectation, tally: Tally, rows: Iterable[MeasurementRow]) -> Iterator[str]:
    total = outside = 0
    for row in rows:
        total += 1
        lower = written.minimum if row["minimum"] is None else row["minimum"]
        upper = written.maximum if row["maximum"] is None else row["maximum"]
        if row["doubt"] is not None or any(bound is not None and math.isnan(bound) for bound in (lower, upper)):
            continue
        least, most = row["at_least"], row["at_most"]
        if least is None and most is None:
            least = most = row["value"]
        # A comparison with NaN is false.
        outside += (None not in (lower, most) and most < lower) or (None not in (upper, least) and least > upper)
    if (total, outside) != (tally.rows, tally.unexpected):
        yield (
            f"`{written.name}` was found out of bounds {tally.unexpected:,} times in {tally.rows:,} rows, "
            f"and is {outside:,} times in {total:,}"
        )


def _doubt_bounds(name: str, rows: Iterable[MeasurementRow], scenario: Scenario) -> Iterator[str]:
    """Yield a sentence for each row whose bounds are not those of the scenario."""
    for row in rows:
        bound = scenario.bound(name, row["subject"] or "")
        if name == "owner_in_region" and bound is None and row["minimum"] is None:
            # This metric is measured only if the scenario names a region under `owner`, which is a demand.
            yield f"`{name}` of `{row['subject']}` came without a minimum"
        if bound and (bound.min, bound.max) != (row["minimum"], row["maximum"]):
            yield (
                f"the scenario's bound on `{name}` of `{row['subject']}`, {_describe_span(bound.min, bound.max)}, "
                f"arrived as {_describe_span(row['minimum'], row['maximum'])}"
            )


def find_unmeasured(written: WrittenExpectation, rows: Sequence[MeasurementRow], scenario: Scenario) -> Iterator[str]:
    """Yield a sentence for each measurement that the suite or the scenario demands and that has no row in `rows`."""
    name, metric = written.name, METRICS[written.name]
    measured = {row["subject"] for row in rows}
    bounded = {key.partition("/")[2] for key in scenario.bounds if key.partition("/")[0] == name}
    needed = {subject for subject in bounded if subject}
    if metric.is_per_fault and (written.required or "" in bounded):
        list_faults = list_harmful_faults if metric.subject == "fault" else list_destroying_faults
        needed |= set(list_faults(scenario))
    if name == "owner_in_region":
        needed |= {*scenario.owner.by_phase}
    yield from (f"`{name}` of `{subject}` was not measured" for subject in sorted(needed - measured))
    if not rows and not needed and ("" in bounded or (written.required and not metric.is_per_fault)):
        yield f"`{name}` was not measured"


def _describe_span(minimum: float | None, maximum: float | None) -> str:
    low, high = ("no limit" if bound is None else f"{bound:g}" for bound in (minimum, maximum))
    return f"{low} to {high}"
