"""The argument RUN of the commands: a run's id, its directory or the directory's URL.

An id is looked for in `$BROKERPROOF_VAR`, and then in the history, whose runs may be at other places.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path

from brokerproof.errors import BrokerproofError, InputError, shorten
from brokerproof.results.history import RunPlace, open_recorded_history
from brokerproof.run.directory import Run
from brokerproof.settings import Settings

# The number of last runs that an error names if no run has a similar id.
_NAMED_RUNS = 3


def open_run(text: str, settings: Settings) -> Run:
    """Return the run that `text` names.

    Raises InputError if there is none, if its place cannot be read, or if a link is inside of it. Raises HistoryError
    if the run may be in a history that cannot be read.
    """
    run = find_run(text, settings)
    if run is None:
        raise refuse_run(text, settings)
    run.refuse_links()
    return run


def find_run(text: str, settings: Settings) -> Run | None:
    """Return the run that `text` names, or None if there is none. Raises InputError if its place cannot be read.

    A history that cannot be read counts as empty.
    """
    for location in _list_locations(text, settings):
        run = Run(location)
        try:
            if run.exists("run.json"):
                return run
        except (OSError, ValueError, ImportError) as error:
            # No file can have this name, or no installed package reads such a URL.
            raise InputError(f"cannot be read: {error}", file=location, remedy=_suggest_run(text, settings)) from None
    return None


def refuse_run(text: str, settings: Settings) -> InputError:
    """Return the error for a `text` that names no run: that the run was deleted, or which id is similar.

    Raises HistoryError if the history cannot be read, because the run may be in it.
    """
    place = _find_recorded_place(name_run(text))
    if place is not None and (_may_be_id(text) or place.run_dir == make_absolute(text)):
        problem = place.deletion or "holds no run any more, or is a directory of another machine"
        return InputError(problem, file=place.run_dir, remedy="`brokerproof history` shows the result of the run")
    remedy = _suggest_run(text, settings)
    if _may_be_id(text):
        return InputError(f"no run called `{text}` is known", remedy=remedy)
    return InputError("holds no run", file=make_absolute(text), remedy=remedy)


def name_run(text: str) -> str:
    """Return the id in `text`. The name of a run's directory is the run's id."""
    return text.rstrip("/").rpartition("/")[2]


def make_absolute(location: str) -> str:
    """Return the absolute path of a directory. If the location is a URL, return it without a slash at its end."""
    return location.rstrip("/") if "://" in location else str(Path(location).expanduser().resolve())


def _list_locations(text: str, settings: Settings) -> Iterator[str]:
    if _may_be_id(text):
        yield str(settings.runs / text)
    yield make_absolute(text)
    if _may_be_id(text):
        with suppress(BrokerproofError):
            place = _find_recorded_place(text)
            if place is not None:
                yield place.run_dir


def _may_be_id(text: str) -> bool:
    return text not in ("", ".", "..", "~") and "/" not in text


def _find_recorded_place(run_id: str) -> RunPlace | None:
    with open_recorded_history() or nullcontext() as history:
        return history.find_run_place(run_id) if history else None


def _suggest_run(text: str, settings: Settings) -> str:
    known = list(dict.fromkeys(_list_run_ids(settings)))
    if near := difflib.get_close_matches(name_run(text), known, n=1):
        return f"did you mean `{near[0]}`?"
    last = ", ".join(f"`{shorten(run_id)}`" for run_id in known[:_NAMED_RUNS])
    return "give a run's id, its directory or the directory's URL; " + (
        f"the last runs are {last}" if last else "no run is recorded yet"
    )


def _list_run_ids(settings: Settings) -> Iterator[str]:
    """Yield the ids of the runs in `settings.runs`, newest first, and then of those in the history."""
    files = sorted(settings.runs.glob("*/run.json"), key=_find_modification_time, reverse=True)
    yield from (file.parent.name for file in files)
    with suppress(BrokerproofError), open_recorded_history() or nullcontext() as history:
        yield from history.list_run_ids() if history else ()


def _find_modification_time(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        # `prune` deletes the run at this moment.
        return 0.0
