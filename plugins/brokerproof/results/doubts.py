"""The doubts about a judgement: the reasons, in itself, why it is not enough for a verdict."""

from __future__ import annotations

from brokerproof.experiment.guarantees import Anomaly, Suite
from brokerproof.experiment.verdict import DECISIVE, Verdict
from brokerproof.run.judgement import Judgement


def list_contradictions(judgement: Judgement) -> list[str]:
    """The reasons, in the judgement itself, why it is no proof."""
    reasons = [f"suite {suite} was not judged" for suite in Suite if suite not in judgement.suites]
    reasons += [
        f"suite {name} {suite.worst} with {suite.evaluated} of its {suite.written} expectations evaluated"
        for name, suite in judgement.suites.items()
        # A suite that is unknown or has no data claims nothing, so it does not have to rest on all its expectations.
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
