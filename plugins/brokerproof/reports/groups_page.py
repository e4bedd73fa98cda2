"""The page that compares one scenario's runs, grouped by version, settings, system or runtime."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from brokerproof.reports.pages import NOISE_WORDS, Page, render
from brokerproof.results.numbers import NOTHING, format_value
from brokerproof.results.run_groups import GROUP_RULE, GroupBy, GroupedMeasurement, RunGroup

# The number of groups with a column. Of the others the page shows only the names.
_COLUMNS = 6


def render_groups(scenario: str, by: GroupBy, groups: Sequence[RunGroup], page: Page) -> str:
    """Return the page of the groups of a scenario's runs as HTML. The first of `groups` is the largest."""
    shown = groups[:_COLUMNS]
    return render(
        "groups.html.j2",
        page,
        {
            "scenario": scenario,
            "by": str(by),
            "choices": [str(choice) for choice in GroupBy],
            "headline": _write_headline(by, shown),
            "groups": [(_name(group, by), group) for group in shown],
            "rows": list(_list_rows(shown)),
            "left_out": [_name(group, by) for group in groups[_COLUMNS:]],
            "rule": GROUP_RULE,
        },
    )


def _name(group: RunGroup, by: GroupBy) -> str:
    return f"settings {group.name}" if by is GroupBy.SETTINGS else group.name


def _write_headline(by: GroupBy, groups: Sequence[RunGroup]) -> str:
    """Return the groups that are worse or better than the largest, with the metrics in which they are, in words."""
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
                parts.append(f"{_name(group, by)} is {word} in {', '.join(dict.fromkeys(found))}")
    return "; ".join(parts) if parts else "no group differs by more than noise, as far as is known"


def _list_rows(groups: Sequence[RunGroup]) -> Iterator[dict[str, Any]]:
    """Yield a row for each measurement, first those in which some group differs by more than noise."""
    cells: dict[tuple[str, str, str], dict[int, GroupedMeasurement]] = {}
    for number, group in enumerate(groups):
        for one in group.measurements:
            cells.setdefault((one.metric, one.subject, one.unit), {})[number] = one
    ordered = sorted(cells.items(), key=lambda item: not any(one.larger_than_noise for one in item[1].values()))
    for (metric, subject, _), found in ordered:
        yield {
            "metric": metric,
            "subject": subject,
            "cells": [_make_cell(found.get(number), is_largest=number == 0) for number in range(len(groups))],
        }


def _make_cell(one: GroupedMeasurement | None, *, is_largest: bool) -> dict[str, Any]:
    if one is None:
        return {"median": NOTHING, "range": "", "judged": "", "bad": False, "why": ""}
    spread = "" if one.least == one.greatest else f"{format_value(one.least)} to {format_value(one.greatest)}"
    return {
        "median": format_value(one.median, one.unit),
        "range": ", ".join(filter(None, [spread, f"{one.n} {'run' if one.n == 1 else 'runs'}"])),
        "judged": "" if is_largest or one.difference == 0 else NOISE_WORDS[one.larger_than_noise],
        "bad": bool(one.larger_than_noise and one.worse),
        "why": one.why,
    }
