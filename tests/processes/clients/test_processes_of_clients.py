"""Clients as processes: whatever is killed, what was recorded becomes rows, and no process stays."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import consume
import load
import psutil
import pyarrow.parquet as pq
import pytest
from brokerproof import clock
from brokerproof.clients.record import list_clients
from brokerproof.clients.table_recovery import recover_tables
from brokerproof.clock import wait_until
from brokerproof.errors import DeadlineError, RunError
from brokerproof.machine.processes import find_marked_processes
from brokerproof.run.directory import Run
from brokerproof.run.records import (
    ClientRecordRead,
    ClustersConfigured,
    ConsumerEnd,
    ConsumersStop,
    EarlyEnd,
    EpochRead,
    PhaseTimes,
    ProducerEnd,
    TableSeal,
    read_record,
    remove_record,
    write_record,
)
from brokerproof.run.seals import seal_tables
from builders import make_run

S = 1_000_000
# The only producer, or consumer, of its job.
ALONE: Any = SimpleNamespace(attemptNumber=lambda: 0, allGather=lambda text: [text], barrier=lambda: None)
WORKER = """
import sys
from types import SimpleNamespace
import consume, load
from brokerproof.run.directory import Run
run = Run(sys.argv[1])
alone = SimpleNamespace(attemptNumber=lambda: 0, allGather=lambda text: [text], barrier=lambda: None)
for _ in (
    load.publish_messages(run, load.plan_producers(run)[0], alone)
    if sys.argv[2] == "load"
    else consume.consume_messages(run, consume.plan_consumers(run)[0], alone)
):
    pass
"""


@pytest.fixture
def run(tmp_path: Path, endless: None) -> Iterator[Run]:
    run = make_run(
        tmp_path / "run",
        "sync_nominal",
        {"settle_s": 0.5, "workload.rate": 1000, "workload.producers": 1, "overrides.system": "endless"},
        sealed=True,
    )
    write_record(run, ClustersConfigured(at=0))
    yield run
    assert not clients_of(run)


def clients_of(run: Run) -> list[psutil.Process]:
    return list(find_marked_processes(Path(run.directory).absolute()))


def steady(run: Run, ends_in_s: float = 60) -> None:
    now = clock.now_us()
    write_record(run, PhaseTimes(steady_at=now, impact_at=now, recovery_at=now, ends_at=now + int(ends_in_s * S)))


class Task:
    """A task of a job on a thread."""

    def __init__(self, batches: Any) -> None:
        self.rows: list[dict[str, Any]] = []
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(batches,), daemon=True)
        self._thread.start()

    def _run(self, batches: Any) -> None:
        try:
            for batch in batches:
                self.rows.extend(batch.to_pylist())
        except BaseException as error:
            self.error = error

    def join(self) -> list[dict[str, Any]]:
        self._thread.join(120)
        assert not self._thread.is_alive()
        return self.rows


def publishing(run: Run) -> Task:
    return Task(load.publish_messages(run, load.plan_producers(run)[0], ALONE))


def consuming(run: Run) -> Task:
    return Task(consume.consume_messages(run, consume.plan_consumers(run)[0], ALONE))


def await_rows(task: Task) -> None:
    wait_until(lambda: len(task.rows) > 200, timeout_s=120, what="rows")


def await_record(run: Run, files: int = 3) -> None:
    wait_until(lambda: len(list(Path(run.path("clients")).glob("*/*.arrow"))) >= files, timeout_s=120, what="a record")


def publish_for_a_second(run: Run) -> list[dict[str, Any]]:
    task = publishing(run)
    await_rows(task)
    steady(run, ends_in_s=1)
    return task.join()


def outcomes(rows: list[dict[str, Any]]) -> dict[int, str]:
    found = {row["seq"]: row["outcome"] for row in rows}
    assert len(found) == len(rows), "a seq came twice"
    assert sorted(found) == list(range(len(found))), "a seq is missing"
    return found


def test_a_producer_that_ends_by_itself_leaves_every_outcome(run: Run) -> None:
    rows = publish_for_a_second(run)
    found = outcomes(rows)
    assert len(found) > 500
    assert {seq for seq, outcome in found.items() if outcome == "unknown"} == {seq for seq in found if seq % 7 == 0}
    end = read_record(run, ProducerEnd, 0)
    assert end is not None
    assert (end.scheduled, end.problem) == (len(rows), None)
    read = read_record(run, ClientRecordRead, "load-0")
    assert read is not None
    assert read.epochs == (EpochRead(epoch=0, segments=end.segments or 0, rows=len(rows), missing=()),)


def test_a_producer_that_is_killed_leaves_what_it_recorded_and_unknown_attempts(run: Run) -> None:
    steady(run)
    task = publishing(run)
    await_rows(task)
    (client,) = clients_of(run)
    sent = len(task.rows)
    client.kill()
    found = outcomes(task.join())
    acked = [seq for seq, outcome in found.items() if outcome == "acked"]
    assert len(acked) >= sent * 6 // 7 - 1
    # What it may have sent since it last said so is unknown, and it is no more than that.
    assert sent < len(found) < sent + 4000
    assert set(found.values()) == {"acked", "unknown"}
    end = read_record(run, ProducerEnd, 0)
    assert end is not None
    assert (end.counts, end.problem) == (None, "mycluster-p0: its process was ended by SIGKILL")
    read = read_record(run, ClientRecordRead, "load-0")
    assert read is not None
    # The attempts that it may have sent are rows, too.
    assert [(epoch.rows, epoch.missing) for epoch in read.epochs] == [(len(found), ())]


@pytest.mark.parametrize("job", ["load", "consume"])
def test_clients_wait_for_the_clusters_and_end_if_there_will_be_none(run: Run, job: str) -> None:
    remove_record(run, ClustersConfigured)
    task = publishing(run) if job == "load" else consuming(run)
    wait_until(lambda: clients_of(run), timeout_s=120, what="the client")
    with pytest.raises(DeadlineError):
        wait_until(lambda: list_clients(run, job), timeout_s=2, what="a record")
    write_record(run, EarlyEnd(why="the clusters were not configured", at=clock.now_us()))
    assert task.join() == []
    assert task.error is None
    end = read_record(run, ProducerEnd, 0) or read_record(run, ConsumerEnd, 0)
    assert end is not None
    assert "its process" in (end.problem or "")


def test_a_producer_that_dies_before_the_load_is_steady_fails_its_task(run: Run) -> None:
    task = publishing(run)
    await_rows(task)
    clients_of(run)[0].kill()
    task.join()
    assert isinstance(task.error, RunError)
    assert "its process was ended by SIGKILL" in str(task.error)


@pytest.mark.parametrize("job", ["load", "consume"])
def test_clients_end_within_5_s_when_the_timeline_broke(run: Run, job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENDLESS_CLOSE_S", "600")
    steady(run)
    task = publishing(run) if job == "load" else consuming(run)
    await_record(run)
    told = time.monotonic()
    write_record(run, EarlyEnd(why="break_it failed", at=clock.now_us()))
    rows = task.join()
    assert time.monotonic() - told < 5
    end = read_record(run, ProducerEnd, 0) or read_record(run, ConsumerEnd, 0)
    assert end is not None
    assert (end.problem or "").endswith("it was told to end before its time")
    if job == "load":
        outcomes(rows)
    else:
        assert [row["arrival"] for row in rows] == list(range(len(rows)))


def test_a_client_that_hangs_is_ended_when_the_timeline_broke(run: Run) -> None:
    steady(run)
    task = publishing(run)
    await_rows(task)
    clients_of(run)[0].suspend()
    told = time.monotonic()
    write_record(run, EarlyEnd(why="break_it failed", at=clock.now_us()))
    outcomes(task.join())
    assert time.monotonic() - told < 5
    end = read_record(run, ProducerEnd, 0)
    assert end is not None
    assert end.problem == "mycluster-p0: its process was ended by SIGKILL"


@pytest.mark.parametrize("job", ["load", "consume"])
def test_a_worker_of_spark_that_is_killed_takes_nothing_with_it(run: Run, job: str) -> None:
    steady(run)
    with subprocess.Popen([sys.executable, "-c", WORKER, run.directory, job]) as worker:
        await_record(run)
        worker.send_signal(signal.SIGKILL)
    killed = time.monotonic()
    wait_until(lambda: not clients_of(run), timeout_s=10, what="the client to end")
    assert time.monotonic() - killed < 5
    table = "publishes" if job == "load" else "deliveries"
    assert recover_tables(run) == [table]
    rows = pq.read_table(run.table(table)).to_pylist()
    assert len(rows) > 500
    if job == "load":
        found = outcomes(rows)
        assert "acked" in found.values()
    else:
        assert [row["arrival"] for row in rows] == list(range(len(rows)))
        assert {row["seq"] for row in rows if row["acknowledged_at"] is not None} <= set(range(100))
    # What is recovered is sealed, and is not recovered again.
    assert read_record(run, TableSeal, table) is not None
    assert list_clients(run, job) == []
    assert recover_tables(run) == []


def test_client_and_worker_that_are_killed_together_take_nothing_with_them(run: Run) -> None:
    steady(run)
    with subprocess.Popen([sys.executable, "-c", WORKER, run.directory, "load"]) as worker:
        await_record(run)
        (client,) = clients_of(run)
        client.kill()
        worker.kill()
    assert recover_tables(run) == ["publishes"]
    found = outcomes(pq.read_table(run.table("publishes")).to_pylist())
    assert set(found.values()) == {"acked", "unknown"}


def test_a_table_that_was_sealed_is_not_made_anew(run: Run) -> None:
    publish_for_a_second(run)
    seal_tables(run, "publishes")
    assert list_clients(run, "load") == ["load-0"]
    assert recover_tables(run) == []


def test_what_a_job_left_half_written_is_replaced(run: Run) -> None:
    rows = publish_for_a_second(run)
    run.append("publishes", [{"run_id": "r", "producer": "mycluster-p0", "seq": 0}])
    assert recover_tables(run) == ["publishes"]
    assert len(pq.read_table(run.table("publishes"))) == len(rows)


def test_what_is_recorded_is_on_disk_within_a_second(run: Run) -> None:
    steady(run)
    task = publishing(run)
    await_rows(task)
    segments = Path(run.path("clients", "load-0"))
    ages = []
    for _ in range(20):
        newest = max(file.stat().st_mtime for file in segments.glob("*.arrow"))
        ages.append(time.time() - newest)
        time.sleep(0.1)
    write_record(run, EarlyEnd(why="enough", at=clock.now_us()))
    task.join()
    assert max(ages) < 1


def test_a_consumer_that_ends_by_itself_leaves_every_delivery_with_its_ack(run: Run) -> None:
    steady(run)
    task = consuming(run)
    await_record(run, 4)
    clients_of(run)[0].send_signal(signal.SIGTERM)
    rows = task.join()
    assert {row["seq"] for row in rows if row["acknowledged_at"] is not None} == set(range(100))


def test_a_consumer_that_is_killed_leaves_what_it_recorded(run: Run) -> None:
    steady(run)
    task = consuming(run)
    await_record(run, 4)
    clients_of(run)[0].kill()
    rows = task.join()
    assert [row["arrival"] for row in rows] == list(range(len(rows)))
    assert len(rows) > 300
    end = read_record(run, ConsumerEnd, 0)
    assert end is not None
    assert (end.counts, end.problem) == (None, "audit-c0: its process was ended by SIGKILL")
    read = read_record(run, ClientRecordRead, "consume-0")
    assert read is not None
    assert [(epoch.rows, epoch.missing) for epoch in read.epochs] == [(len(rows), ())]


def test_a_consumer_that_hangs_after_it_was_stopped_is_ended(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    steady(run)
    monkeypatch.setattr(consume, "_OVERDUE_S", 0.5)
    task = consuming(run)
    await_record(run, 2)
    clients_of(run)[0].suspend()
    write_record(run, ConsumersStop(at=clock.now_us()))
    task.join()
    end = read_record(run, ConsumerEnd, 0)
    assert end is not None
    assert end.problem == "audit-c0: its process was ended by SIGKILL"
