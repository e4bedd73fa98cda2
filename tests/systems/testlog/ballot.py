"""What a node must not forget about elections: its term, its vote, and whether it may vote at all."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Ballot:
    """`vote` is the node that this one voted for in `term`.

    A node is a member, and may vote, from when it holds everything that was committed before it started with empty
    disks: without its old log it would help to elect a leader that lacks acknowledged messages.
    """

    term: int = 0
    vote: str | None = None
    member: bool = False

    @classmethod
    def load(cls, file: Path) -> Ballot:
        """The ballot of a file, and a new one where there is no file."""
        try:
            return cls(**json.loads(file.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return cls()

    def save(self, file: Path) -> None:
        """Write the file whole."""
        temporary = file.with_suffix(".tmp")
        temporary.write_text(json.dumps(asdict(self)), encoding="utf-8")
        temporary.replace(file)
