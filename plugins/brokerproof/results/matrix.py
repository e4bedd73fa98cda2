"""The matrix of a scenario: for each case, what was lost and repeated in its runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from brokerproof.experiment.verdict import DECISIVE, Verdict, merge_verdicts
from brokerproof.results.run_groups import GroupedMeasurement, RunGroup

MATRIX_RULE = (
    "A number is the median, with the range of several runs. Only runs that passed or failed count: a run that did not "
    "show what its case is about is `unknown`. `reached` says how many of a case's runs showed it."
)
# What a cell says of a metric.
_WORDS = {
    "missing_outputs": "lost",
    "repeated_outputs": "repeated",
    "missed_messages": "missed",
    "repeated_messages": "repeated",
}


@dataclass(frozen=True, kw_only=True)
class MatrixRow:
    """A case: its verdict, how many of its runs reached its state, and what was lost and repeated in them.

    `verdict` is the worst of the case's runs, and `newest` the id of the newest one. `rate` says how often they failed.
    `cells` has what each subscription lost, missed and repeated, by its name, and what producers repeated, as
    `stored_twice`.
    """

    case: str
    verdict: Verdict
    reached: str
    rate: str
    newest: str
    cells: dict[str, str]


def make_matrix(groups: Sequence[RunGroup]) -> tuple[list[str], list[MatrixRow]]:
    """Return the names of the columns, and a row for each case. `groups` are a scenario's runs, grouped by case."""
    rows = [_make_row(group) for group in sorted(groups, key=lambda group: group.name)]
    return list(dict.fromkeys(name for row in rows for name in row.cells)), rows


def _make_row(group: RunGroup) -> MatrixRow:
    found: dict[str, list[str]] = {}
    for one in group.measurements:
        if one.metric in _WORDS:
            found.setdefault(one.subject, []).append(f"{_WORDS[one.metric]} {_describe(one)}")
    judged = sum(count for verdict, count in group.verdicts.items() if verdict in DECISIVE)
    return MatrixRow(
        case=group.name,
        verdict=merge_verdicts(Verdict(verdict) for verdict in group.verdicts),
        reached=f"{judged} of {len(group.run_ids)}",
        rate=group.rate.sentence,
        newest=group.run_ids[0],
        cells={subject: ", ".join(texts) for subject, texts in found.items()},
    )


def _describe(one: GroupedMeasurement) -> str:
    if one.n == 1 or one.least == one.greatest:
        return f"{one.median:g}"
    return f"{one.median:g} ({one.least:g}–{one.greatest:g})"
