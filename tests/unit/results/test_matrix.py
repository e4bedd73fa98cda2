"""The matrix of a scenario: what each subscription's consumers lost and repeated in each case."""

from __future__ import annotations

import pytest
from brokerproof.cli import main
from brokerproof.reports.compare_page import render_groups
from brokerproof.reports.pages import Page
from brokerproof.results.matrix import make_matrix
from brokerproof.results.run_groups import GroupBy

LOST, REPEATED = ("missing_outputs", "commits_first"), ("repeated_outputs", "commits_last")


@pytest.fixture
def groups(sqlite_history, record):
    for lost, repeated in [(40.0, 7.0), (44.0, 7.0)]:
        record(measured={LOST: lost, REPEATED: repeated}, changes={"case": "plain/killed"})
    # This run did not show what its case is about, so its numbers do not count.
    record("unknown", measured={LOST: 0.0, REPEATED: 9.0}, changes={"case": "plain/killed"})
    record(measured={LOST: 0.0, REPEATED: 0.0, ("rto_s", "killed"): 1.0}, changes={"case": "plain/none"})
    record()
    return sqlite_history.group(["kill_region"], GroupBy.CASE)


def test_a_case_has_what_its_decided_runs_showed(groups):
    subscriptions, rows = make_matrix(groups)
    assert subscriptions == ["commits_first", "commits_last"]
    assert [(row.case, row.verdict, row.reached, row.newest, row.cells) for row in rows] == [
        ("no case", "passed", "1 of 1", "r4", {}),
        ("plain/killed", "unknown", "2 of 3", "r2", {"commits_first": "lost 42 (40–44)", "commits_last": "repeated 7"}),
        ("plain/none", "passed", "1 of 1", "r3", {"commits_first": "lost 0", "commits_last": "repeated 0"}),
    ]


def test_a_case_has_what_producers_stored_twice_and_subscriptions_missed(sqlite_history, record):
    measured = {("repeated_messages", "stored_twice"): 12.0, ("missed_messages", "audit"): 4002.0, ("rto_s", "f"): 1.0}
    record(measured=measured, changes={"case": "killed/resend"})
    columns, (row,) = make_matrix(sqlite_history.group(["kill_region"], GroupBy.CASE))
    assert (columns, row.cells) == (
        ["stored_twice", "audit"],
        {"stored_twice": "repeated 12", "audit": "missed 4002"},
    )


def test_the_matrix_is_printed_and_has_a_page(groups, sqlite_history, record, monkeypatch, capsys):
    alike = dict.fromkeys((("missing_outputs", name) for name in ("shared", "commits_last")), 0.0)
    record(measured=alike, changes={"case": "plain/alike"})
    monkeypatch.setenv("BROKERPROOF_DATABASE_URL", sqlite_history.database)
    monkeypatch.setenv("COLUMNS", "60")
    assert main(["history", "kill_region", "--by", "case"]) == 0
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    (at,) = (number for number, line in enumerate(lines) if line.startswith("plain/killed  unknown, reached in 2 of 3"))
    text = " ".join(lines[at:])
    assert "failed in 0 of 2 (0% to 84%), and 1 without a verdict" in text
    at = lines.index("    commits_first: lost 42 (40–44)") - 1
    assert lines[at + 1 : at + 3] == ["    commits_first: lost 42 (40–44)", "    commits_last: repeated 7"]
    assert "    shared, commits_last: lost 0" in lines
    html = render_groups("kill_region", GroupBy.CASE, groups, Page(root="../"))
    assert '<a href="../runs/r2">plain/killed</a>' in html
    assert "<td>failed in 0 of 2 (0% to 84%), and 1 without a verdict</td>" in html
    assert "<td>lost 42 (40–44)</td><td>repeated 7</td>" in html
    assert '<a href="../scenarios/kill_region/groups?by=version">version</a>' in html
    assert "No run is recorded yet." in render_groups("kill_region", GroupBy.CASE, [], Page())
