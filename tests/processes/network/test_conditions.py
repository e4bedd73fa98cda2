"""Conditions stack and go one by one, say what they took effect on, and are refused in clear sentences."""

from __future__ import annotations

import pytest
from brokerproof import clock
from brokerproof.errors import InputError
from brokerproof.experiment.yaml_models import parse
from brokerproof.network import Condition, Plan
from brokerproof.network.route_direction import Histogram

from .lab import Lab, both, one_way_s, partition, receive, shape, silent


def delay(name: str, delay_ms: float) -> Condition:
    return Condition(id=name, senders=["eu-1"], receivers=["us-1"], both_ways=False, delay_ms=delay_ms)


def test_delays_add_up_and_go_one_by_one(lab: Lab) -> None:
    link = lab.start(shape("eu", "us", delay_ms=20))
    viewer, target = lab.connect()
    link.add(delay("a", 100))
    link.add(delay("b", 200))
    assert one_way_s(viewer, target) >= 0.320
    link.remove("a")
    assert 0.220 <= min(one_way_s(viewer, target) for _ in range(3)) < 0.320
    link.remove("b")
    assert 0.020 <= min(one_way_s(viewer, target) for _ in range(3)) < 0.220


def test_one_of_two_cuts_is_enough(lab: Lab) -> None:
    link = lab.start()
    viewer, target = lab.connect()
    link.add(partition(name="a"))
    link.add(partition(name="b", receivers=("us-1",)))
    viewer.sendall(b"x")
    link.remove("a")
    assert silent(target)
    link.remove("b")
    assert receive(target, 1) == b"x"


def test_a_condition_concerns_its_own_nodes_only(lab: Lab) -> None:
    link = lab.start()
    concerned, spared = lab.connect(1), lab.connect(2)
    link.add(delay("a", 300))
    assert one_way_s(*concerned) >= 0.300
    assert min(one_way_s(*spared) for _ in range(3)) < 0.300


def test_an_effect_says_when_and_on_how_much(lab: Lab) -> None:
    link = lab.start()
    lab.connect(1), lab.connect(1), lab.connect(2)
    before = clock.now_us()
    added = link.add(partition())
    assert before <= added.at <= clock.now_us()
    assert (added.connections, added.listeners) == (3, 2)
    state = link.state()
    assert [condition.id for condition in state.conditions] == ["partition"]
    assert (state.listeners, state.cut_listeners, state.connections) == (2, 2, 3)
    assert state.effects == {"partition": added}
    removed = link.remove("partition")
    assert removed.at > added.at
    assert (removed.connections, removed.listeners) == (3, 2)
    assert link.state().cut_listeners == 0
    assert link.state().effects == {}


def test_what_crossed_is_counted_by_node_and_direction_and_stops_at_a_cut(lab: Lab) -> None:
    link = lab.start()
    viewer, target = lab.connect(1)
    lab.connect(2)

    def crossed(sender: str, receiver: str) -> int:
        return link.count_bytes([sender], [receiver], both_ways=False)

    before = crossed("eu-1", "us-1"), crossed("us-1", "eu-1"), crossed("eu-1", "us-2")
    one_way_s(viewer, target, b"x" * 1000)
    assert (crossed("eu-1", "us-1"), crossed("us-1", "eu-1")) == (before[0] + 1000, before[1])
    assert crossed("eu-1", "us-2") == before[2]
    assert link.count_bytes(["us-1"], ["eu-1"], both_ways=True) == before[0] + before[1] + 1000
    link.add(partition(receivers=("us-1",)))
    viewer.sendall(b"x" * 10)
    assert silent(target)
    assert crossed("eu-1", "us-1") == before[0] + 1000
    link.remove("partition")
    assert receive(target, 10) == b"x" * 10
    assert crossed("eu-1", "us-1") == before[0] + 1010


def test_metrics_count_bytes_by_direction(lab: Lab) -> None:
    link = lab.start(*both(delay_ms=1))
    viewer, target = lab.connect()
    before = {pair.sender: pair.bytes for pair in link.metrics().pairs}
    one_way_s(viewer, target, b"x" * 1000)
    one_way_s(target, viewer, b"x" * 10)
    metrics = link.metrics()
    assert {pair.sender: pair.bytes - before[pair.sender] for pair in metrics.pairs} == {"eu": 1000, "us": 10}
    assert [(pair.sender, pair.open, pair.opened) for pair in metrics.pairs] == [("eu", 1, 1), ("us", 0, 0)]
    assert metrics.cpu_s > 0
    assert [pair.added.count for pair in metrics.pairs] == [1, 1]
    assert [pair.added.count for pair in link.metrics().pairs] == [0, 0]


def test_routes_are_listed(lab: Lab) -> None:
    assert lab.start().routes() == lab.plan().routes


def test_what_makes_no_sense_is_refused_in_a_sentence(lab: Lab) -> None:
    link = lab.start()
    link.add(partition())
    with pytest.raises(InputError, match="`partition` is in force already"):
        link.add(partition())
    with pytest.raises(InputError, match=r"no condition is called `partitoin`.*did you mean `partition`"):
        link.remove("partitoin")
    with pytest.raises(InputError, match=r"no route leads from eu-1 to eu-2.*between eu-1, us-1, us-2"):
        link.add(partition(receivers=("eu-2",), name="other"))
    with pytest.raises(InputError, match="no route leads from us-1 to us-2"):
        link.reset("r", ["us-1"], ["us-2"], both_ways=True)
    assert [condition.id for condition in link.state().conditions] == ["partition"]


def test_a_condition_that_changes_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="`a` changes nothing"):
        parse(Condition, {"id": "a", "senders": ["x"], "receivers": ["y"], "both_ways": True}, file="f")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shapes": [{"sender": "eu", "receiver": "ap"}]}, "no route touches region `ap`"),
        ({"shapes": [{"sender": "eu", "receiver": "us"}] * 2}, "eu → us has two shapes"),
        (
            {"shapes": [{"sender": "eu", "receiver": "us", "delay_ms": 1, "jitter_ms": 2}]},
            "jitter of 2 ms around a delay of 1 ms",
        ),
        ({"routes": []}, "routes"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(lab: Lab, changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse(Plan, {**lab.plan().model_dump(), **changes}, file="plan")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"listen_address": "us-1"}, "`us-1` is no IPv4 address"),
        ({"ports": [0]}, "0 is no port"),
        ({"ports": [7000, 7000]}, "listened on twice"),
    ],
)
def test_a_route_that_cannot_be_is_refused(lab: Lab, changes: dict[str, object], message: str) -> None:
    content = lab.plan().model_dump()
    content["routes"][0] |= changes
    with pytest.raises(InputError, match=message):
        parse(Plan, content, file="plan")


def test_an_address_for_two_viewers_is_refused(lab: Lab) -> None:
    content = lab.plan().model_dump()
    content["routes"][1]["listen_address"] = content["routes"][0]["listen_address"]
    with pytest.raises(InputError, match=r"listened on twice, for eu-1 → us-2 and for eu-1 → us-1"):
        parse(Plan, content, file="plan")


def test_a_histograms_quantiles_are_at_most_a_quarter_too_high() -> None:
    histogram = Histogram()
    for milliseconds in range(1, 101):
        histogram.add(milliseconds / 1000)
    added = histogram.take()
    assert added.count == 100
    assert 50 <= added.p50_ms <= 50 * 1.25
    assert 99 <= added.p99_ms <= 100
    assert added.max_ms == 100
    assert histogram.take().count == 0
