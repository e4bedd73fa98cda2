"""A run's outcome: what it came to, whether that is what the scenario expects, and why, as one JSON object.

It rests on what the steps left under `state/`: `judgement.json` of `verify`, `problem-<step>.json` of any step that
could not do its work, `seconds-<step>.json` with the times of each. Whatever is missing, damaged or contradicts itself
makes the verdict `unknown` at least, with the reason; nothing here can turn into a yes by being absent.
"""

from __future__ import annotations

from typing import Any

from brokerproof.errors import RunError
from brokerproof.experiment.guarantees import Anomaly, Suite
from brokerproof.experiment.scenario import ExpectedOutcome
from brokerproof.experiment.verdict import DECISIVE, Verdict, merge_verdicts
from brokerproof.results.durations import compute_durations
from brokerproof.results.publish_latencies import collect_link_latencies, collect_publish_latencies
from brokerproof.run.counts import TOTALS
from brokerproof.run.directory import Run
from brokerproof.run.judgement import Judgement, read_judgement
from brokerproof.run.outcome import Outcome
from brokerproof.run.records import Kind, StepProblem, read_record, record_keys


def outcome(run: Run) -> dict[str, Any]:
    """The outcome as the one JSON object that the command line prints. Raises as `conclude_run` does."""
    return conclude_run(run).model_dump(mode="json")


def conclude_run(run: Run) -> Outcome:
    """What the run came to. Raises RunError where run.json is missing or damaged, InputError where the scenario in it
    cannot be used.
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
    return Outcome(
        run_id=run.run_id,
        scenario=scenario.name,
        topology=scenario.topology,
        runtime=scenario.runtime,
        verdict=verdict,
        expected=scenario.expect,
        met=not shortfalls,
        why=_why(scenario.expect, verdict, judgement, shortfalls, doubts),
        suites={name: suite.worst for name, suite in judgement.suites.items()} if judgement else {},
        counts=_counts(judgement),
        recovery=dict(judgement.recovery) if judgement else {},
        latency=collect_publish_latencies(scenario, judgement.measurements) if judgement else {},
        link=collect_link_latencies(scenario, judgement.measurements) if judgement else {},
        seconds=compute_durations(run, judgement.seconds if judgement else {}),
        run_dir=run.directory,
        # Where a person looks: the address that the run was given, else the page in its directory.
        report=run.facts.report or run.path("report"),
    )


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
        nothing = {str(anomaly): None for anomaly in Anomaly}
        return {**dict.fromkeys(TOTALS), "legal": nothing, "illegal": dict(nothing)}
    counts = judgement.counts
    return {
        **counts.model_dump(include=set(TOTALS)),
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
