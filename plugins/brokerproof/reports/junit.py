"""A run as JUnit XML, by which a CI server lets a build pass or fail.

Each suite of expectations is a test suite, and each expectation a test case. One more suite, `run`, has the case
`verdict`. The file has a failure or an error if and only if the run is not as its scenario expects:

- If the run is as expected, an expectation that did not hold is `skipped`, because some scenarios have to fail.
- If the run is not as expected, an expectation that did not hold is a `failure` if the evidence proves it wrong, and an
  `error` if the evidence is not enough. The case `verdict` is also a `failure` or an `error`.
- An expectation that does not apply to the messaging system is always `skipped`. So is an expectation about a metric
  without a bound or without a measurement, because it tested nothing.

The elements are those of Jenkins' schema `junit-10`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree as ET

from brokerproof.experiment.guarantees import Anomaly, Suite
from brokerproof.experiment.metrics import METRICS
from brokerproof.experiment.numbers import format_bounds, format_exactly
from brokerproof.experiment.verdict import Verdict, merge_verdicts
from brokerproof.reports.run_report import explain_unmeasured, find_gap
from brokerproof.results.durations import read_trigger_time
from brokerproof.results.run_outcome import compose_outcome
from brokerproof.run.directory import Run
from brokerproof.run.judgement import Check, Judgement, SuiteJudgement, find_judgement
from brokerproof.run.outcome import Outcome
from brokerproof.suites.suite_file import begin_with_description

# The number of samples for each expectation. The run's table `anomalies` has all anomalies.
MOST_SAMPLES = 10

# Characters that XML 1.0 cannot hold, not even escaped. The log of a killed process may have them.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# The element of a case that did not pass, by verdict.
_TAGS: Mapping[Verdict, str] = {
    Verdict.FAILED: "failure",
    Verdict.UNKNOWN: "error",
    Verdict.NO_DATA: "error",
    Verdict.NOT_APPLICABLE: "skipped",
}


@dataclass(frozen=True, kw_only=True)
class _Case:
    """A test case. `message` is one sentence, and `detail` has the lines that follow the message."""

    name: str
    verdict: Verdict
    message: str = ""
    detail: tuple[str, ...] = ()
    # What an expectation that passed lacked to test anything, such as a bound; empty if it lacked nothing.
    gap: str = ""
    # Only the case of the whole run has a time, because the expectations are judged together.
    seconds: float = 0


def render_junit(run: Run) -> str:
    """Return the JUnit XML of a run as text.

    If the run was not judged, the only case is `verdict`, with the reason. Raises RunError or InputError if run.json
    cannot be used.
    """
    outcome = compose_outcome(run)
    suites = [("run", [_make_verdict_case(outcome)])]
    # If there is no judgement, the outcome has the reason.
    judgement, _ = find_judgement(run)
    suites += [(name, list(cases)) for name, cases in _list_suites(judgement)]
    root = ET.Element("testsuites", name="brokerproof")
    for name, cases in suites:
        root.append(_make_suite(name, cases, run, outcome))
    _count_cases(root)
    ET.indent(root)
    text = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{_FORBIDDEN.sub(_escape_forbidden, text)}\n'


def _make_verdict_case(outcome: Outcome) -> _Case:
    verdict = outcome.verdict
    if outcome.met:
        verdict = Verdict.PASSED
    elif verdict is Verdict.PASSED:
        # The run passed although its scenario expects another verdict.
        verdict = Verdict.FAILED
    return _Case(
        name="verdict",
        verdict=verdict,
        message=outcome.sentences,
        detail=(*outcome.notes, f"run directory: {outcome.run_dir}", f"report: {outcome.report}"),
        seconds=outcome.seconds.total or 0,
    )


def _list_suites(judgement: Judgement | None) -> Iterator[tuple[str, Iterator[_Case]]]:
    if judgement is None:
        return
    for name in dict.fromkeys([*map(str, Suite), *judgement.suites]):
        yield name, _list_cases(name, judgement.suites.get(name), judgement)


def _list_cases(name: str, suite: SuiteJudgement | None, judgement: Judgement) -> Iterator[_Case]:
    if suite is None:
        yield _Case(name="suite", verdict=Verdict.UNKNOWN, message=f"suite {name} was not judged")
        return
    for check in suite.expectations:
        if gap := find_gap(judgement, check):
            rows = [_describe_measurement(check, row.model_dump()) for row in judgement.list_measured(check)]
            message = f"{gap}: {'; '.join(rows) or explain_unmeasured(check)}"
            yield _Case(name=check.name, verdict=check.verdict, message=message, detail=(check.description,), gap=gap)
        elif check.verdict is Verdict.PASSED:
            yield _Case(name=check.name, verdict=check.verdict)
        else:
            own = begin_with_description(check.name, check.description)
            first, *others = _describe_check(check, suite)
            # The suite's reason may already begin with the description.
            is_added = check.verdict is not Verdict.NOT_APPLICABLE and not first.startswith(own)
            yield _Case(
                name=check.name,
                verdict=check.verdict,
                message=f"{own}{first}" if is_added else first,
                detail=(*(() if is_added else (check.description,)), *others, *_describe_rest(check)),
            )
    # A suite that could not be judged may have no expectation with its verdict.
    if merge_verdicts([Verdict.NOT_APPLICABLE, *(check.verdict for check in suite.expectations)]) is not suite.worst:
        yield _Case(name="suite", verdict=suite.verdict, message=suite.why or f"suite {name} is {suite.verdict}")


def _describe_check(check: Check, suite: SuiteJudgement) -> Iterator[str]:
    """Yield the reasons why an expectation did not hold.

    If it does not apply, this is the only reason. If it is about a metric and has samples of values that broke a bound
    or are undecided, each reason is such a value with its bound. Otherwise, the first reason is the number of rows that
    violate it or are undecided, or else the suite's reason, and samples of rows follow as JSON.
    """
    samples = check.samples[:MOST_SAMPLES]
    if check.verdict is Verdict.NOT_APPLICABLE:
        yield check.why
    elif check.name in METRICS and samples and (check.verdict is Verdict.FAILED or check.undecided):
        yield from (_describe_measurement(check, sample) for sample in samples)
    else:
        yield _describe_rows(check, suite)
        yield from (_describe_sample(sample) for sample in samples)


def _describe_measurement(check: Check, sample: Mapping[str, Any]) -> str:
    subject = f" of {sample['subject']}" if sample.get("subject") else ""
    unit, observed = str(sample.get("unit") or ""), "could not be measured"
    for words, name in (("", "value"), ("at least ", "at_least"), ("at most ", "at_most")):
        if sample.get(name) is not None:
            observed = f"is {words}{format_exactly(sample[name], unit)}"
            break
    bounds = check.find_bounds(sample.get("minimum"), sample.get("maximum"))
    limits = format_bounds(*bounds, unit, write=format_exactly)
    demand = f", and has to be {' and '.join(limits)}" if limits else ""
    evidence = f": {sample['evidence']}" if sample.get("evidence") else ""
    return f"`{check.name}`{subject} {observed}{demand}{evidence}"


def _describe_rows(check: Check, suite: SuiteJudgement) -> str:
    of = f"of {check.rows:,} rows"
    if check.verdict is Verdict.FAILED and check.unexpected:
        known = check.name in set(Anomaly)
        meaning = f"are `{check.name}`: such a message {Anomaly(check.name).facts.meaning}" if known else "break it"
        return f"{check.unexpected:,} {of} {meaning}"
    if check.verdict is Verdict.UNKNOWN and check.undecided:
        return f"`{check.name}` is not decided for {check.undecided:,} {of}"
    return suite.why or f"`{check.name}` is {check.verdict}"


def _describe_sample(sample: Mapping[str, Any]) -> str:
    shown = {name: value for name, value in sample.items() if name != "run_id" and value not in (None, [], "")}
    return json.dumps(shown, ensure_ascii=False, default=str)


def _describe_rest(check: Check) -> Iterator[str]:
    left_out = max(check.unexpected, check.undecided) - MOST_SAMPLES
    if left_out > 0 and check.samples:
        yield f"and {left_out:,} more"


def _make_suite(name: str, cases: list[_Case], run: Run, outcome: Outcome) -> ET.Element:
    started = f"{read_trigger_time(run):%Y-%m-%dT%H:%M:%S}"
    suite = ET.Element("testsuite", name=name, timestamp=started)
    properties = ET.SubElement(suite, "properties")
    # Programs often show a suite alone, so each suite has the properties.
    for key, value in _list_properties(run, outcome).items():
        ET.SubElement(properties, "property", name=key, value=value)
    for case in cases:
        element = ET.SubElement(
            suite, "testcase", name=case.name, classname=f"{outcome.scenario}.{name}", time=f"{case.seconds:.3f}"
        )
        if case.verdict is Verdict.PASSED and not case.gap:
            continue
        expected = outcome.met and case.verdict is not Verdict.NOT_APPLICABLE and not case.gap
        message = f"{case.verdict} in a run that is as expected: {case.message}" if expected else case.message
        tag = "skipped" if outcome.met or case.gap else _TAGS[case.verdict]
        kind = case.gap.replace(" ", "_") or str(case.verdict)
        result = ET.SubElement(element, tag, type=kind, message=message)
        result.text = "\n".join([message, *case.detail])
    return suite


def _list_properties(run: Run, outcome: Outcome) -> dict[str, str]:
    return {
        "run_id": outcome.run_id,
        "scenario": outcome.scenario,
        "topology": outcome.topology,
        "system": run.topology.system,
        "system_version": run.scenario.version,
        "runtime": outcome.runtime,
        "verdict": str(outcome.verdict),
        "expected": str(outcome.expected.verdict),
        "as_expected": "yes" if outcome.met else "no",
    }


def _count_cases(root: ET.Element) -> None:
    """Set attributes of each suite and of the root: the numbers of cases, by result, and the sum of their seconds.

    The schema has no attribute `skipped` for the root.
    """
    for element in (*root, root):
        cases = list(element.iter("testcase"))
        element.set("tests", str(len(cases)))
        element.set("failures", str(sum(case.find("failure") is not None for case in cases)))
        element.set("errors", str(sum(case.find("error") is not None for case in cases)))
        if element is not root:
            element.set("skipped", str(sum(case.find("skipped") is not None for case in cases)))
        element.set("time", f"{sum(float(case.get('time', 0)) for case in cases):.3f}")


def _escape_forbidden(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")
