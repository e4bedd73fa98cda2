"""The page of two runs side by side, and the form that chooses them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from brokerproof.experiment.numbers import NOTHING, format_value
from brokerproof.reports.pages import NOISE_WORDS, Page, render
from brokerproof.results.regressions import RULE
from brokerproof.results.run_difference import NumberDifference, RunDifference, WordDifference
from brokerproof.results.run_groups import GroupBy
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
            "rule": RULE,
        },
    )


def render_choice(trends: Sequence[ScenarioTrend], page: Page, chosen: str = "") -> str:
    """Return the page with the form that chooses two runs. `chosen` is the first of them, if it is known."""
    runs = [(trend.scenario, list(reversed(trend.runs))) for trend in trends]
    choices = [str(choice) for choice in GroupBy]
    return render("compare_choice.html.j2", page, {"runs": runs, "chosen": chosen, "group_choices": choices})


def _write_headline(difference: RunDifference) -> str:
    """Return the differences that are larger than noise as text: first words, then worse and better metrics."""
    worse = [one.name for one in difference.measurements if one.larger_than_noise and one.worse]
    better = [one.name for one in difference.measurements if one.larger_than_noise and one.worse is False]
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
    """Yield a row for each number, first those that differ by more than noise."""
    ranks = {True: 0, None: 1, False: 2}
    for one in sorted(numbers, key=lambda one: ranks[one.larger_than_noise]):
        yield {
            "name": one.name,
            "subject": one.subject,
            "a": format_value(one.a, one.unit),
            "b": format_value(one.b, one.unit),
            "relative": NOTHING if one.relative is None else f"{one.relative:+.0%}",
            "noise": NOISE_WORDS[one.larger_than_noise],
            "bad": bool(one.larger_than_noise and one.worse),
            "why": one.why,
        }
