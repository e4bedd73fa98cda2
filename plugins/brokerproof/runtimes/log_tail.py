"""The end of a node's log, as far as it says why the node is in trouble."""

from __future__ import annotations

import re

_ERROR = re.compile(r" (ERROR|FATAL) |^Caused by: |^\S*(Exception|Error)\b")


def pick_last_lines(text: str, lines: int) -> str:
    """The last lines, after the last errors that stand before them.

    A node may end with a page of usage, and the reason above it.
    """
    all_lines = text.splitlines()
    errors = [line for line in all_lines[:-lines] if _ERROR.search(line)]
    return "\n".join([*errors[-lines // 3 :], *all_lines[-lines:]])
