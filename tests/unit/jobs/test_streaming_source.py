"""What a streaming query reads in a batch and what its checkpoint proves, tested without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import streaming_source
from brokerproof.clients.sink import Sink
from brokerproof.errors import RunError
from brokerproof.run.directory import Run
from brokerproof.systems.clients import Position, Received, list_columns
from brokerproof.systems.protocols import TopicLog
from builders import make_run
from streaming_checkpoint import Checkpoint, dump_offset, find_streaming_drains, remove_checkpoints
from streaming_source import LogSlice, Notice, SinkWriter, StreamOptions, TopicReader

from ..planted_system import ON_PLANTED, PlantedSystem, plant_system

SUBSCRIPTIONS = [{"name": "stream", "streaming": "by_batch"}, {"name": "audit"}]
# The last two messages share an entry, and the last entry is in another segment.
POSITIONS = [Position(1, 0), Position(1, 1), Position(1, 2, 0), Position(1, 2, 1), Position(3, 0)]


class Reader:
    """A reader of one log, which begins at a position and ends where the log does."""

    def __init__(self, messages: Sequence[Received]) -> None:
        self.left = list(messages)
        self.following: Position | None = None

    def read(self, timeout_s: float) -> Received | None:
        if not self.left:
            return None
        message = self.left.pop(0)
        assert message.position is not None
        self.following = Position(message.position.segment, message.position.offset + 1)
        return message

    def next_position(self) -> Position | None:
        return self.following

    def close(self) -> None:
        pass


class Log:
    """A cluster with one log, as its clients and as its observation."""

    describe = staticmethod(list_columns)

    def __init__(self) -> None:
        self.end: Position | None = Position(3, 1)
        self.why: str | None = None

    def reader(self, partition: int, start: Position | None = None) -> Reader:
        begin = (0, 0) if start is None else start[:2]
        named = enumerate(POSITIONS)
        messages = [Received("p0", seq, "k", 0, -1, each, 0, 0, None) for seq, each in named if each[:2] >= begin]
        return Reader(messages)

    def find_logs(self, cluster: str | None = None) -> list[TopicLog]:
        return [TopicLog(cluster="mycluster", partition=-1, end=self.end, why=self.why)]

    def close(self) -> None:
        pass


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    log = Log()
    plant_system(monkeypatch, PlantedSystem(cluster=log, clients=lambda _: log))
    return log


@pytest.fixture
def run(tmp_path: Path, log: Log) -> Run:
    return make_run(tmp_path / "run", "sync_nominal", {"workload.subscriptions": SUBSCRIPTIONS, **ON_PLANTED})


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Notice, Any]]:
    """What Spark's processes tell the client."""
    told = list[tuple[Notice, Any]]()
    monkeypatch.setattr(StreamOptions, "tell", lambda self, notice, content=None: told.append((notice, content)))
    return told


@pytest.fixture
def options(run: Run) -> StreamOptions:
    shared = {"run_id": "r", "topic": "t", "subscription": "stream", "consumer": "stream-c0"}
    return StreamOptions(
        run=run.directory,
        cluster="mycluster",
        region=None,
        subscription="stream",
        constant={**shared, "cluster": "mycluster", "incarnation": 0},
        address="",
        secret="",
    )


def read(options: StreamOptions, start: Position | None, end: Position) -> list[int]:
    batches = TopicReader(options).read(LogSlice(-1, start, end))
    return [seq for batch in batches for seq in batch.column("seq").to_pylist()]


@pytest.mark.parametrize(
    ("start", "end", "seqs"),
    [
        (None, Position(1, 1), [0]),
        (Position(1, 1), Position(1, 3), [1, 2, 3]),
        (Position(1, 3), Position(3, 1), [4]),
        (None, Position(3, 1), [0, 1, 2, 3, 4]),
    ],
    ids=["first", "whole_entry", "next_segment", "all"],
)
def test_a_slice_has_the_messages_before_its_end(
    options: StreamOptions, told: list[Any], start: Position | None, end: Position, seqs: list[int]
) -> None:
    assert read(options, start, end) == seqs


def test_messages_are_delivered_before_the_task_goes_on(options: StreamOptions, told: list[Any]) -> None:
    batches = TopicReader(options).read(LogSlice(-1, None, Position(1, 2)))
    next(iter(batches))
    ((notice, rows),) = told
    assert (notice, rows.column("seq").to_pylist()) == (Notice.DELIVERED, [0, 1])


def test_a_slice_whose_end_is_not_reached_fails(
    options: StreamOptions, told: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming_source, "_STALLED_S", 0.0)
    with pytest.raises(RunError, match="no message for 0 s at "):
        read(options, None, Position(4, 0))
    assert told == []


def test_a_batch_ends_where_the_logs_end_now(options: StreamOptions, told: list[Any]) -> None:
    reader = TopicReader(options)
    start = reader.latestOffset(reader.initialOffset(), None)  # type: ignore[arg-type]
    assert start == {"-1": {"segment": 3, "offset": 1}}
    assert reader.partitions({}, start) == [LogSlice(-1, None, Position(3, 1))]
    assert reader.partitions(start, start) == []


def test_a_query_is_connected_once_it_committed_a_batch(options: StreamOptions, told: list[Any]) -> None:
    reader = TopicReader(options)
    start = reader.latestOffset({}, None)  # type: ignore[arg-type]
    assert told == []
    reader.latestOffset(start, None)  # type: ignore[arg-type]
    assert told == [(Notice.CONNECTED, None)]


def test_a_query_is_connected_if_the_logs_are_empty(options: StreamOptions, told: list[Any], log: Log) -> None:
    log.end = None
    assert TopicReader(options).latestOffset({}, None) == {}  # type: ignore[arg-type]
    assert told == [(Notice.CONNECTED, None)]


def test_a_log_that_became_shorter_keeps_its_end(options: StreamOptions, told: list[Any], log: Log) -> None:
    start = dump_offset({-1: Position(5, 0)})
    assert TopicReader(options).latestOffset(start, None) == start  # type: ignore[arg-type]
    log.end, log.why = None, "no node answers"
    assert TopicReader(options).latestOffset(start, None) == start  # type: ignore[arg-type]


def test_a_repeated_batch_has_another_object_in_a_sink_of_tasks(
    options: StreamOptions, told: list[Any], run: Run
) -> None:
    batches = list(TopicReader(options).read(LogSlice(-1, None, Position(1, 2))))
    for _ in range(2):
        SinkWriter(options).write(iter(batches))
    SinkWriter(options).commit([], 7)
    (rows,) = Sink(run=run, cluster="mycluster", subscription="stream").read()
    assert sorted(rows.column("seq").to_pylist()) == [0, 0, 1, 1]
    assert told[1:] == [(Notice.WRITES, 2), (Notice.WRITES, 2), (Notice.WRITTEN, 7)]


def commit(run: Run, batch: int, end: Position, *, committed: bool = True) -> Checkpoint:
    """Leave a batch in the query's checkpoint, as Spark does."""
    checkpoint = Checkpoint(run=run, cluster="mycluster", subscription="stream")
    offset = f'v1\n{{"batchWatermarkMs":0}}\n{{"-1": {{"segment": {end.segment}, "offset": {end.offset}}}}}'
    run.write_text(f"checkpoints/stream@mycluster/offsets/{batch}", offset)
    if committed:
        run.write_text(f"checkpoints/stream@mycluster/commits/{batch}", 'v1\n{"nextBatchWatermarkMs":0}')
    return checkpoint


def find_drain(run: Run, log: Log) -> tuple[bool, str]:
    (drain,) = find_streaming_drains(run, log)  # type: ignore[arg-type]
    assert (drain.cluster, drain.partition, drain.subscription) == ("mycluster", -1, "stream")
    return drain.drained, drain.why


def test_a_query_has_drained_once_it_committed_the_logs_end(run: Run, log: Log) -> None:
    assert find_drain(run, log) == (False, "committed nothing, and the log's end is 3:1")
    commit(run, 9, Position(1, 2))
    commit(run, 10, Position(3, 1), committed=False)
    assert find_drain(run, log) == (False, "committed 1:2, and the log's end is 3:1")
    commit(run, 10, Position(3, 1))
    assert find_drain(run, log) == (True, "committed 3:1, and the log's end is 3:1")
    log.end, log.why = None, "no node answers"
    assert find_drain(run, log) == (False, "no node answers")


def test_an_empty_log_is_drained(run: Run, log: Log) -> None:
    log.end = None
    assert find_drain(run, log) == (True, "committed nothing, and the log's end is nothing")


def test_a_damaged_checkpoint_proves_no_drain(run: Run, log: Log) -> None:
    commit(run, 0, Position(3, 1))
    run.write_text("checkpoints/stream@mycluster/offsets/0", "v1\n{}")
    drained, why = find_drain(run, log)
    assert (drained, "offsets/0 is damaged" in why) == (False, True)


def test_checkpoints_are_removed(run: Run, log: Log) -> None:
    assert commit(run, 0, Position(3, 1)).list_committed() == [0]
    remove_checkpoints(run)
    assert commit(run, 1, Position(3, 1)).list_committed() == [1]
