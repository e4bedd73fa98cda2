"""The directory of the files that only a Spark job itself reads: shuffles, spilled rows, libraries that Java unpacks.

A killed job removes nothing, and a judging job may have written gigabytes. So the name of the directory holds the
process that submitted the job, and the next job, or `down`, removes the directories of processes that ended.
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

# Jobs of one process, which may work at the same time.
_jobs = itertools.count()


@contextmanager
def temporary_directory(parent: Path) -> Iterator[Path]:
    """Make a directory of this process below `parent` and remove it at the end of the block.

    It first removes what ended processes left.
    """
    remove_abandoned_directories(parent)
    mine = parent / f"{os.getpid()}-{read_start(os.getpid()):.2f}-{next(_jobs)}"
    mine.mkdir(parents=True)
    try:
        yield mine
    finally:
        # Python workers of an ended job may still write. The next job removes their files.
        shutil.rmtree(mine, ignore_errors=True)


def remove_abandoned_directories(parent: Path) -> None:
    """Remove the directories of processes that ended, and nothing that is named otherwise."""
    for directory in parent.glob("*"):
        if not _has_living_owner(directory.name):
            shutil.rmtree(directory, ignore_errors=True)


def _has_living_owner(name: str) -> bool:
    owner = re.fullmatch(r"(\d+)-(\d+\.\d+)-\d+", name)
    return owner is None or find_process(int(owner[1]), float(owner[2])) is not None
