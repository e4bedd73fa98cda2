"""The verdicts, their order, and how several verdicts are merged into one."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Verdict(StrEnum):
    """The verdicts on a run, a suite or an expectation, from the least to the most severe."""

    # Only for a suite or an expectation that needs an ability which the system lacks, never for a run.
    NOT_APPLICABLE = "not_applicable"
    PASSED = "passed"
    NO_DATA = "no_data"
    UNKNOWN = "unknown"
    FAILED = "failed"

    @property
    def severity(self) -> int:
        """The verdict's rank by severity, from 0 for `not_applicable` to 4 for `failed`."""
        return list(Verdict).index(self)


# The verdicts that a run can have.
RUN_VERDICTS = (Verdict.PASSED, Verdict.NO_DATA, Verdict.UNKNOWN, Verdict.FAILED)
# The verdicts that need complete evidence.
DECISIVE = (Verdict.PASSED, Verdict.FAILED)


def merge_verdicts(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the most severe verdict: failed > unknown > no_data > passed > not_applicable.

    Return `no_data` if there are no verdicts.
    """
    return max(verdicts, key=lambda verdict: verdict.severity, default=Verdict.NO_DATA)
