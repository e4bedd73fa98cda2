"""The page that compares one scenario's runs, grouped by version, settings, system or runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from brokerproof.experiment.numbers import NOTHING, format_value
from brokerproof.reports.pages import NOISE_WORDS, Page, render
from brokerproof.results.run_groups import GROUP_RULE, MOST_COLUMNS, GroupBy, GroupedMeasurement, RunGroup, list_rows


def render_groups(scenario: str, by: GroupBy, groups: Sequence[RunGroup], page: Page) -> str:
    """Return the page of the groups of a scenario's runs as HTML. The first of `groups` is the largest."""
    shown = groups[:MOST_COLUMNS]
    return render(
        "groups.html.j2",
        page,
        {
            "scenario": scenario,
            "by": str(by),
            "choices": [str(choice) for choice in GroupBy],
            "headline": _write_headline(by, shown),
            "groups": [(_name(group, by), group) for group in shown],
            "rows": [
                {
                    "metric": metric,
                    "subject": subject,
                    "cells": [_make_cell(cell, is_first=number == 0) for number, cell in enumerate(cells)],
                }
                for (metric, subject, _), cells in list_rows(shown)
            ],
            "left_out": [_name(group, by) for group in groups[MOST_COLUMNS:]],
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
