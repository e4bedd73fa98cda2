"""The rule for regressions on planted histories: no mark on noise, and a mark on a change that stays.

The noise is lognormal. Some runs are outliers: once in a while something else slows the machine down. A history without
enough runs to tell anything is part of the other tests (test_regressions.py).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from brokerproof.experiment.scenario import RegressionRule
from brokerproof.results.regressions import (
    CONFIRMING,
    ENOUGH,
    LARGEST_TELLING_SPREAD,
    RECENT,
    RULE,
    SPREADS,
    STEP,
    UsualValue,
    compare_run,
    count_needed_runs,
    describe_rule,
    read_rule,
)

HISTORIES = 1000


@dataclass(frozen=True)
class Noise:
    """A metric's values in runs of the same set-up; `outliers` is the share of runs that are slower by a factor."""

    metric: str
    unit: str
    usual: float
    spread: float
    outliers: float
    factor: tuple[float, float]

    def draw(self, rng: random.Random, count: int, step: float = 0.0) -> list[float]:
        """Values of so many runs."""
        values = [self.usual * (1 + step) * rng.lognormvariate(0, self.spread) for _ in range(count)]
        return [value * (rng.uniform(*self.factor) if rng.random() < self.outliers else 1) for value in values]


# The spreads are those of runs that were recorded on a machine of 2 cores.
RTO = Noise("rto_s", "s", 50.0, 0.03, 0.03, (1.5, 3))
ACK_GAP = Noise("longest_ack_gap_s", "s", 13.0, 0.06, 0.03, (1.5, 3))
MEDIAN_LATENCY = Noise("publish_latency_p50_ms", "ms", 50.0, 0.12, 0.03, (1.5, 3))
LATENCY = Noise("publish_latency_p99_ms", "ms", 100.0, 0.25, 0.05, (2, 10))
EVERY_NOISE = (RTO, ACK_GAP, MEDIAN_LATENCY, LATENCY)
LENGTHS = (ENOUGH + RECENT - 1, 20, 45)


@dataclass
class PlantedRun:
    """As much of a recorded run as the comparison of measurements reads."""

    measurements: list[Any]
    run_id: str = "r"
    verdict: str = "passed"
    met: bool = True
    expected_verdict: str = "passed"
    versions: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=lambda: {"scenario": {}, "topology": {}})


def plant_run(metric: str, unit: str, value: float | None, **scenario: Any) -> Any:
    row = SimpleNamespace(metric=metric, subject="kill_us", unit=unit, value=value)
    return PlantedRun(measurements=[row], parameters={"scenario": scenario, "topology": {}})


def compare(newest: Any, before: Sequence[Any]) -> Any:
    """The comparison of a run with the runs before it, which come oldest first."""
    baseline = list(reversed(before))[: count_needed_runs(read_rule(newest))]
    return compare_run(newest, baseline=baseline, previous=None, incomparable=None)


def plant_history(noise: Noise, rng: random.Random, length: int) -> list[Any]:
    return [plant_run(noise.metric, noise.unit, value) for value in noise.draw(rng, length)]


def plant_histories(noise: Noise) -> list[list[Any]]:
    """The same histories for every test, of several lengths."""
    rng = random.Random(f"histories of {noise.metric}")
    return [plant_history(noise, rng, LENGTHS[number % len(LENGTHS)]) for number in range(HISTORIES)]


def count_runs_until_marked(noise: Noise, rng: random.Random, history: list[Any], most: int) -> int | None:
    """How many runs after a change the first mark comes; None for none within `most` runs."""
    runs = list(history)
    for number in range(1, most + 1):
        [value] = noise.draw(rng, 1, STEP)
        newest = plant_run(noise.metric, noise.unit, value)
        if compare(newest, runs).marks:
            return number
        runs.append(newest)
    return None


@pytest.mark.parametrize("noise", EVERY_NOISE, ids=lambda noise: noise.metric)
def test_no_newest_run_of_a_thousand_histories_of_noise_is_marked(noise: Noise) -> None:
    rng = random.Random(f"newest of {noise.metric}")
    compared = [
        compare(plant_run(noise.metric, noise.unit, noise.draw(rng, 1)[0]), history)
        for history in plant_histories(noise)
    ]
    assert [len(one.marks) for one in compared] == [0] * HISTORIES
    # Every one was compared, and outliers were among them.
    assert [bool(one.compared_with) for one in compared] == [True] * HISTORIES
    assert any(one.suspicions for one in compared)


def test_a_step_is_marked_in_every_one_of_the_thousand_histories_of_a_metric_that_varies_little() -> None:
    rng = random.Random("step")
    needed = [count_runs_until_marked(RTO, rng, history, most=10) for history in plant_histories(RTO)]
    assert None not in needed
    told = [number for number in needed if number is not None]
    assert sum(number <= CONFIRMING for number in told) > 0.98 * HISTORIES


@pytest.mark.parametrize(
    ("noise", "least", "greatest"),
    [(ACK_GAP, 0.82, 0.96), (MEDIAN_LATENCY, 0.06, 0.25), (LATENCY, 0.0, 0.05)],
    ids=lambda value: getattr(value, "metric", None),
)
def test_how_often_a_step_is_told_depends_on_the_spread(noise: Noise, least: float, greatest: float) -> None:
    """As the table in regressions.py says: what varies more than LARGEST_TELLING_SPREAD is seldom told."""
    rng = random.Random(f"step of {noise.metric}")
    histories = plant_histories(noise)[:400]
    told = [count_runs_until_marked(noise, rng, history, most=8) is not None for history in histories]
    assert least <= sum(told) / len(told) <= greatest


def test_where_a_metric_varies_too_much_a_note_says_which_change_can_be_told() -> None:
    rng = random.Random(1)
    history = plant_history(LATENCY, rng, 40)

    comparison = compare(plant_run(LATENCY.metric, "ms", 130.0), history)

    assert (comparison.marks, comparison.suspicions) == ((), ())
    usual = UsualValue.compute([run.measurements[0].value for run in history[5:35]])
    assert usual.spread > LARGEST_TELLING_SPREAD * usual.median
    allowed = SPREADS * usual.spread
    [note] = comparison.notes
    assert note.startswith("publish_latency_p99_ms of kill_us varies by ")
    assert f"a change of under {allowed:.3g} ms cannot be told from its noise" in note
    assert compare(plant_run(RTO.metric, "s", 50.0), plant_history(RTO, rng, 40)).notes == ()


def test_a_few_outliers_in_the_window_do_not_hide_a_change() -> None:
    steady = [plant_run("rto_s", "s", 50.0 + number % 3) for number in range(13)]
    for number in (2, 5, 8):
        steady[number] = plant_run("rto_s", "s", 400.0)
    changed = [plant_run("rto_s", "s", 65.0) for _ in range(CONFIRMING)]

    assert compare(changed[-1], [*steady, *changed[:-1]]).marks != ()


def test_an_outlier_is_suspected_and_a_mark_needs_as_many_runs_as_the_rule_says() -> None:
    steady = [plant_run("rto_s", "s", 50.0 + number % 3) for number in range(20)]
    slow = plant_run("rto_s", "s", 80.0)
    found = [compare(slow, [*steady, *[slow] * before]) for before in range(CONFIRMING)]

    assert [len(one.marks) for one in found] == [0] * (CONFIRMING - 1) + [1]
    assert [len(one.suspicions) for one in found] == [1] * (CONFIRMING - 1) + [0]
    assert f"1 of the last {RECENT} runs like this, {CONFIRMING} needed for a mark" in found[0].suspicions[0].reason


def test_a_usual_run_after_slow_ones_is_not_marked() -> None:
    steady = [plant_run("rto_s", "s", 50.0 + number % 3) for number in range(20)]
    slow = plant_run("rto_s", "s", 80.0)
    assert compare(steady[0], [*steady, *[slow] * (RECENT - 1)]).marks == ()


def test_a_change_that_stays_is_marked_until_over_a_third_of_the_window_is_like_it() -> None:
    runs = [plant_run("rto_s", "s", 52.0 + number % 2) for number in range(ENOUGH + RECENT - 1)]
    marked = []
    for _ in range(20):
        newest = plant_run("rto_s", "s", 75.0, regression={"window": 12})
        marked.append(bool(compare(newest, runs).marks))
        runs.append(newest)

    first, last = CONFIRMING, RECENT + 12 // 3
    assert marked == [first <= number <= last for number in range(1, 21)]


def test_too_few_runs_for_a_mark_are_enough_for_a_suspicion() -> None:
    steady = [plant_run("rto_s", "s", 50.0 + number % 3) for number in range(ENOUGH + RECENT - 2 - RECENT)]
    slow = plant_run("rto_s", "s", 80.0)

    found = compare(slow, [*steady, *[slow] * (RECENT - 1)])

    assert (found.marks, len(found.suspicions)) == ((), 1)


def test_the_rule_is_sentences_with_its_own_numbers() -> None:
    assert RULE.endswith(".")
    assert f"it and {CONFIRMING - 1} of the {RECENT - 1} comparable runs" in RULE
    assert "the up to 30 comparable runs before those, by at least 10% of it, by 3 usual spreads" in RULE
    other = describe_rule(RegressionRule(tolerance=0.3, window=12))
    assert "the up to 12 comparable runs before those, by at least 30% of it" in other


@pytest.mark.parametrize(
    ("regression", "marked"),
    [
        pytest.param({}, True, id="by default"),
        pytest.param({"tolerance": 0.5}, False, id="the scenario tolerates more"),
        pytest.param({"tolerance": 0.3, "tolerances": {"rto_s": 0.1}}, True, id="but less of this metric"),
        pytest.param({"tolerances": {"rto_s": 0.5}}, False, id="more of this metric"),
        pytest.param({"tolerances": {"detect_s": 0.5}}, True, id="more of another metric"),
    ],
)
def test_a_scenario_sets_what_it_tolerates(regression: dict[str, Any], marked: bool) -> None:
    steady = [plant_run("rto_s", "s", 50.0 + number % 3) for number in range(20)]
    slow = plant_run("rto_s", "s", 65.0, regression=regression)

    assert bool(compare(slow, [*steady, *[slow] * (RECENT - 1)]).marks) is marked


def test_the_shortest_window_holds_enough_runs_for_a_mark() -> None:
    assert RegressionRule(window=ENOUGH).window == ENOUGH
    with pytest.raises(ValueError, match="window"):
        RegressionRule(window=ENOUGH - 1)


def test_a_scenario_sets_its_window() -> None:
    """The line bent 16 runs ago: a short window has forgotten it, a long one has not."""
    fast = [plant_run("rto_s", "s", 50.0 + number % 3) for number in range(30)]
    for window, marked in ((12, False), (40, True)):
        slow = plant_run("rto_s", "s", 65.0, regression={"window": window})
        assert bool(compare(slow, [*fast, *[slow] * 16]).marks) is marked
