"""The configurations that a scenario ran with, side by side: what a change of settings improved, and by how much.

Comparable runs have the same configuration (comparability.py). The configuration `a` is the one with the most judged
runs, and the others are compared with it; of several scenarios, `a` belongs to the first. The others follow, newest
first. For each part of the recovery there is the median of a configuration's judged runs, if some configuration
differs from `a` by as much as a regression after runs without any spread. One run of a configuration shows one value,
not how much the value varies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from string import ascii_lowercase

from brokerproof.experiment.metrics import METRICS
from brokerproof.experiment.verdict import DECISIVE
from brokerproof.results.comparability import list_differences, select_comparable
from brokerproof.results.history_schema import RecordedRun
from brokerproof.results.regressions import compute_smallest_change

# As many fit side by side on a terminal of 80 columns.
MAX_CONFIGURATIONS = 6


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """Comparable runs, newest first, and how their parameters differ from those of `a`."""

    name: str
    runs: tuple[RecordedRun, ...]
    differences: tuple[str, ...]

    @property
    def decisive_runs(self) -> tuple[RecordedRun, ...]:
        """The runs that passed or failed."""
        return _select_decisive(self.runs)

    def compute_medians(self) -> Mapping[tuple[str, str], float]:
        """The median of each part of the recovery, by metric and fault, where a decisive run has a value."""
        values: dict[tuple[str, str], list[float]] = {}
        for run in self.decisive_runs:
            for row in run.measurements:
                metric = METRICS.get(row.metric)
                if metric and metric.is_per_fault and row.value is not None:
                    values.setdefault((row.metric, row.subject), []).append(row.value)
        return {key: median(of_key) for key, of_key in values.items()}


def list_configurations(runs: Sequence[RecordedRun], scenarios: Sequence[str]) -> list[Configuration]:
    """The newest configurations of runs, `a` first, at most MAX_CONFIGURATIONS. The runs come newest first."""
    groups: dict[str, list[RecordedRun]] = {}
    for run in runs:
        groups.setdefault(run.comparable, []).append(run)
    if not groups:
        return []
    candidates = [group for group in groups.values() if group[0].scenario == scenarios[0]] or list(groups.values())
    base = max(candidates, key=lambda group: len(_select_decisive(group)))
    others = [group for group in groups.values() if group is not base]
    return [
        Configuration(
            name=letter,
            runs=tuple(group),
            differences=tuple(_list_own_differences(base[0], group[0])),
        )
        for letter, group in zip(ascii_lowercase, [base, *others][:MAX_CONFIGURATIONS], strict=False)
    ]


def list_effects(configurations: Sequence[Configuration]) -> Iterator[tuple[str, str, list[float | None]]]:
    """(metric, fault, median of each configuration) where the median of a configuration differs from that of `a`."""
    medians = [configuration.compute_medians() for configuration in configurations]
    for key in dict.fromkeys(key for each in medians for key in each):
        values = [each.get(key) for each in medians]
        if any(_differ(key[0], values[0], value) for value in values[1:]):
            yield *key, values


def _list_own_differences(base: RecordedRun, other: RecordedRun) -> Iterator[str]:
    """The differences of two runs' parameters; a difference of the scenario that its topology repeats comes once."""
    lines = list_differences(select_comparable(base.parameters), select_comparable(other.parameters))
    for line in lines:
        if not line.startswith("topology.") or f"scenario.{line.removeprefix('topology.')}" not in lines:
            yield line


def _select_decisive(runs: Sequence[RecordedRun]) -> tuple[RecordedRun, ...]:
    return tuple(run for run in runs if run.verdict in DECISIVE)


def _differ(metric: str, usual: float | None, value: float | None) -> bool:
    if usual is None or value is None:
        return usual is not value
    return abs(value - usual) >= compute_smallest_change(METRICS[metric].unit, usual)
