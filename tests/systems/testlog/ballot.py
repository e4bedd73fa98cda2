"""A node's facts about elections that must survive a restart: its term, its vote, and whether it may vote."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Ballot:
    """`vote` is the node that this node voted for in `term`. Only a member may vote.

    A node that starts with empty disks becomes a member when it holds all entries that were committed before. If it
    voted earlier, it could help to elect a leader that lacks acknowledged messages.
    """

    term: int = 0
    vote: str | None = None
    member: bool = False

    @classmethod
    def load(cls, file: Path) -> Ballot:
        """Return the ballot in a file, or a new ballot if the file does not exist."""
        try:
            return cls(**json.loads(file.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return cls()

    def save(self, file: Path) -> None:
        """Replace the file in one step, so that no reader sees half a file."""
        temporary = file.with_suffix(".tmp")
        temporary.write_text(json.dumps(asdict(self)), encoding="utf-8")
        temporary.replace(file)
