"""The exceptions whose messages are for users. Each message says what is wrong, where, and what to do."""

from __future__ import annotations

import re


class BrokerproofError(Exception):
    """Base of every error that Brokerproof raises on purpose."""


class InputError(BrokerproofError, ValueError):
    """A scenario, topology or option cannot be used. Nothing was started.

    `file` and `field` (a dotted path, list items by index) say where the mistake is, `remedy` says what to write
    instead. It is a ValueError, so that pydantic validators may raise it. The message shortens long words and quoted
    texts, which may be values of the user; the attributes do not.
    """

    def __init__(self, problem: str, *, file: str = "", field: str = "", remedy: str = "") -> None:
        self.problem, self.file, self.field, self.remedy = problem, file, field, remedy
        where = ": ".join(part for part in (_shorten_names(file, "/"), _shorten_names(field, ".")) if part)
        message = _shorten_words(problem) + (f" ({_shorten_words(remedy)})" if remedy else "")
        super().__init__(f"{where}: {message}" if where else message)


def shorten(text: str, longest: int = 80) -> str:
    """Return the text, cut to `longest` characters if it is longer. The last character is then an ellipsis."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _shorten_words(sentence: str) -> str:
    quotes_shortened = re.sub(r"`([^`]*)`", lambda quote: f"`{shorten(quote[1])}`", sentence)
    # The names in a path or a dotted field count as separate words.
    return re.sub(r"[^\s`/.,]+", lambda word: shorten(word[0]), quotes_shortened)


def _shorten_names(path: str, separator: str) -> str:
    return shorten(separator.join(shorten(name) for name in path.split(separator)), 500)


class NodeError(BrokerproofError):
    """A node did not start, did not become healthy, or died. The message may end with the node's last log lines."""


class MachineError(BrokerproofError):
    """This machine lacks something that is needed, such as a port, disk space, Java, or free addresses for a run."""


class AdminError(BrokerproofError):
    """The cluster refused or did not apply a change, gave no answer, or gave an unexpected answer."""


class DeadlineError(BrokerproofError):
    """A condition did not become true before its deadline."""


class RunError(BrokerproofError):
    """A run's directory is missing, damaged, or not in the state that a step needs."""
