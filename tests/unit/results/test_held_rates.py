"""The warning about a rate that this machine did not hold lately."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from brokerproof.faults.steady_load import NEVER_HELD
from brokerproof.results.held_rates import list_rate_warnings
from brokerproof.run.records import FoundRate, LoadRates, StepProblem, write_record

HERE = {"architecture": "x86_64", "processors": 2}
STEADY = ("rate_held", "steady")
WORKLOAD = ("rate", "size", "produce_on")
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture
def said(plant, scenario, judgement, sqlite_history):
    """Records runs, given as (rate, share held, …), and returns the warning about a scenario that asks for a rate."""

    def ask(rate: int | str, *runs: dict[str, Any], since: datetime = LONG_AGO, **changes: Any) -> str:
        for number, run in enumerate(runs):
            workload = {
                "namespace": "shop/orders",
                "size": 200,
                **{name: run[name] for name in WORKLOAD if name in run},
            }
            planted = plant(
                f"r{number}",
                judged=judgement(measured={STEADY: run["share"]}),
                minutes=number,
                changes={"workload": workload, "topology": run.get("topology", "stretched")},
                machine=run.get("machine", HERE),
            )
            if "problem" in run:
                write_record(planted, StepProblem(step="break_it", problem=run["problem"]))
            if "found" in run:
                found = FoundRate(rate=run["found"], held=run["found"], missed=None, busy=None)
                write_record(planted, LoadRates(steps=(), found=found, at=1))
            sqlite_history.record(planted)
        wanted = scenario(**{"workload": {"namespace": "shop/orders", "rate": rate}, **changes})
        warnings = list_rate_warnings(wanted, sqlite_history.list_held_shares(since), machine=HERE)
        found = [(warning.field, bool(warning.remedy)) for warning in warnings]
        assert found == [("workload.rate", True)] * len(found)
        return "; ".join(map(str, warnings))

    return ask


def test_without_a_history_nothing_is_said(said):
    assert said(1_000_000) == ""


def test_a_rate_that_was_held_lately_is_no_reason(said):
    assert said(5000, {"rate": 4000, "share": 0.5}, {"rate": 5000, "share": 0.95}) == ""


def test_a_lower_rate_that_was_not_held_is_named_with_what_was(said):
    sentence = said(5000, {"rate": 1000, "share": 0.99}, {"rate": 4000, "share": 0.89})
    assert "did not hold 4,000 messages/s in r1, and the most that it held was 1,000" in sentence
    assert "asks for 5,000" in sentence


def test_a_load_that_never_became_steady_was_not_held(said):
    never = {"rate": 4000, "share": None}
    assert said(5000, {**never, "problem": f"DeadlineError: {NEVER_HELD} 3600 messages/s"})


def test_a_run_that_broke_for_another_reason_says_nothing(said):
    assert said(5000, {"rate": 4000, "share": None, "problem": "a node died"}) == ""


def test_a_higher_rate_that_was_not_held_says_nothing_of_a_lower_one(said):
    assert said(3000, {"rate": 1000, "share": 1.0}, {"rate": 4000, "share": 0.5}) == ""


@pytest.mark.parametrize(
    "elsewhere",
    [{"machine": {"architecture": "arm64", "processors": 64}}, {"size": 100_000}, {"topology": "other"}],
    ids=["another machine", "larger messages", "another topology"],
)
def test_runs_that_do_not_compare_say_nothing(said, elsewhere):
    assert said(5000, {"rate": 4000, "share": 0.5, **elsewhere}, {"rate": 10, "share": 1.0, **elsewhere}) == ""


def test_runs_of_before_the_last_thirty_days_say_nothing(said):
    late = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=1)
    assert said(5000, {"rate": 4000, "share": 0.5}, since=late) == ""


def test_the_clusters_published_to_are_counted(said):
    both = ["main", "other"]
    workload = {"namespace": "shop/orders", "rate": 2000, "produce_on": both}
    assert "asks for 4,000" in said(2000, {"rate": 4000, "share": 0.5}, workload=workload)
    assert said(2000) == ""


def test_the_clusters_that_a_run_published_to_are_counted(said):
    assert said(4000, {"rate": 4000, "share": 0.5}, {"rate": 2000, "share": 1.0, "produce_on": ["main", "other"]}) == ""
    assert "was 4,000" in said(4001)


def test_a_rate_that_a_run_found_and_held_is_no_reason(said):
    assert said(5000, {"rate": "max", "found": 5000, "share": 0.99}, {"rate": 4000, "share": 0.5}) == ""


def test_a_rate_that_a_run_found_and_missed_is_named(said):
    assert "did not hold 3,550" in said(5000, {"rate": "max", "found": 3550, "share": 0.5})


def test_a_run_that_found_no_rate_says_nothing(said):
    assert said(5000, {"rate": "max", "share": None, "problem": f"DeadlineError: {NEVER_HELD} 1,000"}) == ""


def test_a_scenario_that_has_to_find_its_rate_has_no_warning(said):
    assert said("max", {"rate": 100, "share": 0.5}) == ""
