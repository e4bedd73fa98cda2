"""The track record of known bugs: what the runs of each case came to, and which behaved otherwise than they should."""

from __future__ import annotations

from typing import Any

import pytest
from brokerproof.checks import load_cases
from brokerproof.errors import InputError
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.yaml_models import parse
from brokerproof.results.track_record import make_track_row, select_bugs
from builders import ROOT

BUG = {"issue": "apache/pulsar#26074", "claim": "c", "hit": ["4.0.8"]}


def scenario(case: str = "", verdict: str = "failed", **bug: Any) -> Scenario:
    content = {"name": "kill_region", "title": "t", "description": "d", "topology": "t", "workload": {}, "case": case}
    return parse(Scenario, {**content, "expect": {"verdict": verdict}, "bug": BUG | bug}, file="scenario")


@pytest.fixture
def runs(sqlite_history, record):
    hit = {"case": "replaced", "expect": {"verdict": "failed"}}
    for verdict in ("failed", "passed", "unknown", "failed"):
        record(verdict, changes=hit, illegal={"lost": 7}, legal={"delivered_twice": 9})
    record(changes={"case": "control"})
    return sqlite_history.list_runs(["kill_region"], limit=100)


def test_a_row_counts_tries_those_that_reached_the_state_and_those_as_expected(runs):
    row = make_track_row(scenario("replaced"), runs)
    assert (row.tries, row.reached, row.as_expected, row.newest) == (4, 3, 2, "r3")
    assert row.found == "990 acked, 9 delivered_twice, 7 lost"
    assert row.surprise == "kill_region replaced: 1 of 3 runs were not failed"
    control = make_track_row(scenario("control", "passed"), runs)
    assert (control.tries, control.reached, control.as_expected, control.surprise) == (1, 1, 1, None)


def test_a_case_without_a_run_surprises_nobody(runs):
    row = make_track_row(scenario("another"), runs)
    assert (row.tries, row.reached, row.newest, row.at, row.surprise, row.found) == (0, 0, None, None, None, "")


@pytest.mark.parametrize(
    ("issue", "found"),
    [(None, 1), ("apache/pulsar#26074", 1), ("26074", 1), ("6074", 0), ("apache/bookkeeper#26074", 0), ("", 0)],
)
def test_bugs_are_chosen_by_their_issues(issue, found):
    without = scenario().model_copy(update={"bug": None})
    assert len(select_bugs([scenario(), without], issue)) == found


def test_an_issue_is_written_as_where_it_is_described():
    assert scenario().bug.url == "https://github.com/apache/pulsar/issues/26074"
    with pytest.raises(InputError, match="issue"):
        scenario(issue="26074")


def test_each_shipped_bug_has_a_case_with_it_and_a_control():
    for file in sorted((ROOT / "dags/scenarios").glob("*.yaml")):
        cases = [case for case, _, _ in load_cases(file, ROOT / "topologies")]
        if cases[0].bug is not None:
            assert {str(case.expect.verdict) for case in cases} == {"failed", "passed"}, file.stem
            assert any("control" in case.case for case in cases), file.stem
