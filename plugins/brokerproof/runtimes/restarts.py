"""The record of a service manager: each end of a node that it saw, and each restart that it made.

The record is a file that only grows.
"""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path

from brokerproof.bounded_reading import MOST_JSON_BYTES, ContentError, read_text
from brokerproof.errors import RunError
from brokerproof.run.strict_model import StrictModel, load_object, parse_strictly


class RestartStep(StrEnum):
    """The two kinds of restart events: a node ended by itself, and a node was restarted."""

    # The node ended by itself: the run did not stop or kill it.
    ENDED = "ended"
    RESTARTED = "restarted"


class RestartEvent(StrictModel):
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
        line = (event.model_dump_json() + "\n").encode()
        descriptor = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            if os.write(descriptor, line) != len(line):
                raise OSError(f"{self._file} took half of an event")
        finally:
            os.close(descriptor)

    def read(self) -> list[RestartEvent]:
        """Return all events, in the order of time; an empty list if there is no file. Raises RunError if damaged."""
        file = str(self._file)
        try:
            text = read_text(self._file, MOST_JSON_BYTES)
        except FileNotFoundError:
            return []
        except ContentError as error:
            raise RunError(f"{file} is damaged: {error}") from None
        whole, _, _ = text.rpartition("\n")
        return [parse_strictly(RestartEvent, load_object(line, file=file), file=file) for line in whole.splitlines()]
