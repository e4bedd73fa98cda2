"""The last exception that the output of a Spark job names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

# `some.module.SomeError: a sentence`, as Python ends a traceback, and Java begins one or goes on with.
_EXCEPTION = re.compile(
    r"^(?P<wraps>Caused by: )?(?P<module>(?:[A-Za-z_]\w*\.)*)"
    r"(?P<name>[A-Z]\w*(?:Error|Exception|Interrupt)): (?P<message>.+)"
)


class LastException:
    """Remembers the last exception; `sentence` is empty where the output has named none.

    One of this project's own says what happened. What Spark names after it, while it ends the other tasks, does not.
    What Java names as the cause of an exception is said with it, wherever that is named again.
    """

    def __init__(self) -> None:
        self.sentence = ""
        self._is_ours = False
        # The innermost cause of an exception by its own words, and the exception whose causes are being named.
        self._causes: dict[str, str] = {}
        self._wrapping = ""

    def watch(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield the lines unchanged, and look for an exception in each."""
        for line in lines:
            if match := _EXCEPTION.match(line.strip()):
                self._remember(match)
            yield line

    def _remember(self, match: re.Match[str]) -> None:
        is_ours = match["module"].startswith("brokerproof")
        words = match["message"] if is_ours else f"{match['name']}: {match['message']}"
        if match["wraps"]:
            self._causes[self._wrapping] = words
        else:
            self._wrapping = words
        if is_ours or not self._is_ours:
            cause = self._causes.get(self._wrapping)
            self.sentence = f"{self._wrapping}; its cause is {cause}" if cause and not is_ours else words
            self._is_ours = is_ours
