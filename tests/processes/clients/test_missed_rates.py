"""A producer's process that misses its rate records this at once, with the reason that it measured.

The tests' machine may be busy, and then both reasons are true. That a reason is not named without its measured seconds
is tested in tests/unit/clients/test_missed_rates.py.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from brokerproof import clock
from brokerproof.clients.client_process import ClientProcess
from brokerproof.clients.producing import complete_publishes, plan_producers
from brokerproof.clients.record import RecordReader
from brokerproof.clock import wait_until
from brokerproof.machine.processes import find_marked_processes
from brokerproof.run.directory import Run
from brokerproof.run.live_status import read_live_status
from brokerproof.run.records import (
    ClustersConfigured,
    MissedRate,
    MissedRates,
    PhaseTimes,
    ProducerEnd,
    RateReason,
    read_record,
    write_record,
)
from builders import ROOT, make_run

HERE = Path(__file__).parent
RATE = 1000
TIMEOUT_S = 60


@pytest.fixture
def pace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "pace"
    file.write_text("all")
    monkeypatch.setenv("PACE", str(file))
    return file


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pace: Path) -> Iterator[Run]:
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.setenv("BROKERPROOF_SYSTEMS", "paced=paced_system:SYSTEM")
    places = [str(HERE), str(ROOT / "plugins"), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(places))
    values = {"settle_s": 30, "workload.rate": RATE, "workload.producers": 1, "overrides.system": "paced"}
    run = make_run(tmp_path / "run", "sync_nominal", values)
    write_record(run, ClustersConfigured(at=0))
    yield run
    assert not list(find_marked_processes(Path(run.directory).absolute()))


def set_pace(pace: Path, acks: str) -> None:
    """Replace the file as a whole, because the system reads it a hundred times a second."""
    changed = pace.with_name("changed")
    changed.write_text(acks)
    changed.replace(pace)


@contextmanager
def produce(run: Run) -> Iterator[psutil.Process]:
    """A producer's process that has had acks."""
    with ClientProcess("brokerproof.clients.producing", run, "load-0", 0, 0) as client:
        client.await_ready()
        client.begin(clock.now_s())
        wait_until(lambda: read_live_status(run, "load-0").get("acked", 0) > RATE, timeout_s=TIMEOUT_S, what="acks")
        (process,) = find_marked_processes(Path(run.directory).absolute())
        yield process


def read_missed(run: Run) -> tuple[MissedRate, ...]:
    record = read_record(run, MissedRates, "mycluster-p0-0")
    return () if record is None else record.times


@contextmanager
def busy_loops(core: int, count: int) -> Iterator[None]:
    """Programs that compute on one core. They end after `TIMEOUT_S` seconds by themselves."""
    code = f"import os, time\nos.sched_setaffinity(0, {{{core}}})\nend = time.monotonic() + {TIMEOUT_S}\n"
    loops = [
        subprocess.Popen([sys.executable, "-c", f"{code}while time.monotonic() < end: pass"]) for _ in range(count)
    ]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def test_a_producer_without_processor_time_names_this_machine(run: Run) -> None:
    with produce(run) as process:
        core = min(os.sched_getaffinity(0))
        for thread in process.threads():
            os.sched_setaffinity(thread.id, {core})
            os.setpriority(os.PRIO_PROCESS, thread.id, 19)
        begun_us = clock.now_us()
        with busy_loops(core, 3):
            missed = wait_until(
                lambda: [each for each in read_missed(run) if each.end > begun_us + 1_000_000],
                timeout_s=TIMEOUT_S,
                what="a missed rate",
            )
    assert all(RateReason.MACHINE in each.reasons for each in missed)


def test_a_cluster_that_acks_too_slowly_is_named(run: Run, pace: Path) -> None:
    with produce(run):
        set_pace(pace, str(RATE // 4))
        missed = wait_until(lambda: read_missed(run), timeout_s=TIMEOUT_S, what="a missed rate")
        shown = wait_until(
            lambda: read_live_status(run, "load-0").get("missed_rate"), timeout_s=TIMEOUT_S, what="a status"
        )
        set_pace(pace, "all")
        # The rate is held again.
        wait_until(
            lambda: read_live_status(run, "load-0").get("missed_rate", 0) is None, timeout_s=TIMEOUT_S, what="the end"
        )
    assert all(RateReason.CLUSTER in each.reasons for each in missed)
    assert "the cluster pushed back" in shown


def test_a_stall_of_two_seconds_is_latency_of_the_messages_that_were_due_in_it(run: Run) -> None:
    with produce(run) as process:
        begun_us = clock.now_us()
        process.send_signal(signal.SIGSTOP)
        wait_until(lambda: process.status() == psutil.STATUS_STOPPED, timeout_s=TIMEOUT_S, what="the stop")
        stopped_us = clock.now_us()
        time.sleep(2)
        woken_us = clock.now_us()
        process.send_signal(signal.SIGCONT)
        now = clock.now_us()
        write_record(run, PhaseTimes(steady_at=begun_us, impact_at=now, recovery_at=now, ends_at=now))
        wait_until(lambda: read_record(run, ProducerEnd, 0), timeout_s=TIMEOUT_S, what="the end")
    task = plan_producers(run)[0]
    reader = RecordReader(run, task.client, epoch=0)
    batches = complete_publishes(run, task, reader, reader.read_rest(), lambda: True)
    rows = [row for batch in batches for row in batch.to_pylist()]
    due = [
        row for row in rows if stopped_us < clock.to_microseconds(row["scheduled_at"]) < woken_us and row["settled_at"]
    ]
    # Every message that was due has a row, and each waited at least until the producer went on.
    assert len(due) == pytest.approx((woken_us - stopped_us) / 1e6 * RATE, abs=2)
    assert min(clock.to_microseconds(row["settled_at"]) for row in due) >= woken_us
    latencies = [(row["settled_at"] - row["scheduled_at"]).total_seconds() for row in due]
    assert max(latencies) >= (woken_us - stopped_us) / 1e6 - 0.01
    end = read_record(run, ProducerEnd, 0)
    assert end is not None
    # The process itself stood still, which the measured times take into account.
    assert any(start <= woken_us and until >= woken_us for start, until in end.standstills)
