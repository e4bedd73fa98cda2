"""The configurations that a scenario ran with, side by side, to show how far a change of settings improved a result.

Comparable runs have the same configuration (comparability.py). The configuration `a` has the most judged runs; if
there are several scenarios, it belongs to the first. The others follow, newest first, and are compared with `a`.

Each metric of the recovery is compared by the median of a configuration's judged runs. It is shown if a configuration
differs from `a` by at least `compute_smallest_change`, which assumes values without spread. One run of a configuration
gives one value and does not show how much that value varies.
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

# More do not fit side by side on a terminal of 80 columns.
MAX_CONFIGURATIONS = 6


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """Comparable runs, newest first. `differences` are those of their parameters from `a`, as `path before → after`."""

    name: str
    runs: tuple[RecordedRun, ...]
    differences: tuple[str, ...]

    @property
    def decisive_runs(self) -> tuple[RecordedRun, ...]:
        """The runs that passed or failed."""
        return _select_decisive(self.runs)

    def compute_medians(self) -> Mapping[tuple[str, str], float]:
        """Return medians by (metric, fault) for the metrics of recovery that have a value in a decisive run."""
        values: dict[tuple[str, str], list[float]] = {}
        for run in self.decisive_runs:
            for row in run.measurements:
                metric = METRICS.get(row.metric)
                if metric and metric.is_per_fault and row.value is not None:
                    values.setdefault((row.metric, row.subject), []).append(row.value)
        return {key: median(of_key) for key, of_key in values.items()}


def list_configurations(runs: Sequence[RecordedRun], scenarios: Sequence[str]) -> list[Configuration]:
    """Return at most MAX_CONFIGURATIONS configurations of `runs`, which must be newest first; `a` is the first."""
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
    """Yield (metric, fault, median of each configuration) if the median of a configuration differs from that of `a`."""
    medians = [configuration.compute_medians() for configuration in configurations]
    for key in dict.fromkeys(key for each in medians for key in each):
        values = [each.get(key) for each in medians]
        if any(_differ(key[0], values[0], value) for value in values[1:]):
            yield *key, values


def _list_own_differences(base: RecordedRun, other: RecordedRun) -> Iterator[str]:
    """Yield the differences of two runs' parameters, except those of the topology that repeat one of the scenario."""
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
