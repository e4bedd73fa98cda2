"""What Great Expectations says of each expectation counts only if it is whole and agrees with itself."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from brokerproof.errors import RunError
from brokerproof.experiment.verdict import Verdict
from brokerproof.suites.suite_file import SuiteFile, make_entry
from brokerproof.suites.written_expectation import read_expectation
from brokerproof_judging.suites.expectation_answers import (
    collect_tallies,
    match_results,
    read_answers,
    shorten_error,
)
from brokerproof_judging.suites.library import Validation
from brokerproof_judging.suites.tally import Tally

STANDARD = {
    "type": "expect_column_values_to_not_be_null",
    "kwargs": {"column": "seq"},
    "description": "It holds.",
    "meta": {"table": "stored"},
}
FILE = SuiteFile(
    path="mine.json",
    suite="mine",
    expectations=tuple(read_expectation(each) for each in (make_entry("lost"), make_entry("rto_s"), STANDARD)),
)
COUNTS = {"rows": 40, "unexpected_count": 0, "undecided": 0, "legal": 0}
BROKEN = {**COUNTS, "unexpected_count": 3}


def make_result(
    configuration: Mapping[str, Any],
    meta: Mapping[str, Any] | None = None,
    counts: Any = None,
    *,
    success: bool = True,
    exception: Any = None,
    samples: Any = (),
) -> Any:
    counts = {**COUNTS, "details": {"samples": list(samples)}} if counts is None else counts
    return SimpleNamespace(
        expectation_config=SimpleNamespace(kwargs=configuration, meta=meta),
        exception_info=exception,
        success=success,
        result=counts,
    )


def validate(
    lost: Any = None, rto: Any = None, standard: Any = None, *, success: bool = True, taken: int = 3, more: Any = ()
) -> Validation:
    """A validation of `FILE`, whose results come in another order than the file's expectations."""
    results = [
        standard or make_result({"column": "seq"}, {"name": FILE.expectations[2].name}),
        rto or make_result({"metric": "rto_s"}, {}),
        lost or make_result({"anomaly": "lost"}),
        *more,
    ]
    return Validation(taken=taken, success=success, results=results)


def with_details(counts: Mapping[str, Any], *samples: Any) -> dict[str, Any]:
    return {**counts, "details": {"samples": list(samples)}}


def test_each_expectation_has_the_answer_of_its_own_result() -> None:
    sample = {"seq": 7}
    lost = make_result({"anomaly": "lost"}, None, with_details({**COUNTS, "rows": 12, "legal": 2}, sample))
    answers = read_answers(FILE, validate(lost=lost))
    assert [answer.written for answer in answers] == list(FILE.expectations)
    assert [answer.verdict for answer in answers] == [Verdict.PASSED] * 3
    assert answers[0].tally == Tally(rows=12, unexpected=0, undecided=0, legal=2)
    assert answers[1].tally == Tally(rows=40, unexpected=0, undecided=0, legal=0)
    assert [answer.samples for answer in answers] == [[sample], [], []]
    assert [answer.problem for answer in answers] == ["", "", ""]
    assert collect_tallies(answers)["lost"].rows == 12


@pytest.mark.parametrize(
    ("counts", "verdict"),
    [
        ({"unexpected_count": 1}, Verdict.FAILED),
        ({"undecided": 1}, Verdict.UNKNOWN),
        ({"unexpected_count": 1, "undecided": 1}, Verdict.FAILED),
    ],
)
def test_the_counts_make_the_verdict(counts: dict[str, int], verdict: Verdict) -> None:
    lost = make_result({"anomaly": "lost"}, None, with_details({**COUNTS, **counts}), success=False)
    answer, *others = read_answers(FILE, validate(lost=lost, success=False))
    assert (answer.verdict, answer.problem) == (verdict, "")
    assert {other.verdict for other in others} == {Verdict.PASSED}


@pytest.mark.parametrize(("success", "says"), [(True, "held"), (False, "broken")])
def test_a_suite_whose_verdict_is_not_that_of_its_expectations_is_refused(success: bool, says: str) -> None:
    lost = make_result({"anomaly": "lost"}, None, with_details(BROKEN), success=False) if success else None
    with pytest.raises(RunError, match=f"^Great Expectations calls the suite {says}, its counts do not$"):
        read_answers(FILE, validate(lost=lost, success=success))


def test_an_expectation_without_an_answer_excuses_the_verdict_of_the_suite() -> None:
    refused = make_result({"anomaly": "lost"}, exception={"raised_exception": True}, success=False)
    answers = read_answers(FILE, validate(lost=refused, success=False))
    assert [answer.verdict for answer in answers] == [Verdict.UNKNOWN, Verdict.PASSED, Verdict.PASSED]


@pytest.mark.parametrize("taken", [2, 4])
def test_an_expectation_that_was_dropped_is_an_error(taken: int) -> None:
    why = f"^mine.json holds 3 expectations, and Great Expectations took {taken} of them; is one of an unregistered"
    with pytest.raises(RunError, match=why):
        match_results(FILE, validate(taken=taken))


@pytest.mark.parametrize("times", [0, 2, 3])
def test_an_expectation_has_exactly_one_result(times: int) -> None:
    validation = validate(more=[make_result({"anomaly": "lost"})] * (times - 1))
    if not times:
        validation.results.pop()
    answer, *others = read_answers(FILE, validation)
    assert (answer.written, answer.tally, answer.samples) == (FILE.expectations[0], None, [])
    assert answer.problem == ("was not evaluated" if not times else f"was evaluated {times} times")
    assert [other.problem for other in others] == ["", ""]
    assert "lost" not in collect_tallies([answer, *others])


@pytest.mark.parametrize(
    ("information", "why"),
    [
        ({"raised_exception": True, "exception_message": "no column\nJava"}, "no column"),
        ({"raised_exception": True}, "an exception without a message"),
        ({"raised_exception": True, "exception_message": ""}, "an exception without a message"),
        ({"metric one": {"raised_exception": True, "exception_message": "in one metric"}}, "in one metric"),
        ({"raised_exception": False, "m": {"raised_exception": True, "exception_message": "inner"}}, "inner"),
        ({"raised_exception": False, "exception_message": "no exception"}, ""),
        ({"text": "no mapping", "m": {"raised_exception": False}}, ""),
        ({}, ""),
        (None, ""),
    ],
)
def test_an_exception_is_found_where_the_library_puts_it(information: Any, why: str) -> None:
    lost = make_result({"anomaly": "lost"}, exception=information)
    answer = read_answers(FILE, validate(lost=lost))[0]
    assert answer.problem == (f"could not be evaluated: {why}" if why else "")
    assert (answer.tally is None) is bool(why)
    assert answer.written is FILE.expectations[0]
    assert answer.samples == []


@pytest.mark.parametrize(
    ("counts", "why"),
    [
        ({}, "KeyError('rows')"),
        ({**COUNTS}, "KeyError('details')"),
        ({**COUNTS, "details": {}}, "KeyError('samples')"),
        (None, "TypeError("),
        ({name: value for name, value in with_details(COUNTS).items() if name != "undecided"}, "KeyError('undecided')"),
    ],
)
def test_a_result_without_its_counts_has_no_answer(counts: Any, why: str) -> None:
    lost = make_result({"anomaly": "lost"})
    lost.result = counts
    answer = read_answers(FILE, validate(lost=lost))[0]
    assert answer.problem.startswith(f"came back without its counts: {why}")
    assert (answer.written, answer.tally, answer.samples) == (FILE.expectations[0], None, [])


@pytest.mark.parametrize(
    ("counts", "success"),
    [({"unexpected_count": 1}, True), ({"undecided": 1}, True), ({}, False)],
)
def test_a_verdict_that_is_not_that_of_its_counts_is_no_answer(counts: dict[str, int], success: bool) -> None:
    sample = {"seq": 7}
    lost = make_result({"anomaly": "lost"}, None, with_details({**COUNTS, **counts}, sample), success=success)
    answer = read_answers(FILE, validate(lost=lost))[0]
    assert answer.problem == "came back with a verdict that is not its counts'"
    assert (answer.written, answer.tally, answer.samples) == (FILE.expectations[0], None, [sample])


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("one", "one"),
        ("\n  \n one \ntwo", "one"),
        ("", ""),
        ("x" * 300, "x" * 300),
        ("x" * 301, "x" * 300 + "…"),
        ("[BROKEN.SUB] it broke SQLSTATE: 42703\nplan", None),
    ],
)
def test_the_first_line_of_an_error_is_kept(text: str, line: str | None) -> None:
    found = shorten_error(text)
    if line is None:
        assert "it broke" in found
        assert "plan" not in found
    else:
        assert found == line
