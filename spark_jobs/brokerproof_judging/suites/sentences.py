"""Sentences that give the reason for a suite's verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from brokerproof.errors import shorten
from brokerproof.experiment.guarantees import Anomaly
from brokerproof.experiment.metrics import METRICS
from brokerproof.experiment.numbers import format_bounds, format_exactly
from brokerproof.experiment.verdict import Verdict
from brokerproof.run.directory import Run
from brokerproof.suites.suite_file import SuiteFile, begin_with_description
from brokerproof.suites.written_expectation import WrittenExpectation

from brokerproof_judging.suites.cross_check import MessageCounts
from brokerproof_judging.suites.expectation_answers import Answer, collect_tallies
from brokerproof_judging.suites.tally import Tally


def describe_first(answers: Sequence[Answer], verdict: Verdict) -> str:
    """Return why the first expectation with `verdict` has this verdict, and the names of the others that have it.

    If a user wrote its description, this comes first. The verdict is not `passed`.
    """
    answer, *others = [answer for answer in answers if answer.verdict is verdict]
    named = (other.written.name + _name_subscription(other, " ({})") for other in others)
    rest = f"; {verdict} too: {', '.join(named)}" if others else ""
    own = begin_with_description(answer.written.name, answer.written.description)
    if answer.tally is None:
        return f"{own}`{answer.written.name}` {answer.problem}{rest}."
    describe = _describe_standard if answer.written.standard else _find_description(answer)
    return f"{own}{describe(answer, answer.tally)}{rest}."


def _find_description(answer: Answer) -> Callable[[Answer, Tally], str]:
    return _describe_measurement if answer.written.name in METRICS else _describe_anomaly


def _describe_standard(answer: Answer, tally: Tally) -> str:
    name, first = answer.written.name, answer.samples[0] if answer.samples else {}
    if answer.verdict is Verdict.UNKNOWN:
        return f"`{name}` cannot compare {tally.undecided:,} of {tally.rows:,} rows, which hold a null or NaN"
    shown = ", ".join(
        f"{column} {value}" for column, value in first.items() if value is not None and column != "run_id"
    )
    example = f"; the first is {shorten(shown, 200)}" if shown else ""
    if answer.written.standard and answer.written.standard.counted_in:
        return f"`{name}` is broken by {tally.unexpected:,} of {tally.rows:,} rows or values{example}"
    return f"`{name}` does not hold for {tally.rows:,} rows{example}"


def describe_table_passed(table: str, answers: Sequence[Answer], rows: int, left_out: Mapping[str, int]) -> str:
    """Return why the standard expectations on a table passed, and how many rows each of them left out."""
    if not rows:
        return f"All {len(answers)} standard expectations on `{table}` hold, because it holds no row."
    omitted = "".join(f" `{name}` left out {number:,} rows without a value." for name, number in left_out.items())
    return f"All {len(answers)} standard expectations on `{table}` hold for {rows:,} rows.{omitted}"


def _describe_measurement(answer: Answer, tally: Tally) -> str:
    name, first = answer.written.name, answer.samples[0] if answer.samples else {}
    subject = f" of {first.get('subject')}" if first.get("subject") else ""
    if answer.verdict is Verdict.UNKNOWN:
        return f"`{name}`{subject} could not be measured ({tally.undecided:,} of {tally.rows:,} values)"
    bounds = _describe_bounds(answer.written, first)
    value = _describe_measured(first) if first else "a value"
    return f"`{name}`{subject} is {value}, {bounds} ({tally.unexpected:,} of {tally.rows:,} values are not)"


def _describe_measured(row: Mapping[str, Any]) -> str:
    for name, words in (("value", ""), ("at_least", "at least "), ("at_most", "at most ")):
        if row.get(name) is not None:
            return words + format_exactly(row[name], row.get("unit") or "")
    return "not measured"


def _describe_anomaly(answer: Answer, tally: Tally) -> str:
    name, first = answer.written.name, answer.samples[0] if answer.samples else {}
    where = f"; the first is {first.get('producer')} #{first.get('seq')} on {first.get('cluster')}" if first else ""
    where += _name_subscription(answer, ", {}")
    if answer.verdict is Verdict.UNKNOWN and name != Anomaly.UNPROVEN:
        return f"Whether `{name}` holds is not recorded for {tally.undecided:,} of {tally.rows:,} rows{where}"
    number = tally.undecided if answer.verdict is Verdict.UNKNOWN else tally.unexpected
    meaning = Anomaly(name).facts.meaning
    return f"{number:,} of {tally.rows:,} rows are `{name}`: such a message {meaning}{where}"


def _name_subscription(answer: Answer, form: str) -> str:
    """Return the subscription of an anomaly's first row in `form`; empty if the row is about a cluster's log."""
    subscription = None if answer.written.standard or not answer.samples else answer.samples[0].get("subscription")
    return form.format(f"subscription `{subscription}`") if subscription else ""


def _describe_bounds(written: WrittenExpectation, row: Mapping[str, Any]) -> str:
    minimum = written.minimum if row.get("minimum") is None else row["minimum"]
    maximum = written.maximum if row.get("maximum") is None else row["maximum"]
    return f"and has to be {' and '.join(format_bounds(minimum, maximum, write=format_exactly))}"


def describe_messages_passed(answers: Sequence[Answer], counts: MessageCounts) -> str:
    """Return why a suite on messages passed, and the anomalies that the guarantee allows."""
    legal = [f"{tally.legal:,} {name}" for name, tally in collect_tallies(answers).items() if tally.legal]
    allowed = f"; legal under the guarantee: {', '.join(legal)}" if legal else ""
    return f"All {len(answers)} expectations hold for {counts.rows:,} messages and places{allowed}."


def describe_measurements_passed(
    file: SuiteFile, answers: Sequence[Answer], measurements: Sequence[Mapping[str, Any]], run: Run
) -> str:
    """Return why a suite on measurements passed, and the values that only the scenario's bound allows."""
    names = {written.name for written in file.expectations}
    rows = [row for row in measurements if row["metric"] in names]
    defaults = {written.name for written in file.expectations if (written.minimum, written.maximum) != (None, None)}
    bounded = [row for row in rows if (row["minimum"], row["maximum"]) != (None, None) or row["metric"] in defaults]
    legal = [f"{name} {tally.legal:,} times" for name, tally in collect_tallies(answers).items() if tally.legal]
    allowed = f"; only the scenario's own bound allows {', '.join(legal)}" if legal else ""
    cut_off = "".join(
        f" `{row['metric']}` of {row['subject']} was not measured, because {row['cut_off_by']} took effect before, "
        "and no bound asks for it."
        for row in rows
        if row["cut_off_by"] is not None and row not in bounded
    )
    if bounded:
        held = f"{len(bounded):,} of {len(rows):,} measurements have bounds, and all of them are within{allowed}."
        return held + cut_off
    faults = "" if run.scenario.faults else "no fault and "
    return f"The scenario sets {faults}no bound, so nothing can fail; {len(rows):,} measurements are recorded.{cut_off}"


def describe_inapplicable(reasons: Mapping[str, str]) -> str:
    """Return a sentence with the expectations that do not apply, grouped by the reason."""
    names: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        names.setdefault(reason, []).append(f"`{name}`")
    parts = [f"{', '.join(subjects)} ({reason})" for reason, subjects in names.items()]
    return f"Not applicable: {'; '.join(parts)}."
