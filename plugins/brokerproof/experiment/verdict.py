"""The four verdicts and how they merge."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Verdict(StrEnum):
    """What the evidence says."""

    PASSED = "passed"
    NO_DATA = "no_data"
    UNKNOWN = "unknown"
    FAILED = "failed"

    @property
    def severity(self) -> int:
        """0 for `passed` up to 3 for `failed`."""
        return list(Verdict).index(self)


# The verdicts for which the evidence is enough.
DECISIVE = (Verdict.PASSED, Verdict.FAILED)


def merge(verdicts: Iterable[Verdict]) -> Verdict:
    """The most severe of them: failed > unknown > no_data > passed. Of none, `no_data`."""
    return max(verdicts, key=lambda verdict: verdict.severity, default=Verdict.NO_DATA)
