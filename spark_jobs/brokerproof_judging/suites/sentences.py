"""Why a suite came to its verdict, in one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from brokerproof.experiment.guarantees import Anomaly
from brokerproof.experiment.metrics import METRICS
from brokerproof.experiment.verdict import Verdict
from brokerproof.run.directory import Run

from brokerproof_judging.suites.answers import Answer, collect_tallies
from brokerproof_judging.suites.message_counts import MessageCounts
from brokerproof_judging.suites.suite_file import SuiteFile, WrittenExpectation
from brokerproof_judging.suites.tally import Tally


def describe_first(answers: Sequence[Answer], verdict: Verdict) -> str:
    """The first expectation that came to the verdict, which is not `passed`, and the names of the others."""
    answer, *others = [answer for answer in answers if answer.verdict is verdict]
    rest = f"; {verdict} too: {', '.join(other.written.name for other in others)}" if others else ""
    if answer.tally is None:
        return f"`{answer.written.name}` {answer.problem}{rest}."
    describe = _describe_measurement if answer.written.name in METRICS else _describe_anomaly
    return f"{describe(answer, answer.tally)}{rest}."


def _describe_measurement(answer: Answer, tally: Tally) -> str:
    name, first = answer.written.name, answer.samples[0] if answer.samples else {}
    subject = f" of {first.get('subject')}" if first.get("subject") else ""
    if answer.verdict is Verdict.UNKNOWN:
        return f"`{name}`{subject} could not be measured ({tally.undecided:,} of {tally.rows:,} values)"
    bounds = _describe_bounds(answer.written, first)
    # Infinity comes as a word, because JSON has no number for it.
    value = f"{float(first['value']):g} {first.get('unit') or ''}".rstrip() if first else "a value"
    return f"`{name}`{subject} is {value}, {bounds} ({tally.unexpected:,} of {tally.rows:,} values are not)"


def _describe_anomaly(answer: Answer, tally: Tally) -> str:
    name, first = answer.written.name, answer.samples[0] if answer.samples else {}
    where = f"; the first is {first.get('producer')} #{first.get('seq')} on {first.get('cluster')}" if first else ""
    if answer.verdict is Verdict.UNKNOWN and name != Anomaly.UNPROVEN:
        return f"Whether `{name}` holds is not recorded for {tally.undecided:,} of {tally.rows:,} rows{where}"
    number = tally.undecided if answer.verdict is Verdict.UNKNOWN else tally.unexpected
    meaning = Anomaly(name).facts.meaning
    return f"{number:,} of {tally.rows:,} rows are `{name}`: such a message {meaning}{where}"


def _describe_bounds(written: WrittenExpectation, row: Mapping[str, Any]) -> str:
    minimum = written.minimum if row.get("minimum") is None else row["minimum"]
    maximum = written.maximum if row.get("maximum") is None else row["maximum"]
    limits = [f"at least {float(minimum):g}"] if minimum is not None else []
    limits += [f"at most {float(maximum):g}"] if maximum is not None else []
    return f"and has to be {' and '.join(limits)}"


def describe_messages_passed(answers: Sequence[Answer], counts: MessageCounts) -> str:
    """Why a suite on messages passed: what held, and what the guarantee allows."""
    legal = [f"{tally.legal:,} {name}" for name, tally in collect_tallies(answers).items() if tally.legal]
    allowed = f"; legal under the guarantee: {', '.join(legal)}" if legal else ""
    return f"All {len(answers)} expectations hold for {counts.rows:,} messages and places{allowed}."


def describe_measurements_passed(
    file: SuiteFile, answers: Sequence[Answer], measurements: Sequence[Mapping[str, Any]], run: Run
) -> str:
    """Why a suite on measurements passed: what is within bounds, and what only the scenario allows."""
    rows = [row for row in measurements if row["suite"] == file.suite]
    defaults = {written.name for written in file.expectations if (written.minimum, written.maximum) != (None, None)}
    bounded = [row for row in rows if (row["minimum"], row["maximum"]) != (None, None) or row["metric"] in defaults]
    legal = [f"{name} {tally.legal:,} times" for name, tally in collect_tallies(answers).items() if tally.legal]
    allowed = f"; only the scenario's own bound allows {', '.join(legal)}" if legal else ""
    if bounded:
        return f"{len(bounded):,} of {len(rows):,} measurements have bounds, and all of them are within{allowed}."
    faults = "" if run.scenario.faults else "no fault and "
    return f"The scenario sets {faults}no bound, so nothing can fail; {len(rows):,} measurements are recorded."


def describe_inapplicable(reasons: Mapping[str, str]) -> str:
    """What does not apply and why; expectations with the same reason stand together."""
    names: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        names.setdefault(reason, []).append(f"`{name}`")
    parts = [f"{', '.join(subjects)} ({reason})" for reason, subjects in names.items()]
    return f"Not applicable: {'; '.join(parts)}."
