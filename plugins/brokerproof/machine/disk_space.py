"""Whether a disk has room for a run."""

from __future__ import annotations

import shutil
from pathlib import Path

from brokerproof.errors import MachineError

# The unpacked distribution takes 0.5 GB, its archive 0.4, the nodes of a run up to 1; the rest is for its tables.
NEEDED_GB = 3
# Nodes are configured to stop writing once their disk is fuller than this share. The usual 0.95 leaves a lot unused.
FULL_SHARE = 0.99


def measure_usable_gb(path: Path) -> float:
    """The gigabytes that nodes can still write in a directory before they call its disk full. It need not exist yet."""
    disk = shutil.disk_usage(next(parent for parent in (path, *path.parents) if parent.exists()))
    return (disk.free - (1 - FULL_SHARE) * disk.total) / 2**30


def check_disk_space(path: Path) -> None:
    """Raises MachineError where there is less than a run needs."""
    found = measure_usable_gb(path.absolute())
    if found < NEEDED_GB:
        raise MachineError(
            f"the disk of {path} has room for {max(found, 0):.1f} GB, and a run needs {NEEDED_GB}; free some, or set "
            "BROKERPROOF_VAR to a directory on another disk"
        )
