"""The shortfalls of a run against its scenario's expectation, and the sentence that explains its outcome."""

from __future__ import annotations

from collections.abc import Sequence

from brokerproof.experiment.scenario import ExpectedOutcome
from brokerproof.experiment.verdict import Verdict
from brokerproof.run.judgement import Judgement


def list_shortfalls(
    expect: ExpectedOutcome, verdict: Verdict, judgement: Judgement | None, doubts: Sequence[str]
) -> list[str]:
    """Return a phrase for each difference from the expected outcome; empty if the run meets it."""
    if verdict is not expect.verdict:
        shortfalls = [f"{verdict} instead of {expect.verdict}"]
    # A control must not pass because its run broke down. It may pass if the judgement itself is `unknown`.
    elif doubts and not (verdict is Verdict.UNKNOWN and judgement and judgement.worst is Verdict.UNKNOWN):
        shortfalls = [f"{verdict} as expected, but the run does not prove it"]
    else:
        shortfalls = []
    for anomaly, minimum in expect.at_least.items():
        count = judgement.counts.count_anomaly(anomaly) if judgement else 0
        if count < minimum:
            shortfalls.append(f"{anomaly} was found {count:,} times, expected at least {minimum:,}")
    for suite in expect.failed_suites:
        result = judgement.suites[suite].worst if judgement and suite in judgement.suites else "not judged"
        if result != Verdict.FAILED:
            shortfalls.append(f"suite {suite} had to fail and is {result}")
    return shortfalls


def explain_outcome(
    expect: ExpectedOutcome,
    verdict: Verdict,
    judgement: Judgement | None,
    shortfalls: Sequence[str],
    doubts: Sequence[str],
) -> str:
    """Return one line: whether the outcome is the expected one, and the reasons for the verdict."""
    parts = list(shortfalls)
    if not shortfalls:
        parts.append(f"{verdict}, as expected")
        if judgement:
            parts += [
                f"{anomaly} was found {judgement.counts.count_anomaly(anomaly):,} times" for anomaly in expect.at_least
            ]
        parts += [f"suite {suite} failed" for suite in expect.failed_suites]
    elif judgement and verdict is Verdict.FAILED and expect.verdict is Verdict.PASSED:
        held = (Verdict.PASSED, Verdict.NOT_APPLICABLE)
        parts += [f"suite {name} {suite.worst}" for name, suite in judgement.suites.items() if suite.worst not in held]
    parts += doubts
    if judgement and judgement.why:
        parts.append(judgement.why)
    return "; ".join(" ".join(part.split()).rstrip(".;") for part in parts) + "."
