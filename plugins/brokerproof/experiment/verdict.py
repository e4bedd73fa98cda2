"""The verdicts, and the merged verdict of several."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Verdict(StrEnum):
    """What the evidence proves about a run, a suite or an expectation."""

    # Of a suite or an expectation that the messaging system cannot be asked, never of a run.
    NOT_APPLICABLE = "not_applicable"
    PASSED = "passed"
    NO_DATA = "no_data"
    UNKNOWN = "unknown"
    FAILED = "failed"

    @property
    def severity(self) -> int:
        """From 0 for `not_applicable` and 1 for `passed` up to 4 for `failed`."""
        return list(Verdict).index(self)


# What a run can come to.
RUN_VERDICTS = (Verdict.PASSED, Verdict.NO_DATA, Verdict.UNKNOWN, Verdict.FAILED)
# The verdicts that need complete evidence.
DECISIVE = (Verdict.PASSED, Verdict.FAILED)


def merge_verdicts(verdicts: Iterable[Verdict]) -> Verdict:
    """The most severe verdict: failed > unknown > no_data > passed > not_applicable. Of none it is `no_data`."""
    return max(verdicts, key=lambda verdict: verdict.severity, default=Verdict.NO_DATA)
