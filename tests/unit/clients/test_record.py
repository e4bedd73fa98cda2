"""A client's record: what is read of it, and what shows that a part of it is gone."""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from brokerproof import clock
from brokerproof.clients.consuming import consume, plan_consumers
from brokerproof.clients.deliveries import ConfirmedAcks
from brokerproof.clients.producing import ScheduledProducer, plan_producers
from brokerproof.clients.record import RecordReader, RecordWriter, list_epochs
from brokerproof.clients.table_recovery import recover_tables
from brokerproof.errors import RunError
from brokerproof.run.directory import Run
from brokerproof.run.records import (
    ClientRecordRead,
    ConsumerEnd,
    ConsumersStop,
    PhaseTimes,
    ProducerEnd,
    TableSeal,
    read_record,
    write_record,
)
from brokerproof.run.tables import AttemptOutcome, make_batch
from brokerproof.systems.clients import Position, Received, Settled, list_columns
from brokerproof_judging.client_counts import find_count_problems
from brokerproof_judging.messages.publish_record import PartSummary
from builders import make_run

from ..planted_system import ON_PLANTED, PlantedSystem, plant_system

CONSTANT = dict.fromkeys(("run_id", "cluster", "topic", "producer", "key", "outcome", "error"), "x") | dict.fromkeys(
    ("partition", "epoch", "payload_hash", "scheduled_at", "sent_at", "settled_at", "segment", "offset"), 0
)


class Clients:
    """Acks every message at once, and has 40 messages to deliver."""

    describe = staticmethod(list_columns)

    def __init__(self) -> None:
        self._left = iter(range(40))

    def producer(self, name: str) -> Clients:
        return self

    def consumer(self, subscription: Any, name: str) -> Clients:
        return self

    def send(self, seq: int, key: str, payload: bytes, settle: Any) -> None:
        settle(Settled(AttemptOutcome.ACKED, partition=-1, position=Position(1, seq)))

    def receive(self, timeout_s: float) -> Received | None:
        seq = next(self._left, None)
        return None if seq is None else Received("p", seq, "k", 0, -1, Position(1, seq), 0, 0, None)

    def acknowledge(self, received: Received) -> None:
        pass

    def find_acknowledged(self, *_: Any) -> dict[int, Position]:
        return {}

    def close(self) -> None:
        pass


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    plant_system(monkeypatch, PlantedSystem(clients=lambda _: Clients(), cluster=Clients()))
    return make_run(
        tmp_path / "run",
        "sync_nominal",
        {"settle_s": 0.2, "workload.rate": 200, "workload.producers": 1, **ON_PLANTED},
        sealed=True,
    )


def write_segments(run: Run, count: int) -> RecordReader:
    """A record of one row a segment."""
    writer = RecordWriter(run, "load-0", table="publishes", epoch=0)
    for number in range(count):
        writer.append(make_batch("publishes", [{"seq": number, "batch_index": None}], CONSTANT))
    assert writer.segments == count
    return RecordReader(run, "load-0", epoch=0)


def seqs(segments: Iterator[Any]) -> list[int]:
    return [row["seq"] for segment in segments for row in segment.rows.to_pylist()]


def remove_segment(run: Run, client: str, number: int) -> None:
    Path(run.path("clients", client, f"0-{number:06}.arrow")).unlink()


def test_a_record_without_a_gap_misses_nothing(run: Run) -> None:
    reader = write_segments(run, 5)
    assert seqs(reader.read_new()) == [0, 1, 2, 3, 4]
    assert seqs(reader.read_rest()) == []
    assert (reader.describe().segments, reader.describe().missing) == (5, ())


def test_segments_behind_missing_ones_are_read_and_the_missing_ones_are_named(run: Run) -> None:
    reader = write_segments(run, 7)
    for number in (0, 3, 4):
        remove_segment(run, "load-0", number)
    assert seqs(reader.read_new()) == []
    assert seqs(reader.read_rest()) == [1, 2, 5, 6]
    assert (reader.describe().segments, reader.describe().missing) == (4, (0, 3, 4))


def test_a_record_that_grows_misses_no_segment_that_is_still_to_come(run: Run) -> None:
    reader = write_segments(run, 2)
    assert seqs(reader.read_new()) == [0, 1]
    assert reader.describe().missing == ()


@pytest.mark.parametrize(
    ("content", "damaged"),
    [
        # The ends of the three texts of a column. The second text would begin beyond the file.
        pytest.param(struct.pack("<4i", 0, 1, 2, 3), struct.pack("<4i", 0, 1 << 30, 2, 3), id="the batch"),
        pytest.param(b"ARROW1", b"ARROW2", id="the file"),
        pytest.param(b"settled_at", b"settled_xx", id="a column"),
        pytest.param(b"brokerproof.acks", b"brokerproof.axxx", id="the name of the acks"),
        pytest.param(b'"positions": [', b'"positions": {', id="the text of the acks"),
        pytest.param(b'"positions"', b'"positionx"', id="a field of the acks"),
    ],
)
def test_a_segment_that_is_damaged_is_named(run: Run, content: bytes, damaged: bytes) -> None:
    acks = [ConfirmedAcks(cluster="mycluster", positions={0: Position(1, 2)}, at=5)]
    rows = make_batch("publishes", [{"seq": seq, "batch_index": None} for seq in range(3)], CONSTANT)
    RecordWriter(run, "load-0", table="publishes", epoch=0).append(rows, acks)
    file = Path(run.path("clients", "load-0", "0-000000.arrow"))
    assert content in file.read_bytes()
    file.write_bytes(file.read_bytes().replace(content, damaged))
    with pytest.raises(RunError, match=f"{re.escape(str(file))} is damaged: "):
        recover_tables(run)
    assert read_record(run, TableSeal, "publishes") is None


def record_clients(run: Run) -> None:
    """Let a producer and a consumer come to their end, each with several segments."""
    now = clock.now_us()
    write_record(run, PhaseTimes(steady_at=now, impact_at=now, recovery_at=now, ends_at=now + 2_000_000))
    write_record(run, ConsumersStop(at=now))
    ScheduledProducer(run, plan_producers(run)[0]).publish()
    consume(run, plan_consumers(run)[0])


def find_problems(run: Run) -> list[str]:
    """Make the tables of the records, and compare the counts."""
    assert recover_tables(run) == ["publishes", "deliveries"]
    attempts, deliveries = (pq.read_table(run.table(table)).to_pylist() for table in ("publishes", "deliveries"))
    columns = ("cluster", "subscription", "consumer", "incarnation")
    of_outcomes = Counter((row["producer"], row["epoch"], row["outcome"]) for row in attempts)
    of_consumers = Counter(tuple(row[name] for name in columns) for row in deliveries)
    summary = PartSummary(
        attempts=[(*group, count) for group, count in of_outcomes.items()],
        deliveries=[(*group, count) for group, count in of_consumers.items()],
        **{"producers": [], "logs": [], "recorded_twice": []},
        **dict.fromkeys(("two_homes", "two_payloads", "two_keys")),
    )
    return [problem for problems in find_count_problems(run, [summary]).values() for problem in problems]


def test_a_table_that_is_made_of_a_whole_record_agrees_with_the_client_s_count(run: Run) -> None:
    record_clients(run)
    assert find_problems(run) == []
    read = read_record(run, ClientRecordRead, "load-0")
    assert read is not None
    assert read.epochs[0].segments > 1


def test_a_record_whose_last_segments_are_gone_holds_less_than_its_client_counted(run: Run) -> None:
    record_clients(run)
    last = max(Path(run.path("clients", "load-0")).glob("*.arrow"))
    rows, number = len(read_segment(last)), int(last.stem.partition("-")[2])
    assert rows
    last.unlink()
    problems = find_problems(run)
    assert problems[0] == f"mycluster-p0 wrote {number + 1} segments, and its record ends after {number}."
    assert problems[1].startswith("The numbers of rows of mycluster-p0 differ: it counted ")
    assert len(problems) == 2


def test_a_record_whose_first_segment_is_missing_is_named_and_the_rest_is_kept(run: Run) -> None:
    record_clients(run)
    rows = len(read_segment(Path(run.path("clients", "load-0", "0-000000.arrow"))))
    remove_segment(run, "load-0", 0)
    problems = find_problems(run)
    assert problems[0] == "Segments that are missing from the record of mycluster-p0: 0."
    counted = sum(len(pq.read_table(file)) for file in Path(run.table("publishes")).glob("*.parquet")) + rows
    assert problems[1].startswith(f"The numbers of rows of mycluster-p0 differ: it counted {counted}, ")


@pytest.mark.parametrize("end", [{"epoch": None, "acked": None}, {"epoch": 1}])
def test_a_producer_that_left_no_end_of_its_own_may_have_sent_all_that_it_reserved(
    run: Run, end: dict[str, Any]
) -> None:
    """Its task leaves an end without counts for it, and another process of the same producer one of another epoch."""
    record_clients(run)
    segments = sorted(Path(run.path("clients", "load-0")).glob("0-*.arrow"))
    gone = pa.ipc.open_file(segments[-1]).read_all().column("seq").to_pylist()
    segments[-1].rename(segments[-1].with_name("0-gone"))
    left = read_record(run, ProducerEnd, 0)
    assert left is not None
    write_record(run, left.model_copy(update=end))
    recover_tables(run)
    outcomes = {
        row["seq"]: row["outcome"]
        for file in Path(run.table("publishes")).glob("*.parquet")
        for row in pq.read_table(file).to_pylist()
    }
    assert {outcomes.get(seq) for seq in gone} == {"unknown"}


def test_a_consumer_whose_record_is_gone_holds_less_than_it_counted(run: Run) -> None:
    record_clients(run)
    for file in Path(run.path("clients", "consume-0")).glob("*.arrow"):
        file.rename(file.with_name("0-gone"))
    problems = find_problems(run)
    assert problems[-1] == (
        "The numbers of rows of audit-c0 differ: it counted 40, its record holds 0, the table deliveries holds 0."
    )


def test_a_consumer_of_a_later_epoch_has_incarnations_of_its_own(run: Run) -> None:
    write_record(run, ConsumersStop(at=clock.now_us()))
    task = plan_consumers(run)[0]
    for epoch in (0, 1):
        consume(run, task, epoch=epoch)
    assert recover_tables(run) == ["deliveries"]
    found = Counter(row["incarnation"] for row in pq.read_table(run.table("deliveries")).to_pylist())
    assert found == {0: 40, 1: 40}
    end = read_record(run, ConsumerEnd, 0)
    assert end is not None
    assert (end.epoch, end.delivered) == (1, 40)


def test_a_consumer_leaves_its_epoch_before_it_receives_anything(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """So a consumer that is killed in its first moments counts as a process of its client."""
    seen: list[list[int]] = []

    class Watching(Clients):
        def consumer(self, subscription: Any, name: str) -> Clients:
            seen.append(list_epochs(run, "consume-0"))
            return self

    plant_system(monkeypatch, PlantedSystem(clients=lambda _: Watching(), cluster=Clients()))
    write_record(run, ConsumersStop(at=clock.now_us()))
    consume(run, plan_consumers(run)[0], epoch=1)
    assert seen == [[1]]


def read_segment(file: Path) -> list[Any]:
    with pa.ipc.open_file(file) as content:
        return content.read_all().to_pylist()
