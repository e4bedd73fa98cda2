"""The track record of known bugs: what the runs of each case came to, and which behaved otherwise than they should."""

from __future__ import annotations

import pytest
from brokerproof.checks import load_cases
from brokerproof.experiment.scenario import KnownBug
from brokerproof.results.track_record import make_track_row, select_bugs
from builders import ROOT
from pydantic import ValidationError

BUG = {"issue": "apache/pulsar#26074", "claim": "c", "hit": ["4.0.8"]}


@pytest.fixture
def make(scenario):
    """Makes a case of a scenario with a bug, by default as its recorded runs are."""

    def make(case="", verdict="failed", bug=BUG, **changes):
        return scenario(case=case, expect={"verdict": verdict}, bug=bug, **changes)

    return make


@pytest.fixture
def runs(sqlite_history, record):
    hit = {"case": "replaced", "expect": {"verdict": "failed"}}
    for verdict in ("failed", "passed", "unknown", "failed"):
        record(verdict, changes=hit, illegal={"lost": 7} if verdict == "failed" else None, legal={"delivered_twice": 9})
    record(changes={"case": "control"})
    return sqlite_history.list_runs(["kill_region"], limit=100)


def test_a_row_counts_tries_those_that_reached_the_state_and_those_as_expected(make, topology, runs):
    row = make_track_row(make("replaced"), topology, runs)
    assert (row.tries, row.reached, row.as_expected, row.newest) == (4, 3, 2, "r3")
    assert row.found == "990 acked, 9 delivered_twice, 7 lost"
    assert row.surprise == "kill_region replaced: 1 of 3 runs were not failed"
    assert len(row.run_dirs) == 4
    control = make_track_row(make("control", "passed"), topology, runs)
    assert (control.tries, control.reached, control.as_expected, control.surprise) == (1, 1, 1, None)


@pytest.mark.parametrize("changes", [{"case": "another"}, {"version": "4.0.6"}, {"settle_s": 7}])
def test_runs_of_another_case_another_version_or_other_settings_do_not_count(make, topology, runs, changes):
    row = make_track_row(make(**{"case": "replaced", **changes}), topology, runs)
    assert (row.tries, row.reached, row.newest, row.at, row.surprise, row.found) == (0, 0, None, None, None, "")


@pytest.mark.parametrize(
    ("issue", "found"),
    [(None, 1), ("apache/pulsar#26074", 1), ("26074", 1), ("6074", 0), ("apache/bookkeeper#26074", 0), ("", 0)],
)
def test_bugs_are_chosen_by_their_issues(make, issue, found):
    assert len(select_bugs([make(), make(bug=None)], issue)) == found


def test_an_issue_is_written_as_where_it_is_described():
    assert KnownBug(**BUG).url == "https://github.com/apache/pulsar/issues/26074"
    with pytest.raises(ValidationError, match="issue"):
        KnownBug(**BUG | {"issue": "26074"})


def test_each_shipped_bug_has_a_case_with_it_and_a_control():
    for file in sorted((ROOT / "dags/scenarios").glob("*.yaml")):
        cases = [case for case, _, _ in load_cases(file, ROOT / "topologies")]
        if cases[0].bug is not None:
            assert {str(case.expect.verdict) for case in cases} == {"failed", "passed"}, file.stem
            assert any("control" in case.case for case in cases), file.stem
