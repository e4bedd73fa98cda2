"""Finds the exception that explains why a Spark job failed, in the output of the job."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

# `some.module.SomeError: a sentence` is the last line of a traceback in Python. In Java it is the first one or a cause.
_EXCEPTION = re.compile(
    r"^(?P<wraps>Caused by: )?(?P<module>(?:[A-Za-z_]\w*\.)*)"
    r"(?P<name>[A-Z]\w*(?:Error|Exception|Interrupt)): (?P<message>.+)"
)


class LastException:
    """Keeps a sentence about the last exception in the output in `sentence`; empty if the output contains none.

    An exception of this project is kept even if exceptions of Spark follow, because Spark raises those while it ends
    the other tasks. If Java printed the cause of an exception once, `sentence` includes the cause.
    """

    def __init__(self) -> None:
        self.sentence = ""
        self._is_ours = False
        # {words of an exception: words of its innermost cause}, and the exception whose causes are being printed.
        self._causes: dict[str, str] = {}
        self._wrapping = ""

    def watch(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield the lines unchanged, and update `sentence` if a line contains an exception."""
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
