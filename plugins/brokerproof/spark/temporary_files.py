"""Where a Spark job keeps what only it reads: shuffles, what does not fit in memory, what Java unpacks.

A job that is killed removes nothing, and judging may have put gigabytes there. So a directory bears the name of the
process that submitted the job, and the next job, or `down`, removes those whose process is gone.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from brokerproof.machine.process_identity import living


@contextmanager
def scratch_directory(place: Path) -> Iterator[Path]:
    """A directory below `place`, until the end of the block; those of processes that are gone are removed first.

    One at a time in a process.
    """
    sweep(place)
    me = psutil.Process()
    mine = place / f"{me.pid}-{me.create_time():.2f}"
    mine.mkdir(parents=True, exist_ok=True)
    try:
        yield mine
    finally:
        # Python workers of a job that was ended may still write; what they leave is swept later.
        shutil.rmtree(mine, ignore_errors=True)


def sweep(place: Path) -> None:
    """Remove the directories of processes that are gone."""
    for directory in place.glob("*"):
        if not _lives(directory.name):
            shutil.rmtree(directory, ignore_errors=True)


def _lives(name: str) -> bool:
    pid, _, created = name.partition("-")
    return living(int(pid), float(created)) is not None
