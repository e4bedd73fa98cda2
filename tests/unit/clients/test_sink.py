"""What a consumer writes of messages, and what is there after it was ended between its output and its ack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from brokerproof.clients.sink import Processing, Sink, remove_sinks
from brokerproof.errors import RunError
from brokerproof.experiment.fault import ClientMoment
from brokerproof.experiment.workload import Commit
from brokerproof.systems.clients import Position, Received, list_columns
from builders import make_run

BEFORE, AFTER, BY_KEY = Commit


class Killed(BaseException):
    """The process ends here."""


class Acks:
    """A consumer whose acks are a list."""

    def __init__(self) -> None:
        self.acked: list[int | None] = []

    def acknowledge(self, message: Received) -> None:
        self.acked.append(message.seq)


@pytest.fixture
def sink(tmp_path: Path) -> Sink:
    return Sink(run=make_run(tmp_path / "run", "sync_nominal"), cluster="mycluster", subscription="audit")


def receive(*seqs: int, producer: str | None = "p0") -> list[Received]:
    named = [(seq, producer, None if producer is None else seq) for seq in seqs]
    return [Received(name, number, "k", 0, -1, Position(7, at, None), 0, 0, None) for at, name, number in named]


def process(
    sink: Sink,
    commit: Commit,
    messages: Sequence[Received],
    *,
    name: str = "audit-c0-0",
    rest: Sequence[Received] | None = (),
    killed_at: ClientMoment | None = None,
) -> list[int | None]:
    """Process messages in one process of a consumer. Returns the seqs that it acked."""

    def reach(moment: ClientMoment, holding: str) -> None:
        assert holding.startswith(f"{len(messages)} messages that it has ")
        if moment is killed_at:
            raise Killed

    consumer, constant = Acks(), {"run_id": "r", "topic": "t", "subscription": "audit", "consumer": "audit-c0"}
    processing = Processing(
        commit=commit,
        sink=sink,
        name=name,
        constant={**constant, "cluster": "mycluster", "incarnation": 0},
        describe=list_columns,
        confirm=lambda consumer, columns: rest,
        reach=reach,
    )
    try:
        processing.process(consumer, messages)  # type: ignore[arg-type]
    except Killed:
        assert killed_at is not None
    return consumer.acked


def outputs(sink: Sink, shares: int = 1) -> Counter[int | None]:
    rows = [row for share in range(shares) for batch in sink.read(share, shares) for row in batch.to_pylist()]
    return Counter(row["seq"] for row in rows)


@pytest.mark.parametrize("commit", Commit)
def test_every_message_is_acked_and_has_one_output(sink: Sink, commit: Commit) -> None:
    assert process(sink, commit, receive(0, 1, 2)) == [0, 1, 2]
    assert process(sink, commit, receive(3), name="audit-c0-1") == [3]
    assert outputs(sink) == Counter(range(4))
    (row,) = [row for batch in sink.read() for row in batch.to_pylist() if row["seq"] == 3]
    shown = {name: row[name] for name in ("producer", "key", "segment", "offset", "consumer", "incarnation")}
    assert shown == {
        "producer": "p0",
        "key": "k",
        "segment": 7,
        "offset": 3,
        "consumer": "audit-c0",
        "incarnation": 0,
    }


@pytest.mark.parametrize(
    ("commit", "acked", "after_kill", "after_redelivery"),
    [
        # The ack is there and the output is not: what comes again is not this message, which is lost.
        (BEFORE, [0, 1], [], []),
        # The output is there and the ack is not: the message comes again, and is written again.
        (AFTER, [], [0, 1], [0, 0, 1, 1]),
        # The second output replaces the first.
        (BY_KEY, [], [0, 1], [0, 1]),
    ],
)
def test_a_consumer_that_is_killed_in_the_middle(
    sink: Sink, commit: Commit, acked: list[int], after_kill: list[int], after_redelivery: list[int]
) -> None:
    assert process(sink, commit, receive(0, 1), killed_at=ClientMoment.IN_BATCH) == acked
    assert outputs(sink) == Counter(after_kill)
    redelivered = [seq for seq in (0, 1) if seq not in acked]
    if redelivered:
        process(sink, commit, receive(*redelivered), name="audit-c0-1")
    assert outputs(sink) == Counter(after_redelivery)


@pytest.mark.parametrize("commit", Commit)
def test_a_consumer_that_is_killed_before_it_begins_leaves_nothing(sink: Sink, commit: Commit) -> None:
    assert process(sink, commit, receive(0), killed_at=ClientMoment.HOLDS_UNACKNOWLEDGED) == []
    assert not outputs(sink)


def test_what_the_cluster_does_not_confirm_is_not_processed_at_most_once(sink: Sink) -> None:
    """Its ack may be lost. Then the message comes again, and another output of it would be a second one."""
    assert process(sink, BEFORE, receive(0), rest=None) == [0]
    assert not outputs(sink)
    process(sink, BEFORE, receive(0), name="audit-c0-1")
    assert outputs(sink) == Counter([0])


def test_the_rest_of_a_batch_that_was_acknowledged_meanwhile_has_outputs_too(sink: Sink) -> None:
    assert process(sink, BEFORE, receive(0, 1), rest=receive(2)) == [0, 1]
    assert outputs(sink) == Counter([0, 1, 2])


def test_a_message_without_a_name_has_the_name_of_its_position(sink: Sink) -> None:
    for name in ("audit-c0-0", "audit-c0-1"):
        process(sink, BY_KEY, receive(4, 5, producer=None), name=name)
    assert outputs(sink) == Counter({None: 2})


@pytest.mark.parametrize("shares", [1, 2, 7])
def test_shares_have_each_object_once(sink: Sink, shares: int) -> None:
    process(sink, BY_KEY, receive(*range(30)))
    assert outputs(sink, shares) == Counter(range(30))


def test_a_damaged_object_is_named(sink: Sink, tmp_path: Path) -> None:
    process(sink, AFTER, receive(0))
    file = tmp_path / "run" / "sinks" / "audit@mycluster" / "audit-c0-0-0.arrow"
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(RunError, match=r"audit-c0-0-0\.arrow is damaged: "):
        list(sink.read())


def test_sinks_can_be_removed_twice(sink: Sink, tmp_path: Path) -> None:
    process(sink, AFTER, receive(0))
    for _ in range(2):
        remove_sinks(sink.run)
    assert not (tmp_path / "run" / "sinks").exists()
    assert not outputs(sink)
