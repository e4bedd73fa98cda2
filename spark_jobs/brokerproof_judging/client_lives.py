"""The lives of clients that faults act on: which of their processes a fault ended, and when a client was away.

A client that a fault ended is no broken instrument (rule 26 of the verdicts).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from brokerproof.run.directory import Run
from brokerproof.run.records import ClientEpochs, read_record


def list_epochs_ended_by_faults(run: Run, client: str) -> set[int]:
    """Return the numbers (epochs) of a client's processes that a fault ended. Raises RunError for a damaged record."""
    lives = read_record(run, ClientEpochs, client)
    return {each.epoch for each in lives.epochs if each.fault is not None} if lives else set()


def list_absences(run: Run, client: str) -> list[tuple[int, int]]:
    """Return the times (from, to) in µs in which a client was away: from a process's end to the next one's connection.

    If the client never came back, the last time ends with the client's task. A client that was never connected, such as
    one on standby, was away all the time. Raises RunError for a damaged record.
    """
    lives = read_record(run, ClientEpochs, client)
    if lives is None:
        return []
    # A process that was never connected did not bring the client back, and its end did not take the client away.
    connected = [each for each in lives.epochs if each.ready_at is not None]
    if not connected:
        return [(0, lives.at)]
    following = [*(each.ready_at or lives.at for each in connected[1:]), lives.at]
    return [
        (each.ended_at, back_at)
        for each, back_at in zip(connected, following, strict=True)
        # A process that took over was connected before the earlier one ended.
        if each.ended_at is not None and each.fault is not None and each.ended_at < back_at
    ]


def intersect(clients: Iterable[Sequence[tuple[int, int]]]) -> list[tuple[int, int]]:
    """Return the times that are in the times of every client. Each client's own times do not overlap."""
    found: list[tuple[int, int]] | None = None
    for times in clients:
        found = (
            list(times)
            if found is None
            else [
                (max(begin, start), min(end, until))
                for begin, end in found
                for start, until in times
                if max(begin, start) < min(end, until)
            ]
        )
    return found or []
