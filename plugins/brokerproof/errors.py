"""The exceptions whose messages are for users. Each message says what is wrong, where, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass


class BrokerproofError(Exception):
    """Base of every error that Brokerproof raises on purpose."""


# A file may repeat a mistake thousands of times.
_MOST_MISTAKES = 100


class InputError(BrokerproofError, ValueError):
    """A scenario, topology or option cannot be used. Nothing was started.

    `file` and `field` (a dotted path, list items by index) say where the mistake is, `remedy` says what to write
    instead. Several mistakes are one `MistakesError`. It is a ValueError, so that pydantic validators may raise it. The
    message shortens long words and quoted texts, which may be values of the user; the attributes do not.
    """

    def __init__(self, problem: str, *, file: str = "", field: str = "", remedy: str = "") -> None:
        self.problem, self.file, self.field, self.remedy = problem, file, field, remedy
        where = ": ".join(part for part in (_shorten_names(file, "/"), _shorten_names(field, ".")) if part)
        message = _shorten_words(problem) + (f" ({_shorten_words(remedy)})" if remedy else "")
        super().__init__(f"{where}: {message}" if where else message)

    @property
    def mistakes(self) -> tuple[InputError, ...]:
        """The mistakes that the error reports, each as an error of its own."""
        return (self,)

    def locate(self, *, file: str = "", below: str = "") -> InputError:
        """Return the same error with its fields below the dotted path `below`, in `file` if the error names no file."""
        field = ".".join(filter(None, (below, self.field)))
        return InputError(self.problem, file=self.file or file, field=field, remedy=self.remedy)


class MistakesError(InputError):
    """Several mistakes. The message has a line for each; `problem`, `file`, `field` and `remedy` are of the first."""

    def __init__(self, mistakes: Iterable[InputError]) -> None:
        self._mistakes = tuple(mistakes)
        first = self._mistakes[0]
        super().__init__(first.problem, file=first.file, field=first.field, remedy=first.remedy)
        # An exception is pickled with its `args`.
        self.args = (self._mistakes,)

    def __str__(self) -> str:
        return "\n".join(map(str, self._mistakes))

    @property
    def mistakes(self) -> tuple[InputError, ...]:
        return self._mistakes

    def locate(self, *, file: str = "", below: str = "") -> MistakesError:
        return MistakesError(mistake.locate(file=file, below=below) for mistake in self._mistakes)


class Mistakes:
    """The mistakes that checks found which do not depend on each other, so that the user sees all of them at once."""

    def __init__(self, found: Iterable[InputError] = ()) -> None:
        self.found = list(found)

    def __bool__(self) -> bool:
        return bool(self.found)

    def collect(self, *, file: str = "", below: str = "") -> _Collecting:
        """Keep an InputError that the block raises, located as `InputError.locate` does."""
        return _Collecting(self.found, file, below)

    def raise_all(self) -> None:
        """Raises InputError if there are mistakes. Mistakes with the same sentence count as one.

        Of more than `_MOST_MISTAKES`, the first ones are reported, with the number of the others.
        """
        each = {str(mistake): mistake for error in self.found for mistake in error.mistakes}
        # One more is the number of the others, of an error that was collected again.
        if (others := len(each) - _MOST_MISTAKES) > 1:
            first = list(each.values())[:_MOST_MISTAKES]
            rest = InputError(f"has {others:,} more mistakes", file=first[0].file, remedy="mend the first ones")
            raise MistakesError([*first, rest]) from None
        if len(each) > 1:
            raise MistakesError(each.values()) from None
        for mistake in each.values():
            raise mistake from None


@dataclass(frozen=True)
class _Collecting:
    found: list[InputError]
    file: str
    below: str

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        if not isinstance(error, InputError):
            return False
        self.found.append(error.locate(file=self.file, below=self.below))
        return True


def list_sentences(errors: Iterable[InputError]) -> list[str]:
    """Return the sentence of each mistake. A sentence that several errors share is returned once."""
    return list(dict.fromkeys(str(mistake) for error in errors for mistake in error.mistakes))


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
