"""The last exception that the output of a Spark job names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

# `some.module.SomeError: a sentence`, as Python ends a traceback.
_EXCEPTION = re.compile(
    r"^(?P<module>(?:[A-Za-z_]\w*\.)*)(?P<name>[A-Z]\w*(?:Error|Exception|Interrupt)): (?P<message>.+)"
)


class LastException:
    """Remembers the last exception; `sentence` is empty where the output has named none."""

    def __init__(self) -> None:
        self.sentence = ""

    def watch(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield the lines unchanged, and look for an exception in each."""
        for line in lines:
            if match := _EXCEPTION.match(line.strip()):
                ours = match["module"].startswith("brokerproof")
                self.sentence = match["message"] if ours else f"{match['name']}: {match['message']}"
            yield line
