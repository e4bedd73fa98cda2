"""The files and commands of a tutorial page, in their order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# The page names a file in the sentence before its content.
_FILE = re.compile(r"`([\w/]+\.\w+)`[^`]*:\s*\Z")
# Stands for any text, also for none.
_ANYTHING = "…"


@dataclass(frozen=True, kw_only=True)
class WrittenFile:
    """A file that the page asks the reader to write."""

    path: str
    content: str


@dataclass(frozen=True, kw_only=True)
class TypedCommand:
    """A command that the page asks the reader to type, and the output that it shows."""

    command: str
    output: str

    def shows(self, output: str) -> bool:
        """Whether the page's output describes this one."""
        pattern = re.escape(self.output.strip()).replace(re.escape(_ANYTHING), ".*")
        return re.fullmatch(pattern, output.strip(), re.DOTALL) is not None


def read_tutorial(page: Path) -> Iterator[WrittenFile | TypedCommand]:
    """Yield what a reader of the page writes and types."""
    text = page.read_text(encoding="utf-8")
    for block in _BLOCK.finditer(text):
        if block[1] == "console":
            for each in re.split(r"^\$ ", block[2], flags=re.MULTILINE)[1:]:
                command, _, output = each.partition("\n")
                yield TypedCommand(command=command, output=output)
        else:
            named = _FILE.search(text[: block.start()])
            assert named is not None, f"{page.name} names no file before: {block[2][:60]}"
            yield WrittenFile(path=named[1], content=block[2])
