"""The verdict on a run, from its counts, its suites and what its evidence lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from brokerproof.experiment.verdict import Verdict, merge_verdicts


def conclude(
    counts: Mapping[str, Any], problems: Sequence[str], suites: Mapping[str, Mapping[str, Any]]
) -> tuple[Verdict, str]:
    """The verdict on the whole run, and why, in one sentence."""
    if not counts["publishes"]:
        return Verdict.NO_DATA, "Nobody published anything."
    verdicts = {name: Verdict(suite["verdict"]) for name, suite in suites.items()}
    verdict = merge_verdicts([*verdicts.values(), *([Verdict.UNKNOWN] if problems else [])])
    if verdict is Verdict.PASSED:
        total = f"{counts['messages']} messages, {counts['acked']} of them acknowledged"
        return verdict, f"All that was promised held for {total}."
    reasons = [f"{name}: {suites[name]['why']}" for name in verdicts if verdicts[name] is verdict]
    if verdict is Verdict.UNKNOWN:
        reasons += problems
    if not reasons:
        return verdict, "No suite said anything."
    return verdict, "; ".join(reason.rstrip(".") for reason in reasons) + "."
