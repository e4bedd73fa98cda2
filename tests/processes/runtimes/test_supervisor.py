"""The supervisor's decisions, with nodes that are names in sets and a clock that does not wait."""

from __future__ import annotations

from pathlib import Path

import pytest
from brokerproof.errors import NodeError
from brokerproof.runtimes.protocols import NodeSpec
from brokerproof.runtimes.restarts import RestartEvent, RestartRecord, RestartStep
from brokerproof.runtimes.supervision import SupervisedNode
from brokerproof.runtimes.supervisor import Supervisor
from simulated_clock import SimulatedClock

from .conftest import MakeSpec

AFTER_S = 10.0


class Nodes:
    """Nodes that end, are acted on, and cannot be started, as a test says."""

    def __init__(self) -> None:
        self.ended: set[str] = set()
        self.acted_on: set[str] = set()
        self.broken: set[str] = set()
        self.started: list[str] = []

    def has_ended_by_itself(self, name: str) -> bool | None:
        return None if name in self.acted_on else name in self.ended

    def start_again(self, spec: NodeSpec) -> bool:
        if spec.name in self.broken:
            raise NodeError("it cannot be formatted")
        if spec.name not in self.ended:
            return False
        self.ended.remove(spec.name)
        self.started.append(spec.name)
        return True


class Watch:
    """A supervisor of two nodes."""

    def __init__(self, file: Path, make_spec: MakeSpec) -> None:
        self.nodes, self.clock, self.record = Nodes(), SimulatedClock(), RestartRecord(file)
        supervised = [SupervisedNode(spec=make_spec(name), after_s=AFTER_S) for name in ("n1", "n2")]
        self.supervisor = Supervisor(self.nodes, supervised, self.record, self.clock)

    def look_for(self, seconds: float) -> None:
        for _ in range(round(seconds * 10)):
            self.supervisor.look()
            self.clock.sleep(0.1)

    def events(self) -> list[tuple[str, str, int]]:
        return [(event.node, str(event.step), event.times) for event in self.record.read()]


@pytest.fixture
def watch(tmp_path: Path, make_spec: MakeSpec) -> Watch:
    return Watch(tmp_path / "restarts.jsonl", make_spec)


def test_a_node_that_ended_is_started_after_its_time_and_not_earlier(watch: Watch) -> None:
    watch.nodes.ended.add("n1")
    watch.look_for(AFTER_S - 0.1)
    assert watch.nodes.started == []
    watch.look_for(0.3)
    assert watch.nodes.started == ["n1"]
    ended, restarted = watch.record.read()
    assert AFTER_S <= (restarted.at - ended.at) / 1e6 <= AFTER_S + 0.2


def test_one_that_ends_again_and_again_is_started_each_time_and_counted(watch: Watch) -> None:
    for _ in range(3):
        watch.nodes.ended.add("n1")
        watch.look_for(AFTER_S + 1)
    assert watch.events() == [("n1", step, times) for times in (1, 2, 3) for step in ("ended", "restarted")]


def test_one_that_is_taken_down_while_it_waits_is_left_alone(watch: Watch) -> None:
    watch.nodes.ended.add("n1")
    watch.look_for(AFTER_S / 2)
    watch.nodes.ended.remove("n1")
    watch.look_for(2 * AFTER_S)
    assert watch.nodes.started == []
    assert watch.events() == [("n1", "ended", 1)]


def test_the_time_of_one_that_ends_again_later_begins_anew(watch: Watch) -> None:
    watch.nodes.ended.add("n1")
    watch.look_for(AFTER_S - 1)
    watch.nodes.ended.remove("n1")
    watch.look_for(1)
    watch.nodes.ended.add("n1")
    watch.look_for(AFTER_S - 1)
    assert watch.nodes.started == []


def test_one_that_somebody_acts_on_delays_no_other_one(watch: Watch) -> None:
    watch.nodes.ended |= {"n1", "n2"}
    watch.look_for(1)
    watch.nodes.acted_on.add("n1")
    watch.look_for(AFTER_S)
    assert watch.nodes.started == ["n2"]
    watch.nodes.acted_on.clear()
    watch.look_for(0.1)
    assert watch.nodes.started == ["n2", "n1"]


def test_one_that_cannot_be_started_is_tried_again_after_the_same_time(
    watch: Watch, caplog: pytest.LogCaptureFixture
) -> None:
    watch.nodes.ended |= {"n1", "n2"}
    watch.nodes.broken.add("n1")
    watch.look_for(AFTER_S + 1)
    assert watch.nodes.started == ["n2"]
    assert "n1 cannot be started: it cannot be formatted" in caplog.text
    watch.nodes.broken.clear()
    watch.look_for(AFTER_S - 2)
    assert watch.nodes.started == ["n2"]
    watch.look_for(2)
    assert watch.nodes.started == ["n2", "n1"]
    assert [event for event in watch.events() if event[0] == "n1"] == [("n1", "ended", 1), ("n1", "restarted", 1)]


def test_an_event_that_cannot_be_recorded_ends_the_supervisor(tmp_path: Path, make_spec: MakeSpec) -> None:
    watch = Watch(tmp_path / "no_such_directory" / "restarts.jsonl", make_spec)
    watch.nodes.ended.add("n1")
    with pytest.raises(FileNotFoundError):
        watch.look_for(0.1)


def test_half_an_event_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "restarts.jsonl"
    event = RestartEvent(node="n1", step=RestartStep.ENDED, at=7, times=1)
    record = RestartRecord(file)
    assert record.read() == []
    record.add(event)
    with file.open("a") as half:
        half.write('{"node": "n')
    assert record.read() == [event]
