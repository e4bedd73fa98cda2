"""The lines of a node's log that show why the node failed."""

from __future__ import annotations

import re

_ERROR = re.compile(r" (ERROR|FATAL) |^Caused by: |^\S*(Exception|Error)\b")


def pick_last_lines(text: str, lines: int) -> str:
    """Return the last `lines` lines, after the last errors of earlier lines, at most about a third of `lines`.

    A program may print the reason of its end first, and then a page about its usage.
    """
    all_lines = text.splitlines()
    errors = [line for line in all_lines[:-lines] if _ERROR.search(line)]
    return "\n".join([*errors[-lines // 3 :], *all_lines[-lines:]])
