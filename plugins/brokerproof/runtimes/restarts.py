"""The record of a service manager: each end of a node that it saw, and each restart that it made.

The record is a file that only grows.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path


class RestartStep(StrEnum):
    """The two kinds of restart events: a node ended by itself, and a node was restarted."""

    # The node ended by itself: the run did not stop or kill it.
    ENDED = "ended"
    RESTARTED = "restarted"


@dataclass(frozen=True, kw_only=True)
class RestartEvent:
    """One event: a node ended by itself, or the service manager restarted it."""

    node: str
    step: RestartStep
    # Microseconds since the epoch. For an end, the time at which it was seen.
    at: int
    # The number of such events of the node, including this one.
    times: int


class RestartRecord:
    """The file of restart events. Only one process makes and writes it. Readers never see half of an event."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def begin(self) -> None:
        """Create the file, without any event."""
        self._file.touch()

    def add(self, event: RestartEvent) -> None:
        """Add an event. Raises OSError if it cannot be written whole."""
        line = (json.dumps(asdict(event)) + "\n").encode()
        descriptor = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            if os.write(descriptor, line) != len(line):
                raise OSError(f"{self._file} took half of an event")
        finally:
            os.close(descriptor)

    def read(self) -> list[RestartEvent]:
        """Return all events, in the order of time; an empty list if there is no file."""
        try:
            text = self._file.read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        whole, _, _ = text.rpartition("\n")
        events = (json.loads(line) for line in whole.splitlines())
        return [RestartEvent(**{**event, "step": RestartStep(event["step"])}) for event in events]
