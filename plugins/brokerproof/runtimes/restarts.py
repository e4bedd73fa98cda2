"""What a service manager saw and did: the ends of nodes and their new starts, in a file that only grows."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path


class RestartStep(StrEnum):
    """What happened to a node."""

    # It ended, and nobody had taken it down.
    ENDED = "ended"
    # It was started again.
    RESTARTED = "restarted"


@dataclass(frozen=True, kw_only=True)
class RestartEvent:
    """One end of a node, or one new start."""

    node: str
    step: RestartStep
    # Microseconds; of an end, when it was seen.
    at: int
    # How often this has happened to the node by now.
    times: int


class RestartRecord:
    """The file of the events. One process begins and writes it; readers never see half of an event."""

    def __init__(self, file: Path) -> None:
        self._file = file

    @property
    def exists(self) -> bool:
        """Whether it was begun."""
        return self._file.exists()

    def begin(self) -> None:
        """Make the file, without an event."""
        self._file.touch()

    def add(self, event: RestartEvent) -> None:
        """Add an event. Raises OSError where it cannot be written."""
        line = (json.dumps(asdict(event)) + "\n").encode()
        descriptor = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            if os.write(descriptor, line) != len(line):
                raise OSError(f"{self._file} took half of an event")
        finally:
            os.close(descriptor)

    def read(self) -> list[RestartEvent]:
        """All events, in the order of time; none where there is no file."""
        try:
            text = self._file.read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        whole, _, _ = text.rpartition("\n")
        events = (json.loads(line) for line in whole.splitlines())
        return [RestartEvent(**{**event, "step": RestartStep(event["step"])}) for event in events]
