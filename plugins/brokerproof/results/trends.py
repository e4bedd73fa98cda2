"""The last runs of every scenario, with the few values that users follow from run to run.

The queries read only these values, so they stay fast with 10,000 recorded runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Any

from sqlalchemy import func, or_, select, true
from sqlalchemy.orm import Session

from brokerproof.experiment.guarantees import Anomaly
from brokerproof.experiment.scenario import Phase
from brokerproof.results.history_schema import NEWEST_FIRST, AnomalyCount, RecordedMeasurement, RecordedRun
from brokerproof.results.regressions import DEFAULT_RULE, ENOUGH_TO_SUSPECT, UsualValue, compute_allowed_change


@dataclass(frozen=True, kw_only=True)
class TrendValue:
    """A value that users follow from run to run. `name` is a metric, or `DUPLICATES` for the number of duplicates."""

    name: str
    title: str
    unit: str
    # The only subject that counts; None for the worst of all subjects.
    subject: str | None = None


DUPLICATES = "duplicates"
TREND_VALUES: Sequence[TrendValue] = (
    TrendValue(name="rto_s", title="RTO", unit="s"),
    TrendValue(name="unavailable_s", title="unavailable", unit="s"),
    TrendValue(name="longest_ack_gap_s", title="longest ack gap", unit="s"),
    TrendValue(name="rpo_messages", title="RPO", unit="messages"),
    TrendValue(name=DUPLICATES, title="duplicates", unit="messages"),
    TrendValue(name="publish_latency_p99_ms", title="p99 before the fault", unit="ms", subject=Phase.STEADY),
)
_REPEATED = (
    Anomaly.STORED_TWICE,
    Anomaly.DELIVERED_TWICE,
    Anomaly.REDELIVERED_AFTER_ACK,
    Anomaly.DELIVERED_FROM_TWO_POSITIONS,
)


@dataclass(frozen=True, kw_only=True)
class TrendRun:
    """A run with its verdict and its `values` by name in TREND_VALUES; None for a value that could not be measured."""

    run_id: str
    started_at: datetime
    verdict: str
    met: bool
    values: dict[str, float | None] = field(default_factory=dict)
    # The sentence about each regression against the runs before, by metric and subject, such as a fault.
    worse: dict[tuple[str, str], str] = field(default_factory=dict)

    def is_worse(self, value: TrendValue) -> bool:
        """Return whether a value of this run got worse."""
        return any(name == value.name and value.subject in (None, subject) for name, subject in self.worse)


@dataclass(frozen=True, kw_only=True)
class ScenarioTrend:
    """A scenario with its last runs, oldest first. All other fields are as in the newest run."""

    scenario: str
    topology: str
    system: str
    system_version: str
    runtime: str
    tags: tuple[str, ...]
    title: str
    runs: tuple[TrendRun, ...]


def find_usual_range(runs: Sequence[TrendRun], value: TrendValue) -> tuple[float, float] | None:
    """Return the range (least, greatest) of values that differ from the runs' median only by noise.

    Noise is estimated by the default rule. The result is None if fewer than `ENOUGH_TO_SUSPECT` runs have a value.
    """
    known = [found for run in runs if (found := run.values.get(value.name)) is not None]
    if len(known) < ENOUGH_TO_SUSPECT:
        return None
    usual = UsualValue.compute(known)
    allowed = compute_allowed_change(value.unit, usual, DEFAULT_RULE.tolerance)
    return max(0.0, usual.median - allowed), usual.median + allowed


def select_trends(
    session: Session, *, per_scenario: int, scenarios: Sequence[str] | None = None
) -> list[ScenarioTrend]:
    """Return the trends of `scenarios` (None for all), sorted by name, each with at most `per_scenario` runs."""
    number = func.row_number().over(partition_by=RecordedRun.scenario, order_by=NEWEST_FIRST).label("number")
    columns = select(
        RecordedRun.id,
        RecordedRun.run_id,
        RecordedRun.scenario,
        RecordedRun.topology,
        RecordedRun.system,
        RecordedRun.system_version,
        RecordedRun.runtime,
        RecordedRun.started_at,
        RecordedRun.verdict,
        RecordedRun.met,
        RecordedRun.messages,
        RecordedRun.marks,
        number,
    )
    if scenarios is not None:
        columns = columns.where(RecordedRun.scenario.in_(scenarios))
    ranked = columns.subquery()
    rows = session.execute(
        select(ranked).where(ranked.c.number <= per_scenario).order_by(ranked.c.scenario, ranked.c.number)
    ).all()
    keys = [row.id for row in rows]
    values = _select_values(session, keys)
    counted = {row.id for row in rows if row.messages is not None}
    # Sorted by scenario, newest first.
    by_scenario = {name: list(group) for name, group in groupby(rows, key=lambda row: row.scenario)}
    newest = {name: runs_of_scenario[0].id for name, runs_of_scenario in by_scenario.items()}
    kept = select(RecordedRun.id, RecordedRun.parameters).where(RecordedRun.id.in_(newest.values()))
    parameters: dict[int, dict[str, Any]] = {row.id: row.parameters for row in session.execute(kept)}
    trends = []
    for name, runs_of_scenario in by_scenario.items():
        written = parameters[newest[name]].get("scenario", {})
        trends.append(
            ScenarioTrend(
                scenario=name,
                topology=runs_of_scenario[0].topology,
                system=runs_of_scenario[0].system,
                system_version=runs_of_scenario[0].system_version,
                runtime=runs_of_scenario[0].runtime,
                tags=tuple(written.get("tags") or ()),
                title=str(written.get("title") or name),
                runs=tuple(
                    TrendRun(
                        run_id=row.run_id,
                        started_at=row.started_at,
                        verdict=row.verdict,
                        met=row.met,
                        values={**({DUPLICATES: 0.0} if row.id in counted else {}), **values.get(row.id, {})},
                        worse={
                            (mark["metric"], mark["subject"]): mark["reason"]
                            for mark in row.marks or ()
                            if not mark["suspected"]
                        },
                    )
                    for row in reversed(runs_of_scenario)
                ),
            )
        )
    return trends


# The number of keys in one query. SQLite accepts 32,766 values, and older versions 999.
_KEYS_AT_ONCE = 900


def _select_values(session: Session, keys: Sequence[int]) -> dict[int, dict[str, float | None]]:
    """Return {key of a run: {name in TREND_VALUES: value}}.

    A metric's value is the highest over its subjects, such as faults, or None if any subject has no value.
    """
    found: dict[int, dict[str, float | None]] = defaultdict(dict)
    measured = RecordedMeasurement
    wanted = or_(
        *(
            (measured.metric == value.name) & (true() if value.subject is None else measured.subject == value.subject)
            for value in TREND_VALUES
            if value.name != DUPLICATES
        )
    )
    for some in _split(keys):
        for row in session.execute(
            select(
                measured.run_key,
                measured.metric,
                func.max(measured.value).label("worst"),
                (func.count() - func.count(measured.value)).label("missing"),
            )
            .where(measured.run_key.in_(some), wanted)
            .group_by(measured.run_key, measured.metric)
        ):
            found[row.run_key][row.metric] = None if row.missing else row.worst
        for repeated in session.execute(
            select(AnomalyCount.run_key, func.sum(AnomalyCount.count).label("number"))
            .where(AnomalyCount.run_key.in_(some), AnomalyCount.anomaly.in_([str(one) for one in _REPEATED]))
            .group_by(AnomalyCount.run_key)
        ):
            found[repeated.run_key][DUPLICATES] = float(repeated.number)
    return found


def _split(keys: Sequence[int]) -> Iterable[Sequence[int]]:
    return (keys[start : start + _KEYS_AT_ONCE] for start in range(0, len(keys), _KEYS_AT_ONCE))
