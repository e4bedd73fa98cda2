"""Concludes the verdict on a run from its counts, its suites and the gaps in its evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from brokerproof.experiment.verdict import Verdict, merge_verdicts
from brokerproof.run.counts import Counts
from brokerproof.run.judgement import SuiteJudgement

from brokerproof_judging.instrument import WHOLE, Instrument


def conclude(
    counts: Counts, problems: Sequence[str], suites: Mapping[str, SuiteJudgement], instrument: Instrument = WHOLE
) -> tuple[Verdict, str]:
    """Return the verdict on the whole run, and a sentence with the reason.

    `problems` are sentences about missing evidence, and about errors of Brokerproof itself (the instrument). If no
    message was published and the instrument had no error, the verdict is `no_data`.
    """
    if not counts.publishes and instrument.is_whole:
        return Verdict.NO_DATA, "No message was published."
    verdicts = [suite.verdict for suite in suites.values()]
    verdict = merge_verdicts([*verdicts, *([Verdict.UNKNOWN] if problems or not instrument.is_whole else [])])
    if verdict is Verdict.PASSED:
        total = f"{counts.messages} messages, {counts.acked} of them acknowledged"
        return verdict, f"All that was promised held for {total}."
    reasons = [f"{name}: {suite.why}" for name, suite in suites.items() if suite.verdict is verdict]
    if verdict is Verdict.UNKNOWN:
        # If the instrument is broken, its problems are the reason. The judgement lists the gaps that they caused.
        reasons = [*problems, *reasons] if instrument.is_whole else list(instrument.problems or problems) or reasons
        reasons.append(f"what is proven nevertheless: {_describe_proven(counts, suites, instrument)}")
    elif verdict is Verdict.FAILED and problems:
        reasons.append(f"also not known: {'; '.join(_strip(problem) for problem in problems)}")
    if not reasons:
        return verdict, "No suite gave a reason."
    return verdict, "; ".join(_strip(reason) for reason in reasons) + "."


def _describe_proven(counts: Counts, suites: Mapping[str, SuiteJudgement], instrument: Instrument) -> str:
    if not instrument.publishes_are_whole or not counts.acked:
        return "nothing"
    held = [str(name) for name, suite in suites.items() if suite.verdict is Verdict.PASSED]
    acked = f"{counts.acked:,} messages were acknowledged"
    return f"{acked}, and {' and '.join(held)} held" if held else acked


def _strip(sentence: str) -> str:
    return sentence.rstrip(".")
