"""The last exception that the output of a Spark job names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

# `some.module.SomeError: a sentence`, as Python ends a traceback.
_EXCEPTION = re.compile(
    r"^(?P<module>(?:[A-Za-z_]\w*\.)*)(?P<name>[A-Z]\w*(?:Error|Exception|Interrupt)): (?P<message>.+)"
)


class LastException:
    """Remembers the last exception; `sentence` is empty where the output has named none.

    One of this project's own says what happened. What Spark names after it, while it ends the other tasks, does not.
    """

    def __init__(self) -> None:
        self.sentence = ""
        self._is_ours = False

    def watch(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield the lines unchanged, and look for an exception in each."""
        for line in lines:
            if match := _EXCEPTION.match(line.strip()):
                is_ours = match["module"].startswith("brokerproof")
                if is_ours or not self._is_ours:
                    self.sentence = match["message"] if is_ours else f"{match['name']}: {match['message']}"
                    self._is_ours = is_ours
            yield line
