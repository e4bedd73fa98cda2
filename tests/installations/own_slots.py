"""Slots that only the tests use, so that their nodes' addresses are those of no run of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from brokerproof.machine import leases, slots

# Far from those that `count_slots` gives a machine.
_FIRST, _LAST = 100, 190


@contextmanager
def own_slots(directory: Path, count: int) -> Iterator[int]:
    """Leave nothing free in `directory` but `count` slots in whose addresses nobody listens.

    The environment of this process says so, for itself and for the processes that it starts. Yields the first of them.
    """
    first = _find_free_slots(count)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BROKERPROOF_LEASES", str(directory))
        patch.setenv("BROKERPROOF_MAX_CLUSTERS", str(first + count))
        # `slots.take` would try all slots before each one.
        held = [leases.lock_file(slots.directory() / f"{number}.lock") for number in range(first)]
        assert None not in held, "somebody else uses these leases"
        try:
            yield first
        finally:
            for descriptor in filter(None, held):
                os.close(descriptor)


def _find_free_slots(count: int) -> int:
    """The first of `count` slots in a row in whose address ranges nothing listens."""
    listening = {connection.laddr.ip for connection in psutil.net_connections("tcp") if connection.laddr}
    first = _FIRST + os.getpid() % (_LAST - _FIRST - count)
    while any(ip.startswith(f"127.{10 + slot}.") for ip in listening for slot in range(first, first + count)):
        first += count
    return first
