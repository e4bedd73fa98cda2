"""What the commands share: exit statuses and output.

Results go to stdout. Progress and errors go to stderr, so that stdout can be piped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import IntEnum
from pathlib import Path
from typing import Any

from rich.console import Console

from brokerproof.experiment.verdict import Verdict
from brokerproof.machine.files import write_whole
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


def combine_exit_statuses(statuses: Iterable[ExitStatus]) -> ExitStatus:
    """Return the status of a command that did several runs: the first one here that a run has."""
    order = (ExitStatus.INTERRUPTED, ExitStatus.NOT_EXPECTED, ExitStatus.UNKNOWN, ExitStatus.OK)
    return min(statuses, key=order.index)


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=1, default=str))


def print_progress(message: str) -> None:
    Console(stderr=True).print(message, style="dim", markup=False, highlight=False, soft_wrap=True)


def print_warning(message: str) -> None:
    text = f"warning: {message}"
    Console(stderr=True).print(text, style="yellow", markup=False, highlight=False, soft_wrap=True)


def print_error(message: str) -> None:
    Console(stderr=True).print(message, style="red", markup=False, highlight=False, soft_wrap=True)


def deliver_text(text: str, name: str, output: str | None, *, as_json: bool) -> None:
    """Print a text, or write it into the file `output`, whole or not at all, and print the file's path.

    With `as_json`, print `{"output": path or null, NAME: text}` in both cases.
    """
    if output:
        write_whole(Path(output), text)
    if as_json:
        print_json({"output": output, name: text})
    else:
        print(output or text, end="\n" if output else "")
