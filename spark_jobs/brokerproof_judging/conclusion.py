"""The verdict on a run, from its counts, its suites and the gaps in its evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from brokerproof.experiment.guarantees import Suite
from brokerproof.experiment.verdict import Verdict, merge_verdicts
from brokerproof.run.counts import Counts
from brokerproof.run.judgement import SuiteJudgement


def conclude(counts: Counts, problems: Sequence[str], suites: Mapping[Suite, SuiteJudgement]) -> tuple[Verdict, str]:
    """The verdict on the whole run, and why, in one sentence."""
    if not counts.publishes:
        return Verdict.NO_DATA, "Nobody published anything."
    verdicts = [suite.verdict for suite in suites.values()]
    verdict = merge_verdicts([*verdicts, *([Verdict.UNKNOWN] if problems else [])])
    if verdict is Verdict.PASSED:
        total = f"{counts.messages} messages, {counts.acked} of them acknowledged"
        return verdict, f"All that was promised held for {total}."
    reasons = [f"{name}: {suite.why}" for name, suite in suites.items() if suite.verdict is verdict]
    if verdict is Verdict.UNKNOWN:
        reasons += problems
    if not reasons:
        return verdict, "No suite gave a reason."
    return verdict, "; ".join(reason.rstrip(".") for reason in reasons) + "."
