"""What settings bought: runs that were set up differently, side by side.

Runs are of one variant if they compare (regressions.py). The variant with most judged runs is `a`, what the others are
held against; of several scenarios, the first one's. The others follow, newest first. Of each part of the recovery the
median of the variant's judged runs is shown, where some variant differs from `a` by as much as would be a regression
after runs without any spread: one run of a variant shows what it came to, not how far it varies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from string import ascii_lowercase

from brokerproof.experiment.metrics import METRICS
from brokerproof.experiment.verdict import JUDGED
from brokerproof.results.history_schema import RecordedRun
from brokerproof.results.regressions import comparable, differences, smallest_change

# As many as fit beside each other on a terminal of 80 columns.
MOST = 6


@dataclass(frozen=True, kw_only=True)
class Variant:
    """Comparable runs, newest first, and how they were set up otherwise than those of `a`."""

    name: str
    runs: tuple[RecordedRun, ...]
    differs: tuple[str, ...]

    @property
    def judged(self) -> tuple[RecordedRun, ...]:
        """Those that passed or failed."""
        return _judged(self.runs)

    def medians(self) -> Mapping[tuple[str, str], float]:
        """The median of each part of the recovery, by metric and fault; without what no judged run has."""
        values: dict[tuple[str, str], list[float]] = {}
        for run in self.judged:
            for row in run.measurements:
                metric = METRICS.get(row.metric)
                if metric and metric.subject == "fault" and row.value is not None:
                    values.setdefault((row.metric, row.subject), []).append(row.value)
        return {key: median(found) for key, found in values.items()}


def variants(runs: Sequence[RecordedRun], scenarios: Sequence[str]) -> list[Variant]:
    """The newest variants of runs, newest first, no more than MOST of them; `a` comes first."""
    groups: dict[str, list[RecordedRun]] = {}
    for run in runs:
        groups.setdefault(run.comparable, []).append(run)
    if not groups:
        return []
    candidates = [group for group in groups.values() if group[0].scenario == scenarios[0]] or list(groups.values())
    base = max(candidates, key=lambda group: len(_judged(group)))
    others = [group for group in groups.values() if group is not base]
    return [
        Variant(
            name=letter,
            runs=tuple(group),
            differs=tuple(_differences(base[0], group[0])),
        )
        for letter, group in zip(ascii_lowercase, [base, *others][:MOST], strict=False)
    ]


def effects(found: Sequence[Variant]) -> Iterator[tuple[str, str, list[float | None]]]:
    """(metric, fault, median of each variant) where a variant's is another than `a`'s."""
    medians = [variant.medians() for variant in found]
    for key in dict.fromkeys(key for each in medians for key in each):
        values = [each.get(key) for each in medians]
        if any(_differ(key[0], values[0], value) for value in values[1:]):
            yield *key, values


def _differences(base: RecordedRun, other: RecordedRun) -> Iterator[str]:
    """Without what a topology has from its scenario."""
    found = differences(comparable(base.parameters), comparable(other.parameters))
    for line in found:
        if not line.startswith("topology.") or f"scenario.{line.removeprefix('topology.')}" not in found:
            yield line


def _judged(runs: Sequence[RecordedRun]) -> tuple[RecordedRun, ...]:
    return tuple(run for run in runs if run.verdict in JUDGED)


def _differ(metric: str, usual: float | None, value: float | None) -> bool:
    if usual is None or value is None:
        return usual is not value
    return abs(value - usual) >= smallest_change(METRICS[metric].unit, usual)
