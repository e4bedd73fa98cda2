"""Gives chosen clients under test wall clocks of their own: Python runs it first if PYTHONPATH names its place.

A client is chosen by a file of its name in OWN_WALL_CLOCKS, which says how far its wall clock is ahead, such as `+2`.
Only the client's process has libfaketime, and CLOCK_MONOTONIC stays the machine's.
"""

from __future__ import annotations

import os
import select
import sys
import time
from pathlib import Path

_PRELOAD = "LD_PRELOAD"


def _restart_with_own_clock(places: str, library: str) -> None:
    # Of a client, the mark says its name.
    _, is_client, client = os.environ.get("BROKERPROOF_NODE", "").rpartition("|client ")
    file = Path(places) / client
    if not is_client or not file.exists():
        return
    own = {
        "FAKETIME_TIMESTAMP_FILE": str(file),
        # Seconds after which the file is read again.
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        # Debian's default ends every wait for Python's lock at once, so that waiting threads take all processor time.
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
        "NO_FAKE_STAT": "1",
    }
    os.execve(sys.executable, sys.orig_argv, {**os.environ, **own, _PRELOAD: library})


def _sleep(seconds: float) -> None:
    select.select([], [], [], seconds)


if "OWN_WALL_CLOCKS" in os.environ:
    if _PRELOAD in os.environ:
        # Python sleeps until a time of CLOCK_MONOTONIC, and libfaketime 0.9.10 calls that an invalid argument.
        time.sleep = _sleep
    else:
        _restart_with_own_clock(os.environ["OWN_WALL_CLOCKS"], os.environ["OWN_WALL_CLOCKS_LIBRARY"])
