"""Whether a process that a file remembers is the one that lives under its pid."""

from __future__ import annotations

import subprocess
import sys
import time

import psutil
import pytest
from brokerproof.machine.process_identity import living


def test_a_process_is_itself_though_the_clock_moved_a_little() -> None:
    me = psutil.Process()
    assert living(me.pid, me.create_time()) == me
    assert living(me.pid, me.create_time() + 0.5) == me


@pytest.mark.parametrize("earlier_s", [2.0, 3600.0])
def test_another_one_under_its_pid_is_not(earlier_s: float) -> None:
    me = psutil.Process()
    assert living(me.pid, me.create_time() - earlier_s) is None


def test_one_that_ended_is_not_even_before_it_is_reaped() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = psutil.Process(child.pid)
    created = process.create_time()
    assert living(child.pid, created) == process
    child.kill()
    deadline = time.monotonic() + 10
    while process.status() != psutil.STATUS_ZOMBIE and time.monotonic() < deadline:
        time.sleep(0.01)
    assert living(child.pid, created) is None
    child.communicate()
    assert living(child.pid, created) is None
