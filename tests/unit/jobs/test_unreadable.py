"""A part of a log that cannot be read is passed over if nothing but the log explains that."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
import read_back
from brokerproof.run.records import FaultsUndone, LogRead, UnreadablePart, read_record, write_record
from brokerproof.systems.clients import Position, Received, list_columns
from brokerproof.systems.protocols import TopicLog
from brokerproof.systems.pulsar.client import PulsarClients
from builders import make_run
from pulsar import MessageId

from ..planted_system import ON_PLANTED, PlantedSystem, plant_system

# Three parts: two of the first segment, and the second segment.
PARTS = [(Position(1, 0), Position(1, 3)), (Position(1, 3), Position(1, 6)), (Position(2, 0), Position(2, 4))]
POSITIONS = [Position(1, offset) for offset in range(6)] + [Position(2, offset) for offset in range(4)]
KILLED, STANDBY = "bookie-us-1", "broker-us-1"
FAULTS: dict[str, dict[str, Any]] = {
    "gone": {"kind": "kill", "targets": {"nodes": [KILLED]}, "permanent": True},
    "frozen": {"kind": "pause", "targets": {"nodes": ["bookie-us-2"]}, "permanent": True},
    "help": {"kind": "start", "targets": {"nodes": [STANDBY]}},
    "help_for_good": {"kind": "start", "targets": {"nodes": [STANDBY]}, "permanent": True},
}


class Log:
    """Clients whose reader stops before the first position that is not readable."""

    describe = staticmethod(list_columns)

    def __init__(
        self, unreadable: Collection[Position], hanging: Collection[Position], breaks_at: Position | None
    ) -> None:
        """At a position of `hanging`, the first reader hangs, and the next one does not."""
        self.unreadable, self.hanging, self.left = set(unreadable), set(hanging), list[Position]()
        self.breaks_at = breaks_at
        self.readers = 0

    def reader(self, partition: int, start: Position | None = None) -> Log:
        """Ask this log for a reader as the clients of Pulsar ask a broker."""
        clients = PulsarClients.__new__(PulsarClients)
        vars(clients).update(_topic="t", _cluster="mycluster", _client=self)
        clients.reader(partition, start)
        return self

    def create_reader(self, name: str, first: MessageId, *, start_message_id_inclusive: bool = False) -> Any:
        """As a broker does, read the entry of `first` too; the client drops it if it is to begin behind it."""
        self.readers += 1
        begin = first.ledger_id(), first.entry_id()
        self.dropped = (-1, -1) if start_message_id_inclusive else begin
        self.left = [each for each in POSITIONS if each[:2] >= begin]
        return SimpleNamespace(_reader=None)

    def read(self, timeout_s: float) -> Received | None:
        if not self.left or self.left[0] in self.unreadable or (self.left[0] in self.hanging and self.readers == 1):
            return None
        if self.left[0][:2] <= self.dropped:
            self.left.pop(0)
            return None
        if self.left[0] == self.breaks_at:
            raise ValueError("a message that the client cannot decode")
        self.last = self.left.pop(0)
        return Received("p", self.last.offset, "k", 0, -1, self.last, 0, 0, None)

    def at_end(self) -> bool:
        return not self.left

    def next_position(self) -> Position:
        return Position(self.last.segment, self.last.offset + 1)

    def close(self) -> None:
        pass


def read(
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    unreadable: Collection[Position],
    *,
    undone: bool = True,
    undisturbed: bool = True,
    ill: Collection[str] = (),
    tells_parts: bool = True,
    faults: Mapping[str, str] = MappingProxyType({}),
    hanging: Collection[Position] = (),
    breaks_at: Position | None = None,
) -> tuple[LogRead, list[tuple[int, int]]]:
    """The record and the positions that were read. `faults` has those of the scenario, with the states they got to."""
    nodes = SimpleNamespace(
        specs=lambda: {name: name for name in run.topology.nodes}, is_healthy=lambda name: name not in ill
    )
    # A system that locates copies also has these two methods, which nobody asks here.
    others = {"find_holders": list, "find_copies": list}
    cluster = SimpleNamespace(**({"find_parts": lambda *_: PARTS, **others} if tells_parts else {}))
    log = Log(unreadable, hanging, breaks_at)
    planted = PlantedSystem(clients=lambda _: log, cluster=cluster, nodes=nodes)
    plant_system(monkeypatch, planted)
    run = make_run(
        directory / "run",
        "sync_nominal",
        {
            "topology": "sync_active_passive_cold",
            "faults": [{"name": name, **FAULTS[name]} for name in faults],
            **ON_PLANTED,
        },
    )
    for name, state in faults.items():
        kind, targets = FAULTS[name]["kind"], FAULTS[name]["targets"]["nodes"]
        run.append(
            "faults", [{"run_id": "r", "fault": name, "kind": kind, "targets": targets, "state": state, "at": 0}]
        )
    write_record(run, FaultsUndone(undone=undone, undisturbed=undisturbed, problems=(), at=0))
    monkeypatch.setattr(read_back, "_STALLED_S", 0.01)
    task = read_back.ReadTask(number=0, log=TopicLog(cluster="mycluster", partition=-1, end=Position(2, 4)))
    rows = [row for rows in read_back.read_log(run, task) for row in rows.to_pylist()]
    record = read_record(run, LogRead, 0)
    assert record is not None
    return record, [(row["segment"], row["offset"]) for row in rows]


def test_a_log_that_can_be_read_has_no_unreadable_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record, found = read(tmp_path, monkeypatch, [])
    assert (record.read_to_end, record.passed, record.unreadable) == (True, (2, 4), ())
    assert found == [each[:2] for each in POSITIONS]


def test_all_messages_of_the_last_entry_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The position after an entry does not say whether more messages of its batch follow."""
    monkeypatch.setattr(sys.modules[__name__], "POSITIONS", [Position(2, 3, index) for index in range(3)])
    record, found = read(tmp_path, monkeypatch, [])
    assert (record.read_to_end, found) == (True, [(2, 3)] * 3)


def test_a_reader_that_breaks_has_passed_what_is_before_its_last_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last entry may be a batch with more messages."""
    record, found = read(tmp_path, monkeypatch, [], breaks_at=Position(1, 4))
    assert (record.read_to_end, record.passed) == (False, (1, 3))
    assert found[-1] == (1, 3)
    assert "cannot decode" in record.why


def test_a_reader_that_breaks_at_once_has_passed_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record, found = read(tmp_path, monkeypatch, [], breaks_at=Position(1, 0))
    assert (record.read_to_end, record.passed, found) == (False, None, [])


@pytest.mark.parametrize(
    ("unreadable", "start", "end"),
    [
        (Position(1, 1), (1, 1), (1, 3)),
        # The reader got to the end of the part before.
        (Position(1, 3), (1, 3), (2, 0)),
        (Position(1, 0), (1, 0), (1, 3)),
        (Position(2, 2), (2, 2), (2, 4)),
    ],
)
def test_reading_goes_on_behind_a_part_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unreadable: Position, start: tuple[int, int], end: tuple[int, int]
) -> None:
    record, found = read(tmp_path, monkeypatch, [unreadable])
    assert (record.read_to_end, record.passed) == (False, (2, 4))
    assert record.unreadable == (UnreadablePart(start=start, end=end),)
    assert record.why == f"the entries from {start[0]}:{start[1]} to {end[0]}:{end[1]} cannot be read"
    assert found == [each[:2] for each in POSITIONS if not start <= each[:2] < end]


def test_a_part_behind_one_without_any_readable_entry_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record, found = read(tmp_path, monkeypatch, [each for each in POSITIONS if (1, 0) <= each[:2] < (1, 3)])
    assert [(part.start, part.end) for part in record.unreadable] == [((1, 0), (1, 3))]
    assert found == [each[:2] for each in POSITIONS if each[:2] >= (1, 3)]


def test_a_reader_that_hangs_is_replaced_and_no_part_is_unreadable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, found = read(tmp_path, monkeypatch, [], hanging=[Position(1, 4)])
    assert (record.read_to_end, record.unreadable) == (True, ())
    assert found == [each[:2] for each in POSITIONS]


def test_two_parts_may_be_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record, found = read(tmp_path, monkeypatch, [Position(1, 2), Position(2, 0)])
    assert [(part.start, part.end) for part in record.unreadable] == [((1, 2), (1, 3)), ((2, 0), (2, 4))]
    assert found == [(1, 0), (1, 1), (1, 3), (1, 4), (1, 5)]


def test_the_reading_ends_after_the_most_parts_that_cannot_be_read_and_names_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_back, "_MOST_PARTS", 2)
    record, found = read(tmp_path, monkeypatch, [Position(1, 1), Position(1, 3)])
    assert (record.read_to_end, record.passed) == (False, (2, 0))
    assert record.why == "the entries from 1:1 to 1:3 and from 1:3 to 2:0 cannot be read"
    # The second segment can be read, and was not.
    assert found == [(1, 0)]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"undone": False}, "nothing proves that every fault was undone"),
        # A node was ended from outside the run, and no step undoes that.
        ({"undisturbed": False}, "nothing proves that every fault was undone"),
        ({"ill": [KILLED]}, f"{KILLED} did not say"),
        ({"tells_parts": False}, "the system does not say"),
        # The one that was killed for good need not be healthy; another one must.
        ({"faults": {"gone": "effective"}, "ill": [KILLED, "bookie-us-2"]}, "bookie-us-2 did not say"),
        # It was not killed.
        ({"faults": {"gone": "injecting"}, "ill": [KILLED]}, f"{KILLED} did not say"),
        # A node that a fault started should run, although it was on standby.
        ({"faults": {"help": "effective"}, "ill": [STANDBY]}, f"{STANDBY} did not say"),
        ({"faults": {"help_for_good": "effective"}, "ill": [STANDBY]}, f"{STANDBY} did not say"),
        # Its nodes are there, and they answer no reader.
        ({"faults": {"frozen": "effective"}}, "frozen is in force for good"),
    ],
    ids=str,
)
def test_nothing_is_called_unreadable_if_something_else_may_explain_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], why: str
) -> None:
    record, found = read(tmp_path, monkeypatch, [Position(1, 1)], **changes)
    assert (record.read_to_end, record.passed, record.unreadable) == (False, (1, 1), ())
    said, _, reason = record.why.partition("; that the log is to blame is not proven: ")
    assert said == "no message for 0 s at 1:0, before the end, 2:4"
    assert why in reason
    assert found == [(1, 0)]


@pytest.mark.parametrize(("faults", "ill"), [({"gone": "effective"}, KILLED), ({}, STANDBY)], ids=["ended", "standby"])
def test_a_node_that_should_not_run_need_not_be_healthy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, faults: Mapping[str, str], ill: str
) -> None:
    record, _ = read(tmp_path, monkeypatch, [Position(1, 1)], faults=faults, ill=[ill])
    assert [(part.start, part.end) for part in record.unreadable] == [((1, 1), (1, 3))]


def test_nodes_that_were_started_for_good_hinder_no_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record, _ = read(tmp_path, monkeypatch, [Position(1, 1)], faults={"help_for_good": "effective"})
    assert [(part.start, part.end) for part in record.unreadable] == [((1, 1), (1, 3))]
