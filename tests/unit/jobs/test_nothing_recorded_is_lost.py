"""What a job had recorded is kept when the cluster breaks something under it later, and the job says so."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import load
import pytest
import read_back
from brokerproof import clock
from brokerproof.clients.consuming import complete_deliveries, consume, plan_consumers
from brokerproof.clients.producing import ScheduledProducer, complete_publishes, plan_producers
from brokerproof.clients.record import RecordReader
from brokerproof.run.directory import Run
from brokerproof.run.live_status import read_live_status
from brokerproof.run.records import (
    ConsumerEnd,
    ConsumersStop,
    LogRead,
    PhaseTimes,
    ProducerEnd,
    read_record,
    write_record,
)
from brokerproof.run.tables import AttemptOutcome
from brokerproof.systems.clients import Position, Received, Settled, list_columns
from brokerproof.systems.protocols import TopicLog
from builders import make_run

from ..planted_system import ON_PLANTED, PlantedSystem, plant_system


class BrokenError(Exception):
    """Whatever a client may raise."""


class Clients:
    """Clients that break after so many messages, sent, read or received, and whose closing always does.

    A consumer gets as many messages as the cluster `holds`.
    """

    describe = staticmethod(list_columns)

    def __init__(self, breaks_after: int = 10**9, holds: int = 10**9) -> None:
        self.breaks_after, self.holds = breaks_after, holds
        self.count = 0

    def producer(self, name: str) -> Clients:
        return self

    def reader(self, partition: int) -> Clients:
        return self

    def consumer(self, subscription: Any, name: str) -> Clients:
        return self

    def receive(self, timeout_s: float) -> Received | None:
        return self.read(timeout_s) if self.count < self.holds else None

    def acknowledge(self, received: Received) -> None:
        pass

    def send(self, seq: int, key: str, payload: bytes, settle: Any) -> None:
        self._one_more()
        if seq != 3:  # nobody ever answers this one
            settle(Settled(AttemptOutcome.ACKED, partition=-1, position=Position(1, seq, None)))

    def read(self, timeout_s: float) -> Received:
        self._one_more()
        return Received("p", self.count, "k", 0, -1, Position(1, self.count, None), 0, 0, None)

    def next_position(self) -> Position:
        return Position(1, self.count + 1)

    def at_end(self) -> bool:
        return False

    def close(self) -> None:
        raise BrokenError("no broker answers")

    def _one_more(self) -> None:
        self.count += 1
        if self.count > self.breaks_after:
            raise BrokenError("the client gave up")


# Confirms no ack.
SILENT = SimpleNamespace(find_acknowledged=lambda *_: {})


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    plant_system(monkeypatch, PlantedSystem())
    return make_run(tmp_path / "run", "sync_nominal", {"settle_s": 1, "workload.rate": 200, **ON_PLANTED})


def published(run: Run, monkeypatch: pytest.MonkeyPatch, clients: Clients) -> list[dict[str, Any]]:
    plant_system(monkeypatch, PlantedSystem(clients=lambda _: clients))
    task = plan_producers(run)[0]
    ScheduledProducer(run, task).publish()
    reader = RecordReader(run, task.client, epoch=0)
    batches = complete_publishes(run, task, reader, reader.read_new(), lambda: True)
    return [row for rows in batches for row in rows.to_pylist()]


def steady(run: Run) -> None:
    now = clock.now_us()
    write_record(run, PhaseTimes(steady_at=now, impact_at=now, recovery_at=now, ends_at=now + 1_000_000))


def test_a_producer_that_cannot_be_closed_has_published_all_the_same(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    steady(run)
    rows = published(run, monkeypatch, Clients())
    assert [row["seq"] for row in rows if row["outcome"] == "unknown"] == [3]
    end = read_record(run, ProducerEnd, 0)
    assert end is not None
    assert (end.scheduled, end.acked, end.unknown) == (len(rows), len(rows) - 1, 1)
    # The machine may stand still during this second. The failed close is not recorded as a problem.
    assert end.problem is None or "stood still" in end.problem
    assert read_live_status(run, "load-0")["acked"] == end.acked
    assert "the producer did not close" in capsys.readouterr().err


def test_a_producer_that_breaks_keeps_what_it_had_sent(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    steady(run)
    rows = published(run, monkeypatch, Clients(breaks_after=10))
    assert sorted(row["seq"] for row in rows) == list(range(11))
    # The one that nobody answered, and the one at which the client broke.
    assert sorted(row["seq"] for row in rows if row["outcome"] == "unknown") == [3, 10]
    end = load.conclude_load(run, plan_producers(run)[:1])
    assert (end.finished, end.why) == (False, "mycluster-p0: BrokenError: the client gave up")


def test_a_record_that_cannot_be_written_ends_the_load(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    steady(run)
    Path(run.path("clients")).write_text("a file where the directory has to be")
    plant_system(monkeypatch, PlantedSystem(clients=lambda _: Clients()))
    ScheduledProducer(run, plan_producers(run)[0]).publish()
    end = read_record(run, ProducerEnd, 0)
    assert end is not None
    assert (end.scheduled, end.problem) == (0, end.problem)
    assert "cannot be written" in (end.problem or "")


def test_a_log_whose_reader_breaks_is_not_read_to_its_end_and_keeps_what_was_read(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant_system(monkeypatch, PlantedSystem(clients=lambda _: Clients(breaks_after=7)))
    task = read_back.ReadTask(number=0, log=TopicLog(cluster="mycluster", partition=-1, end=Position(1, 10)))
    rows = [row for rows in read_back.read_log(run, task) for row in rows.to_pylist()]
    assert len(rows) == 7
    read = read_record(run, LogRead, 0)
    assert read is not None
    assert (read.read_to_end, read.messages) == (False, 7)
    assert read.why == "BrokenError at 1:7: the client gave up"


def delivered(run: Run, monkeypatch: pytest.MonkeyPatch, clients: Clients) -> list[dict[str, Any]]:
    plant_system(monkeypatch, PlantedSystem(clients=lambda _: clients, cluster=SILENT))
    task = plan_consumers(run)[0]
    consume(run, task)
    batches = complete_deliveries(RecordReader(run, task.client, epoch=0).read_new())
    return [row for rows in batches for row in rows.to_pylist()]


def test_a_consumer_that_cannot_be_closed_has_received_all_the_same(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    steady(run)
    write_record(run, ConsumersStop(at=clock.now_us()))
    rows = delivered(run, monkeypatch, Clients(holds=50))
    assert [row["seq"] for row in rows] == list(range(1, 51))
    end = read_record(run, ConsumerEnd, 0)
    assert end is not None
    assert (end.delivered, end.problem) == (50, None)
    assert "the client did not close: BrokenError('no broker answers')" in capsys.readouterr().err


def test_a_consumer_that_breaks_keeps_what_it_had_received(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    steady(run)
    rows = delivered(run, monkeypatch, Clients(breaks_after=7))
    assert [row["seq"] for row in rows] == list(range(1, 8))
    end = read_record(run, ConsumerEnd, 0)
    assert end is not None
    assert end.problem == "audit-c0: BrokenError: the client gave up"


def test_acks_that_cannot_be_asked_for_are_a_problem(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    steady(run)
    asked = threading.Event()

    def find(*_: Any) -> Any:
        asked.set()
        raise KeyError("cursors")

    stopping = threading.Timer(2.5, lambda: write_record(run, ConsumersStop(at=clock.now_us())))
    stopping.start()
    plant_system(
        monkeypatch, PlantedSystem(clients=lambda _: Clients(holds=5), cluster=SimpleNamespace(find_acknowledged=find))
    )
    consume(run, plan_consumers(run)[0])
    assert asked.is_set()
    end = read_record(run, ConsumerEnd, 0)
    assert end is not None
    assert end.problem == "audit-c0: KeyError: 'cursors'"
