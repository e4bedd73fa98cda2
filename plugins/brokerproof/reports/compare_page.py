"""The pages that compare: two runs side by side, the form that chooses them, and one scenario's runs in groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from brokerproof.experiment.numbers import NOTHING, format_value
from brokerproof.reports.pages import NOISE_WORDS, Page, render
from brokerproof.results.matrix import MATRIX_RULE, make_matrix
from brokerproof.results.rates import RATE_RULE
from brokerproof.results.run_difference import NumberDifference, RunDifference, WordDifference
from brokerproof.results.run_groups import GROUP_RULE, MOST_COLUMNS, GroupBy, GroupedMeasurement, RunGroup, list_rows
from brokerproof.results.trends import ScenarioTrend


def render_comparison(difference: RunDifference, page: Page) -> str:
    numbers = [*difference.measurements, *difference.counts]
    return render(
        "compare.html.j2",
        page,
        {
            "difference": difference,
            "headline": _write_headline(difference),
            "numbers": list(_list_numbers(numbers)),
            "words": [(word, NOISE_WORDS[word.larger_than_noise]) for word in difference.words],
        },
    )


def render_choice(trends: Sequence[ScenarioTrend], page: Page, chosen: str = "") -> str:
    """Return the HTML page for choosing two runs to compare. `chosen` is the id of the first run, or empty."""
    runs = [(trend.scenario, list(reversed(trend.runs))) for trend in trends]
    choices = [str(choice) for choice in GroupBy]
    return render("compare_choice.html.j2", page, {"runs": runs, "chosen": chosen, "group_choices": choices})


def _write_headline(difference: RunDifference) -> str:
    """Return a text that lists what differs by more than noise: verdicts, then worse results, then better results."""
    numbers = [*difference.counts, *difference.measurements]
    worse = [one.name for one in numbers if one.larger_than_noise and one.worse]
    better = [one.name for one in numbers if one.larger_than_noise and one.worse is False]
    parts = [
        *(_tell_word(one) for one in difference.words if one.larger_than_noise),
        *([f"worse: {', '.join(dict.fromkeys(worse))}"] if worse else []),
        *([f"better: {', '.join(dict.fromkeys(better))}"] if better else []),
    ]
    return "; ".join(parts) if parts else "nothing differs by more than noise, as far as is known"


def _tell_word(word: WordDifference) -> str:
    if word.name == "as expected":
        return "B is as expected and A was not" if word.b == "yes" else "B is not as expected and A was"
    return f"{word.name} {word.b or 'unknown'} instead of {word.a or 'unknown'}"


def _list_numbers(numbers: Sequence[NumberDifference]) -> Iterator[dict[str, Any]]:
    ranks = {True: 0, None: 1, False: 2}
    directions = {True: ", worse", False: ", better", None: ""}
    for one in sorted(numbers, key=lambda one: ranks[one.larger_than_noise]):
        yield {
            "name": one.name,
            "subject": one.subject,
            "a": format_value(one.a, one.unit),
            "b": format_value(one.b, one.unit),
            "relative": NOTHING if one.relative is None else f"{one.relative:+.0%}",
            "noise": NOISE_WORDS[one.larger_than_noise] + (directions[one.worse] if one.larger_than_noise else ""),
            "bad": bool(one.larger_than_noise and one.worse),
            "why": one.why,
        }


def render_groups(scenario: str, by: GroupBy, groups: Sequence[RunGroup], page: Page) -> str:
    """Return the HTML page that compares a scenario's runs in groups.

    `by` is the property, such as the version, that is equal in all runs of a group. The first of `groups` has the most
    runs, and the other groups are compared with it.
    """
    shown = groups[:MOST_COLUMNS]
    choices = {"scenario": scenario, "by": str(by), "choices": [str(choice) for choice in GroupBy]}
    if by is GroupBy.CASE:
        subscriptions, rows = make_matrix(groups)
        rule = f"{MATRIX_RULE} {RATE_RULE}"
        return render("matrix.html.j2", page, {**choices, "subscriptions": subscriptions, "rows": rows, "rule": rule})
    return render(
        "groups.html.j2",
        page,
        {
            **choices,
            "headline": _write_groups_headline(by, shown),
            "groups": [(_name_group(group, by), group) for group in shown],
            "rows": [
                {
                    "metric": metric,
                    "subject": subject,
                    "cells": [_make_cell(cell, is_first=number == 0) for number, cell in enumerate(cells)],
                }
                for (metric, subject, _), cells in list_rows(shown)
            ],
            "left_out": [_name_group(group, by) for group in groups[MOST_COLUMNS:]],
            "rule": f"{GROUP_RULE} {RATE_RULE}",
        },
    )


def _name_group(group: RunGroup, by: GroupBy) -> str:
    return f"settings {group.name}" if by is GroupBy.SETTINGS else group.name


def _write_groups_headline(by: GroupBy, groups: Sequence[RunGroup]) -> str:
    if not groups:
        return "No run is recorded yet."
    if len(groups) == 1:
        return (
            "All runs have the same settings"
            if by is GroupBy.SETTINGS
            else f"All runs are of one {by}: {groups[0].name}"
        )
    parts = []
    for group in groups[1:]:
        for word, wanted in (("worse", True), ("better", False)):
            found = [one.metric for one in group.measurements if one.larger_than_noise and one.worse is wanted]
            if found:
                parts.append(f"{_name_group(group, by)} is {word} in {', '.join(dict.fromkeys(found))}")
    return "; ".join(parts) if parts else "no group differs by more than noise, as far as is known"


def _make_cell(one: GroupedMeasurement | None, *, is_first: bool) -> dict[str, Any]:
    if one is None:
        return {"median": NOTHING, "range": "", "judged": "", "bad": False, "why": ""}
    spread = "" if one.least == one.greatest else f"{format_value(one.least)} to {format_value(one.greatest)}"
    return {
        "median": format_value(one.median, one.unit),
        "range": ", ".join(filter(None, [spread, f"{one.n} {'run' if one.n == 1 else 'runs'}"])),
        "judged": "" if is_first or one.difference == 0 else NOISE_WORDS[one.larger_than_noise],
        "bad": bool(one.larger_than_noise and one.worse),
        "why": one.why,
    }
