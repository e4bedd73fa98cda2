"""The four verdicts, and the merged verdict of several."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Verdict(StrEnum):
    """What the evidence proves about a run, a suite or an expectation."""

    PASSED = "passed"
    NO_DATA = "no_data"
    UNKNOWN = "unknown"
    FAILED = "failed"

    @property
    def severity(self) -> int:
        """0 for `passed` up to 3 for `failed`."""
        return list(Verdict).index(self)


# The verdicts that need complete evidence.
DECISIVE = (Verdict.PASSED, Verdict.FAILED)


def merge_verdicts(verdicts: Iterable[Verdict]) -> Verdict:
    """The most severe verdict: failed > unknown > no_data > passed. Without any verdict it is `no_data`."""
    return max(verdicts, key=lambda verdict: verdict.severity, default=Verdict.NO_DATA)
