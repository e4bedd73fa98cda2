"""The results of Great Expectations for each expectation, checked before they count.

Great Expectations drops an expectation of an unknown kind. If it could not evaluate an expectation, it reports this
one as violated. So every expectation of a suite's file must have one result, with counts and a verdict that follows
from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from brokerproof.errors import RunError
from brokerproof.experiment.verdict import Verdict
from brokerproof.suites.suite_file import SuiteFile
from brokerproof.suites.written_expectation import WrittenExpectation

from brokerproof_judging.suites.library import Validation
from brokerproof_judging.suites.query_planning import strip_codes
from brokerproof_judging.suites.tally import Tally

_LONGEST_REASON = 300


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The result of Great Expectations for one expectation."""

    written: WrittenExpectation
    tally: Tally | None
    samples: list[dict[str, Any]]
    # Why there is no tally, to complete the sentence "the expectation …".
    problem: str = ""

    @property
    def verdict(self) -> Verdict:
        if self.tally is None:
            return Verdict.UNKNOWN
        if self.tally.unexpected:
            return Verdict.FAILED
        return Verdict.UNKNOWN if self.tally.undecided else Verdict.PASSED


def read_answers(file: SuiteFile, validation: Validation) -> list[Answer]:
    """Return one answer for each expectation of the file, in the same order.

    An expectation without a usable result has an answer with a `problem`. Raises RunError if Great Expectations dropped
    an expectation, or if its verdict on the whole suite contradicts its counts.
    """
    answers = [
        matched if isinstance(matched, Answer) else _read_answer(written, matched)
        for written, matched in zip(file.expectations, match_results(file, validation), strict=True)
    ]
    holds = all(answer.verdict is Verdict.PASSED for answer in answers)
    if validation.success is not holds and not any(answer.problem for answer in answers):
        raise RunError(
            f"Great Expectations calls the suite {'held' if validation.success else 'broken'}, its counts do not"
        )
    return answers


def match_results(file: SuiteFile, validation: Validation) -> list[Any]:
    """Return, for each expectation of the file, the library's result, or an Answer with the problem if none is usable.

    Raises RunError if Great Expectations dropped an expectation.
    """
    if validation.taken != len(file.expectations):
        raise RunError(
            f"{file.path} holds {len(file.expectations)} expectations, and Great Expectations took "
            f"{validation.taken} of them; is one of an unregistered kind?"
        )
    results: dict[str, list[Any]] = {}
    for result in validation.results:
        results.setdefault(_find_name(result.expectation_config), []).append(result)
    return [_match(written, results.get(written.name, [])) for written in file.expectations]


def collect_tallies(answers: Sequence[Answer]) -> dict[str, Tally]:
    return {answer.written.name: answer.tally for answer in answers if answer.tally is not None}


def shorten_error(text: str) -> str:
    """Return the first line of an error. In Spark's errors, a plan or a Java stack follows this line."""
    line = next((line.strip() for line in strip_codes(text).splitlines() if line.strip()), "")
    return line if len(line) <= _LONGEST_REASON else f"{line[:_LONGEST_REASON]}…"


def _find_name(configuration: Any) -> str:
    """Return the name of the expectation that a result is about."""
    kwargs, meta = configuration.kwargs, configuration.meta or {}
    return str(kwargs.get("anomaly") or kwargs.get("metric") or meta.get("name"))


def _match(written: WrittenExpectation, results: Sequence[Any]) -> Any:
    if len(results) != 1:
        problem = "was not evaluated" if not results else f"was evaluated {len(results)} times"
        return Answer(written=written, tally=None, samples=[], problem=problem)
    result = results[0]
    if exception := _find_exception(result.exception_info):
        problem = f"could not be evaluated: {shorten_error(exception)}"
        return Answer(written=written, tally=None, samples=[], problem=problem)
    return result


def _read_answer(written: WrittenExpectation, result: Any) -> Answer:
    found = result.result
    try:
        tally = Tally(
            rows=found["rows"], unexpected=found["unexpected_count"], undecided=found["undecided"], legal=found["legal"]
        )
        samples = found["details"]["samples"]
    except (KeyError, TypeError) as error:
        return Answer(written=written, tally=None, samples=[], problem=f"came back without its counts: {error!r}")
    if bool(result.success) is not (tally.unexpected == 0 and tally.undecided == 0):
        problem = "came back with a verdict that is not its counts'"
        return Answer(written=written, tally=None, samples=samples, problem=problem)
    return Answer(written=written, tally=tally, samples=samples)


def _find_exception(information: Mapping[str, Any] | None) -> str:
    """Return the message of the exception in a result's `exception_info`; empty if there is no exception.

    The exception may be in the mapping itself, or in an entry of it that is about one metric.
    """
    if not information:
        return ""
    entries = [information, *(entry for entry in information.values() if isinstance(entry, Mapping))]
    for entry in entries:
        if entry.get("raised_exception"):
            return str(entry.get("exception_message") or "an exception without a message")
    return ""
