"""A run's outcome: what it came to, whether that is what the scenario expects, and why, as one JSON object.

It rests on what the steps left under `state/`: `judgement.json` of `verify`, `problem-<step>.json` of any step that
could not do its work, `seconds-<step>.json` with the times of each. Whatever is missing, damaged or contradicts itself
makes the verdict `unknown` at least, with the reason; nothing here can turn into a yes by being absent.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from brokerproof.errors import RunError
from brokerproof.experiment.guarantees import Anomaly, Suite
from brokerproof.experiment.scenario import ExpectedOutcome
from brokerproof.experiment.verdict import DECISIVE, Verdict, merge_verdicts
from brokerproof.results.durations import compute_durations
from brokerproof.results.publish_latencies import collect_link_latencies, collect_publish_latencies
from brokerproof.run.directory import Run
from brokerproof.run.records import Kind, StepProblem, read_record, record_keys


def _measured(value: Any) -> Any:
    """NaN and infinity, which JSON does not have, become what they mean: not measured."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


Measured = Annotated[float | None, BeforeValidator(_measured)]
Count = Annotated[int, Field(ge=0)]


class _Judged(BaseModel):
    """Base of what `verify` leaves; it may say more than is read here, never less."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Check(_Judged):
    """One expectation of a suite; `unexpected` counts the rows that broke it, `samples` shows some."""

    name: str
    description: str = ""
    verdict: Verdict
    unexpected: int | None = None
    samples: list[Any] = []


class SuiteJudgement(_Judged):
    """A suite's verdict, and how many of its written expectations were evaluated."""

    verdict: Verdict
    why: str = ""
    evaluated: Count
    written: Count
    expectations: list[Check] = []

    @property
    def worst(self) -> Verdict:
        """The suite's verdict, or that of one of its expectations where it is worse."""
        return merge_verdicts([self.verdict, *(check.verdict for check in self.expectations)])


class Counts(_Judged):
    """Messages counted, and anomalies by kind, legal and illegal apart."""

    publishes: Count
    messages: Count
    acked: Count
    failed: Count
    unknown: Count
    recovered: Count
    stored: Count
    deliveries: Count
    legal: dict[Anomaly, Count] = {}
    illegal: dict[Anomaly, Count] = {}

    def of(self, anomaly: Anomaly) -> int:
        """How many there were, legal or not."""
        return self.legal.get(anomaly, 0) + self.illegal.get(anomaly, 0)


class Measurement(_Judged):
    """A row of the table `measurements`; `value` is None where it could not be measured."""

    run_id: str | None = None
    suite: Suite
    metric: str
    subject: str | None = None
    value: Measured = None
    unit: str
    minimum: Measured = None
    maximum: Measured = None
    evidence: str = ""


class Judgement(_Judged):
    """The content of state/judgement.json."""

    verdict: Verdict
    why: str
    suites: dict[Suite, SuiteJudgement]
    counts: Counts
    recovery: dict[str, dict[str, Measured]] = {}
    measurements: list[Measurement] = []
    seconds: dict[str, Any] = {}

    @property
    def worst(self) -> Verdict:
        """The verdict, or that of one of its suites where it is worse."""
        return merge_verdicts([self.verdict, *(suite.worst for suite in self.suites.values())])


def read_judgement(run: Run) -> Judgement:
    """What `verify` left. Raises RunError where that is nothing, damaged, another run's, or only why it could not."""
    try:
        content = run.state("judgement")
    except (OSError, ValueError) as error:
        raise RunError(f"the judgement cannot be read: {error}") from None
    if content is None:
        raise RunError("nothing was judged: `verify` left no judgement")
    if isinstance(content, dict) and "error" in content:
        raise RunError(str(content.get("why") or content["error"]))
    try:
        judgement = Judgement.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise RunError(
            f"the judgement is damaged: {field or 'it'}: {first['msg'][0].lower()}{first['msg'][1:]}"
        ) from None
    others = {row.run_id for row in judgement.measurements} - {None, run.run_id}
    if others:
        raise RunError(f"the judgement is of another run: {', '.join(sorted(map(str, others)))}")
    return judgement


def outcome(run: Run) -> dict[str, Any]:
    """The run's one JSON object: run_id, scenario, topology, runtime, verdict, expected, met, why, suites, counts,
    recovery, latency, link, seconds, run_dir, report.

    `counts` has every anomaly under `legal` and under `illegal`; without a judgement its numbers are None, for nothing
    was counted. Times are seconds. Raises RunError where run.json is missing or damaged, InputError where the scenario
    in it cannot be used.
    """
    scenario = run.scenario
    judgement: Judgement | None = None
    doubts = _problems(run)
    try:
        judgement = read_judgement(run)
    except RunError as error:
        doubts.append(str(error))
    else:
        doubts += _contradictions(judgement)
    verdict = judgement.worst if judgement else Verdict.UNKNOWN
    if doubts:
        verdict = merge_verdicts([verdict, Verdict.UNKNOWN])
    shortfalls = _shortfalls(scenario.expect, verdict, judgement, doubts)
    return {
        "run_id": run.run_id,
        "scenario": scenario.name,
        "topology": scenario.topology,
        "runtime": scenario.runtime,
        "verdict": str(verdict),
        "expected": scenario.expect.model_dump(mode="json"),
        "met": not shortfalls,
        "why": _why(scenario.expect, verdict, judgement, shortfalls, doubts),
        "suites": {str(name): str(suite.worst) for name, suite in judgement.suites.items()} if judgement else {},
        "counts": _counts(judgement),
        "recovery": dict(judgement.recovery) if judgement else {},
        "latency": collect_publish_latencies(scenario, judgement.measurements) if judgement else {},
        "link": collect_link_latencies(scenario, judgement.measurements) if judgement else {},
        "seconds": compute_durations(run, judgement.seconds if judgement else {}),
        "run_dir": run.directory,
        "report": _report(run),
    }


def _contradictions(judgement: Judgement) -> list[str]:
    """Reasons, in the judgement itself, not to take it for proof."""
    reasons = [f"suite {suite} was not judged" for suite in Suite if suite not in judgement.suites]
    reasons += [
        f"suite {name} {suite.worst} with {suite.evaluated} of its {suite.written} expectations evaluated"
        for name, suite in judgement.suites.items()
        # A suite without data, or unknown, claims nothing that has to rest on all of them.
        if suite.evaluated != suite.written and suite.worst in DECISIVE
    ]
    if judgement.worst is Verdict.PASSED:
        reasons += [
            f"the judgement says passed and counts {count:,} illegal {anomaly}"
            for anomaly, count in judgement.counts.illegal.items()
            if count
        ]
        if unproven := judgement.counts.legal.get(Anomaly.UNPROVEN, 0):
            reasons.append(f"the judgement says passed and counts {unproven:,} unproven")
    return reasons


def _shortfalls(expect: ExpectedOutcome, verdict: Verdict, judgement: Judgement | None, doubts: list[str]) -> list[str]:
    """What keeps the run from being what the scenario expects; empty where it is met."""
    if verdict is not expect.verdict:
        shortfalls = [f"{verdict} instead of {expect.verdict}"]
    # A run that broke down is not what a control meant to show, whether it expects `failed` or `unknown`.
    elif doubts and not (verdict is Verdict.UNKNOWN and judgement and judgement.worst is Verdict.UNKNOWN):
        shortfalls = [f"{verdict} as expected, but the run does not prove it"]
    else:
        shortfalls = []
    for anomaly, minimum in expect.at_least.items():
        found = judgement.counts.of(anomaly) if judgement else 0
        if found < minimum:
            shortfalls.append(f"{anomaly} was found {found:,} times, expected at least {minimum:,}")
    for suite in expect.failed_suites:
        came_to = judgement.suites[suite].worst if judgement and suite in judgement.suites else "not judged"
        if came_to != Verdict.FAILED:
            shortfalls.append(f"suite {suite} had to fail and is {came_to}")
    return shortfalls


def _why(
    expect: ExpectedOutcome, verdict: Verdict, judgement: Judgement | None, shortfalls: list[str], doubts: list[str]
) -> str:
    """One sentence: expected or not, and what it rests on."""
    parts = list(shortfalls)
    if not shortfalls:
        parts.append(f"{verdict}, as expected")
        if judgement:
            parts += [f"{anomaly} was found {judgement.counts.of(anomaly):,} times" for anomaly in expect.at_least]
        parts += [f"suite {suite} failed" for suite in expect.failed_suites]
    elif judgement and expect.verdict is Verdict.PASSED:
        parts += [f"suite {name} {suite.worst}" for name, suite in judgement.suites.items() if suite.worst != "passed"]
    parts += doubts
    if judgement and judgement.why:
        parts.append(judgement.why)
    return "; ".join(" ".join(part.split()).rstrip(".;") for part in parts) + "."


def _counts(judgement: Judgement | None) -> dict[str, Any]:
    if judgement is None:
        plain: dict[str, Any] = {name: None for name in Counts.model_fields if name not in ("legal", "illegal")}
        nothing = {str(anomaly): None for anomaly in Anomaly}
        return {**plain, "legal": nothing, "illegal": dict(nothing)}
    counts = judgement.counts
    return {
        **counts.model_dump(exclude={"legal", "illegal"}),
        "legal": {str(anomaly): counts.legal.get(anomaly, 0) for anomaly in Anomaly},
        "illegal": {str(anomaly): counts.illegal.get(anomaly, 0) for anomaly in Anomaly},
    }


def _problems(run: Run) -> list[str]:
    """What steps could not do, in their own words."""
    problems = []
    for step in record_keys(run, StepProblem):
        record = _read_or_none(run, StepProblem, step)
        problems.append(f"step {step} failed: {record.problem if record else 'its record cannot be read'}")
    return problems


def _read_or_none(run: Run, kind: type[Kind], key: str) -> Kind | None:
    """A record, None where it cannot be read."""
    try:
        return read_record(run, kind, key)
    except (RunError, OSError):
        return None


def _report(run: Run) -> str:
    """Where a person looks: the address that the run was given, else the page in its directory."""
    return str(run.facts.get("report") or run.path("report"))
