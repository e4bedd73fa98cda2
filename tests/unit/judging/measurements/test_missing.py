"""How many messages are missing or repeated, which a scenario bounds that allows it."""

from __future__ import annotations

import json

import pytest
from brokerproof.run.judgement import TOTALS, Counts
from brokerproof_judging.measurements.losses import measure_counted
from brokerproof_judging.measurements.measured_values import make_measurements

from ..history import History


def list_rows(directory, *, bounds, legal=None, illegal=None, **scenario):
    """The measurements of a run with these counts."""
    guarantee = "at_most_once" if bounds else "at_least_once"
    run = History(**{"guarantee": guarantee, "bounds": bounds, **scenario}).write(directory / "run")
    found = {"legal": legal or {}, "illegal": illegal or {}}
    counts = Counts.model_validate_json(json.dumps(dict.fromkeys(TOTALS, 0) | found))
    return make_measurements(run, measure_counted(run, counts))


def measure(directory, **counts):
    """{anomaly: (value, maximum)} of a run with these counts."""
    return {row.subject: (row.value, row.maximum) for row in list_rows(directory, **counts)}


BOUNDS = {"missing_messages": {"max": 4}, "missing_messages/undelivered": {"max": 0}}


def test_legal_and_illegal_messages_count_against_the_bound(tmp_path):
    legal, illegal = {"lost": 3, "stored_twice": 9}, {"lost": 2, "undelivered": 1}
    found = measure(tmp_path, bounds=BOUNDS, legal=legal, illegal=illegal)
    assert found == {"lost": (5, 4), "not_replicated": (0, 4), "undelivered": (1, 0), "unreadable": (0, 4)}


def test_what_a_scenario_loosens_is_measured_under_any_guarantee(tmp_path):
    bounds = {"missing_messages/lost": {"max": 4}}
    found = measure(tmp_path, bounds=bounds, legal={"lost": 5}, guarantee="at_least_once", loosen=["lost"])
    assert found["lost"] == (5, 4)


def test_more_than_the_bound_is_too_much_whatever_an_unproven_message_is(tmp_path):
    found = measure(tmp_path, bounds=BOUNDS, illegal={"unproven": 1, "lost": 5})
    assert found == {"lost": (5, 4), "not_replicated": (None, 4), "undelivered": (None, 0), "unreadable": (None, 4)}


@pytest.mark.parametrize("kind", ["legal", "illegal"])
def test_nothing_is_known_while_a_message_is_unproven(tmp_path, kind):
    found = measure(tmp_path, bounds=BOUNDS, **{kind: {"unproven": 1, "lost": 3}})
    assert found == {"lost": (None, 4), "not_replicated": (None, 4), "undelivered": (None, 0), "unreadable": (None, 4)}


@pytest.mark.parametrize(("unproven", "more"), [(0, ""), (1200, "; 1,200 messages are unproven")])
def test_the_evidence_has_the_number_of_unproven_messages(tmp_path, unproven, more):
    rows = list_rows(tmp_path, bounds=BOUNDS, illegal={"unproven": unproven, "lost": 5})
    assert {row.evidence for row in rows} == {f"counted whether legal or illegal{more}"}


@pytest.mark.parametrize(
    ("bound", "unproven", "found", "measured"),
    [
        ({"max": 0}, 0, 0, (0, "held")),
        ({"max": 0}, 0, 2, (2, "unexpected")),
        ({"min": 1}, 0, 2, (2, "held")),
        ({"min": 1}, 0, 0, (0, "undecided")),
        # An unproven message may be stored in a part of the log that was not read.
        ({"max": 1}, 1, 0, (None, "undecided")),
        ({"min": 1}, 1, 2, (None, "held")),
    ],
)
def test_messages_that_are_stored_twice_count_against_the_bound(tmp_path, bound, unproven, found, measured):
    # The library of expectations can be imported only after Spark.
    from brokerproof_judging.suites.measurement_expectation import find_bound_result

    counts = {"legal": {"stored_twice": found, "lost": 3}, "illegal": {"unproven": unproven}}
    rows = list_rows(tmp_path, bounds={"repeated_messages": bound}, guarantee="at_least_once", **counts)
    assert [(row.metric, row.subject) for row in rows] == [("repeated_messages", "stored_twice")]
    result = find_bound_result(rows[0].model_dump(), minimum=None, maximum=None, required=False)
    assert (rows[0].value, str(result)) == measured


def test_without_a_bound_nothing_is_measured(tmp_path):
    assert measure(tmp_path, bounds={}, illegal={"lost": 3}) == {}
