"""A directory for the files that only a Spark job itself reads: shuffles, spilled rows, libraries that Java unpacks.

A killed job does not remove its files, which may be gigabytes for a judging job. So the directory's name contains the
pid and start of the process that submitted the job. The next job, or `brokerproof down`, removes the directories of
processes that have ended.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from brokerproof.machine.processes import find_process, read_start

# Numbers the jobs of this process, which may run at the same time.
_jobs = itertools.count()


@contextmanager
def temporary_directory(parent: Path) -> Iterator[Path]:
    """Make a directory for one job below `parent`, yield it, and remove it at the end of the block.

    First, the directories of processes that have ended are removed.
    """
    remove_abandoned_directories(parent)
    directory = parent / f"{os.getpid()}-{read_start(os.getpid()):.2f}-{next(_jobs)}"
    directory.mkdir(parents=True)
    try:
        yield directory
    finally:
        # Errors are ignored, because Python workers of the job may still write. The next job removes their files.
        shutil.rmtree(directory, ignore_errors=True)


def remove_abandoned_directories(parent: Path) -> None:
    """Remove the directories below `parent` whose names contain a process that has ended. All others stay."""
    for directory in parent.glob("*"):
        if not _has_living_owner(directory.name):
            shutil.rmtree(directory, ignore_errors=True)


def _has_living_owner(name: str) -> bool:
    owner = re.fullmatch(r"(\d+)-(\d+\.\d+)-\d+", name)
    return owner is None or find_process(int(owner[1]), float(owner[2])) is not None
