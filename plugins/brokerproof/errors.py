"""The exceptions that a person is meant to read; each message says what is wrong, where, and what to do."""

from __future__ import annotations

import re


class BrokerproofError(Exception):
    """Base of every error that Brokerproof raises on purpose."""


class InputError(BrokerproofError, ValueError):
    """A scenario, topology or option cannot be used. Nothing was started.

    `file` and `field` say where (field as a dotted path, list items by index), `remedy` what to write instead. It is a
    ValueError so that pydantic takes it for a validator's finding. The attributes are whole; in the message every word
    and every text in backticks is shortened, because a user's value may be there.
    """

    def __init__(self, problem: str, *, file: str = "", field: str = "", remedy: str = "") -> None:
        self.problem, self.file, self.field, self.remedy = problem, file, field, remedy
        where = ": ".join(part for part in (_shorten_names(file, "/"), _shorten_names(field, ".")) if part)
        message = _shorten_words(problem) + (f" ({_shorten_words(remedy)})" if remedy else "")
        super().__init__(f"{where}: {message}" if where else message)


def shorten(text: str, longest: int = 80) -> str:
    """The text, or its beginning and an ellipsis where it is too long to be repeated to the user."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _shorten_words(sentence: str) -> str:
    quotes_shortened = re.sub(r"`([^`]*)`", lambda quote: f"`{shorten(quote[1])}`", sentence)
    # Each name of a path or of a field is a word.
    return re.sub(r"[^\s`/.,]+", lambda word: shorten(word[0]), quotes_shortened)


def _shorten_names(path: str, separator: str) -> str:
    return shorten(separator.join(shorten(name) for name in path.split(separator)), 500)


class NodeError(BrokerproofError):
    """A node did not start, did not become healthy, or died; the message ends with its last log lines."""


class MachineError(BrokerproofError):
    """This machine lacks something: a port, an address, disk space, Java, the distribution."""


class AdminError(BrokerproofError):
    """The cluster refused something, did not take it, or answered nothing or something else than expected."""


class DeadlineError(BrokerproofError):
    """A condition did not come true in time."""


class RunError(BrokerproofError):
    """A run's directory is missing, damaged, or not in the state that a step needs."""
