"""Checks that a disk has room for a run."""

from __future__ import annotations

import shutil
from pathlib import Path

from brokerproof.errors import MachineError

# The unpacked distribution takes 0.5 GB, its archive 0.4 GB, a run's nodes up to 1 GB. The rest is for its tables.
NEEDED_GB = 3
# Nodes are configured to stop writing if their disk is fuller than this share. The default 0.95 leaves much unused.
FULL_SHARE = 0.99


def measure_usable_gb(path: Path) -> float:
    """Return how many GiB nodes can write to a directory before they report the disk as full.

    The directory need not exist yet.
    """
    disk = shutil.disk_usage(next(parent for parent in (path, *path.parents) if parent.exists()))
    return (disk.free - (1 - FULL_SHARE) * disk.total) / 2**30


def check_disk_space(path: Path) -> None:
    """Raises MachineError if nodes can write less than `NEEDED_GB` to a directory."""
    found = measure_usable_gb(path.absolute())
    if found < NEEDED_GB:
        raise MachineError(
            f"the disk of {path} has room for {max(found, 0):.1f} GB, and a run needs {NEEDED_GB}; free some, or set "
            "BROKERPROOF_VAR to a directory on another disk"
        )
