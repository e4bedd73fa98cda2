"""One process, as a file remembers it: a pid is given again, together with the start time it is one process."""

from __future__ import annotations

import psutil

# Start times are counted from the boot, whose own time moves a little when the clock is set.
_SAME_S = 1.0


def living(pid: int, created: float) -> psutil.Process | None:
    """The process with this pid that was started then (seconds since 1970); None if it has ended, as a zombie has."""
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - created) < _SAME_S
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except psutil.Error:
        return None
