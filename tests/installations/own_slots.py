"""Slots that only the tests use, so that their nodes' addresses are those of no run of this machine."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest
from brokerproof.machine import leases, slots

# Far from those that `count_slots` gives a machine.
_FIRST, _LAST = 100, 190


@contextmanager
def own_slots(directory: Path, count: int) -> Iterator[int]:
    """Leave nothing free in `directory` but `count` slots that no other test has. Nothing listens at their addresses.

    The environment of this process says so, for itself and for the processes that it starts. Yields the first of them.
    """
    with ExitStack() as stack:
        first = _reserve_slots(count, stack)
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("BROKERPROOF_LEASES", str(directory))
        patch.setenv("BROKERPROOF_MAX_CLUSTERS", str(first + count))
        # `slots.take` would try all slots before each one.
        held = [_lock(slots.directory(), number, stack) for number in range(first)]
        assert all(held), "others use these leases"
        yield first


def _reserve_slots(count: int, stack: ExitStack) -> int:
    """The first of `count` slots in a row that are locked for the tests of this process until `stack` ends."""
    machine = Path(tempfile.gettempdir()) / f"brokerproof-slots-of-tests-{os.getuid()}"
    machine.mkdir(mode=0o700, exist_ok=True)
    listening = {connection.laddr.ip for connection in psutil.net_connections("tcp") if connection.laddr}
    for first in range(_FIRST, _LAST - count):
        numbers = range(first, first + count)
        with ExitStack() as tried:
            if all(_lock(machine, number, tried) for number in numbers) and not any(
                ip.startswith(f"127.{10 + number}.") for ip in listening for number in numbers
            ):
                stack.enter_context(tried.pop_all())
                return first
    raise AssertionError("other tests have all slots")


def _lock(directory: Path, number: int, stack: ExitStack) -> bool:
    descriptor = leases.lock_file(directory / f"{number}.lock")
    if descriptor is not None:
        stack.callback(os.close, descriptor)
    return descriptor is not None
