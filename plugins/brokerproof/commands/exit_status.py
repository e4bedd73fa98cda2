"""The exit statuses of the command line."""

from __future__ import annotations

from enum import IntEnum

from brokerproof.experiment.verdict import Verdict
from brokerproof.run.outcome import BriefOutcome


class ExitStatus(IntEnum):
    """The exit status of a command. A command without a verdict ends with `OK`, or with `UNKNOWN` if it failed."""

    OK = 0
    NOT_EXPECTED = 1
    UNKNOWN = 2
    UNUSABLE_INPUT = 3
    # Shells report this status for a process that SIGINT ended.
    INTERRUPTED = 130


def derive_exit_status(outcome: BriefOutcome) -> ExitStatus:
    """Return `OK` for the expected outcome, else `UNKNOWN` for `unknown` or `no_data`, else `NOT_EXPECTED`."""
    if outcome.met:
        return ExitStatus.OK
    undecided = outcome.verdict in (Verdict.UNKNOWN, Verdict.NO_DATA)
    return ExitStatus.UNKNOWN if undecided else ExitStatus.NOT_EXPECTED
