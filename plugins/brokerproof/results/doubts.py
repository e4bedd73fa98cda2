"""The contradictions in a judgement. Each is a reason why the judgement does not prove its verdict."""

from __future__ import annotations

from brokerproof.experiment.guarantees import Anomaly, Suite
from brokerproof.experiment.verdict import DECISIVE, Verdict
from brokerproof.run.judgement import Judgement


def list_contradictions(judgement: Judgement) -> list[str]:
    """Return the reasons, as phrases, why the judgement does not prove its verdict."""
    reasons = [f"suite {suite} was not judged" for suite in Suite if suite not in judgement.suites]
    reasons += [
        f"suite {name} {suite.worst} with {suite.evaluated} of its {suite.written} expectations evaluated"
        for name, suite in judgement.suites.items()
        # Only `passed` and `failed` must rest on all expectations of the suite.
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
