"""What is in the sink of a streaming query that was killed between a batch's output and its commit, without Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from brokerproof.clients.consuming import plan_consumers
from brokerproof.clients.sink import Sink
from brokerproof.experiment.fault import ClientMoment
from brokerproof.experiment.workload import Streaming
from brokerproof.run.directory import Run
from brokerproof.run.tables import SCHEMAS, make_batch
from builders import make_run
from streaming_client import StreamingConsumer
from streaming_source import ROWS, Notice

BEFORE, _, BY_BATCH, FOREACH = Streaming


class Killed(BaseException):
    """The process ends here."""


def make_stream(tmp_path: Path, streaming: Streaming) -> Run:
    subscriptions = [{"name": "stream", "streaming": str(streaming)}]
    return make_run(tmp_path / "run", "sync_nominal", {"workload.subscriptions": subscriptions})


def run_batches(run: Run, *batches: int, epoch: int = 0, killed_at: ClientMoment | None = None) -> None:
    """Process batches as a process of the consumer does. Batch N has the messages 2 N and 2 N + 1."""
    (task,) = plan_consumers(run)
    consumer = StreamingConsumer(run, task, epoch=epoch)

    def reach(moment: ClientMoment, holding: str) -> None:
        if moment is killed_at:
            raise Killed

    consumer.reach = reach
    try:
        for number in batches:
            rows = pa.Table.from_pylist([make_row(2 * number), make_row(2 * number + 1)], ROWS)
            consumer.process_batch(SimpleNamespace(toArrow=lambda rows=rows: rows), number)  # type: ignore[arg-type]
            consumer.write_committed()
            assert task.find_subscription(run).streaming is not BEFORE or count_outputs(run)[2 * number] == 0
            run.write_text(f"checkpoints/stream@{task.cluster}/commits/{number}", "v1\n{}")
            consumer.write_committed()
    except Killed:
        pass


def make_row(seq: int) -> dict[str, Any]:
    place = {"partition": seq % 2, "segment": 0, "offset": seq, "batch_index": None}
    return {"producer": "p0", "seq": seq, "key": "k", "payload_hash": 0, **place}


def count_outputs(run: Run) -> Counter[int]:
    (task,) = plan_consumers(run)
    batches = Sink(run=run, cluster=task.cluster, subscription="stream").read()
    return Counter(seq for batch in batches for seq in batch.column("seq").to_pylist())


@pytest.mark.parametrize("streaming", [BEFORE, BY_BATCH, FOREACH])
def test_every_message_has_one_output(tmp_path: Path, streaming: Streaming) -> None:
    run = make_stream(tmp_path, streaming)
    run_batches(run, 0, 1)
    run_batches(run, 2, epoch=1)
    assert count_outputs(run) == dict.fromkeys(range(6), 1)


@pytest.mark.parametrize(
    ("streaming", "repeated", "found"),
    [(BEFORE, [1], {2: 1, 3: 1}), (BY_BATCH, [0, 1], dict.fromkeys(range(4), 1)), (FOREACH, [0], {0: 2, 1: 2})],
)
def test_a_kill_between_output_and_commit(
    tmp_path: Path, streaming: Streaming, repeated: list[int], found: dict[int, int]
) -> None:
    run = make_stream(tmp_path, streaming)
    run_batches(run, 0, killed_at=ClientMoment.IN_BATCH)
    # A batch that was committed does not come again.
    run_batches(run, *repeated, epoch=1)
    assert count_outputs(run) == found


@pytest.mark.parametrize("streaming", [BEFORE, BY_BATCH, FOREACH])
def test_a_query_that_is_killed_before_it_writes_leaves_nothing(tmp_path: Path, streaming: Streaming) -> None:
    run = make_stream(tmp_path, streaming)
    run_batches(run, 0, killed_at=ClientMoment.HOLDS_UNACKNOWLEDGED)
    assert count_outputs(run) == {}


def test_deliveries_are_recorded_before_a_task_goes_on(tmp_path: Path) -> None:
    run = make_stream(tmp_path, BY_BATCH)
    (task,) = plan_consumers(run)
    consumer, kept = StreamingConsumer(run, task, epoch=1), list[pa.RecordBatch]()
    consumer.keep = lambda: kept.append(consumer.deliveries.take()[0])
    row = {**make_row(4), "published_at": 0, "replicated_from": None}
    stored = pa.RecordBatch.from_pylist([row], make_batch("stored", [], {}).schema)
    consumer.note(Notice.DELIVERED, stored)
    consumer.note(Notice.DELIVERED, stored)
    assert [batch.schema for batch in kept] == [SCHEMAS["deliveries"]] * 2
    rows = [batch.to_pylist()[0] for batch in kept]
    columns = ("subscription", "consumer", "incarnation", "arrival", "seq", "redelivery_count", "acknowledged_at")
    assert [[each[name] for name in columns] for each in rows] == [
        ["stream", "stream-c0", 1, 0, 4, 0, None],
        ["stream", "stream-c0", 1, 1, 4, 0, None],
    ]
    assert consumer.deliveries.count == 2


def test_a_query_is_ready_once_it_asked_for_the_logs(tmp_path: Path) -> None:
    run = make_stream(tmp_path, BY_BATCH)
    (task,) = plan_consumers(run)
    consumer, ready = StreamingConsumer(run, task), list[bool]()
    consumer.say_ready = lambda: ready.append(consumer.has_subscribed)
    assert not consumer.has_subscribed
    for _ in range(2):
        consumer.note(Notice.CONNECTED, None)
    assert ready == [True]
