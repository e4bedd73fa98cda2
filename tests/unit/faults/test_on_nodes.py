"""The kinds of fault that end nodes: what shows that they took effect."""

from __future__ import annotations

import json
from collections.abc import Callable
from threading import Barrier, Lock
from types import SimpleNamespace
from typing import Any

import pytest
from brokerproof.errors import AdminError, NodeError
from brokerproof.faults import on_nodes
from brokerproof.faults.kind import Surroundings
from brokerproof.faults.registry import FAULT_KINDS

# Long enough for a busy machine; no test waits so long when all is well.
PATIENCE_S = 20.0
KINDS = ["stop", "kill", "destroy"]
NODES = [f"node-{number}" for number in range(8)]


def make_surroundings(
    evidence_of_death: Callable[[Any], str | None], nodes: list[str], *, administration: Any = None
) -> Surroundings:
    """Nodes whose runtime answers with the function."""
    unused: Any = None
    runtime: Any = SimpleNamespace(evidence_of_death=evidence_of_death)
    specs: Any = {name: SimpleNamespace(name=name) for name in nodes}
    return Surroundings(
        provisioning=unused,
        administration=administration,
        observation=unused,
        runtime=runtime,
        specs=specs,
        roles={},
        link=None,
        fault=unused,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_dead_nodes_whose_addresses_do_not_answer_are_asked_at_the_same_time(kind: str) -> None:
    # No answer comes before all nodes have been asked.
    all_asked = Barrier(len(NODES), timeout=PATIENCE_S)

    def find_death(spec: Any) -> str:
        all_asked.wait()
        return f"{spec.name} is gone"

    evidence = FAULT_KINDS[kind].find_evidence(make_surroundings(find_death, NODES), NODES)
    assert list(json.loads(evidence or "{}").items()) == [(name, f"{name} is gone") for name in NODES]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("alive", [NODES[0], NODES[-1]])
def test_one_node_that_is_alive_means_no_effect(kind: str, alive: str) -> None:
    around = make_surroundings(lambda spec: None if spec.name == alive else "gone", NODES)
    assert FAULT_KINDS[kind].find_evidence(around, NODES) is None


def test_of_several_questions_that_fail_the_first_in_order_is_told() -> None:
    both_asked = Barrier(2, timeout=PATIENCE_S)

    def find_death(spec: Any) -> str:
        if spec.name in NODES[2:4]:
            both_asked.wait()
            raise NodeError(f"the state of {spec.name} cannot be read")
        return "gone"

    with pytest.raises(NodeError, match=f"the state of {NODES[2]} cannot be read"):
        FAULT_KINDS["kill"].find_evidence(make_surroundings(find_death, NODES), NODES)


def test_hundreds_of_nodes_are_asked_by_a_bounded_number_of_threads() -> None:
    nodes = [f"node-{number}" for number in range(640)]
    lock, most_at_once, at_once = Lock(), 0, 0
    # It opens for each group of 64, and so proves that no fewer are asked at the same time.
    group_asked = Barrier(64, timeout=PATIENCE_S)

    def find_death(spec: Any) -> str:
        nonlocal most_at_once, at_once
        with lock:
            at_once += 1
            most_at_once = max(most_at_once, at_once)
        group_asked.wait()
        with lock:
            at_once -= 1
        return "gone"

    evidence = FAULT_KINDS["kill"].find_evidence(make_surroundings(find_death, nodes), nodes)
    assert list(json.loads(evidence or "{}")) == nodes
    assert most_at_once == 64


def test_nothing_to_ask_is_no_mistake() -> None:
    assert FAULT_KINDS["kill"].find_evidence(make_surroundings(lambda _: None, []), []) == "{}"


class StartingOwner:
    """An administration whose owner refuses the first `refusals` requests to close the topic."""

    def __init__(self, refusals: int) -> None:
        self.refusals, self.asked = refusals, 0

    def reassign(self) -> None:
        self.asked += 1
        if self.asked <= self.refusals:
            raise AdminError(f"refused request {self.asked}")


def test_an_owner_that_is_starting_is_asked_again_until_it_closes_the_topic() -> None:
    owner = StartingOwner(refusals=2)
    FAULT_KINDS["unload"].inject(make_surroundings(lambda _: None, NODES, administration=owner), NODES[:1])
    assert owner.asked == 3


def test_an_owner_that_never_closes_the_topic_is_an_error_with_its_last_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_nodes, "_OWNER_ANSWERS_S", 0.3)
    owner = StartingOwner(refusals=1000)
    with pytest.raises(AdminError) as refused:
        FAULT_KINDS["unload"].inject(make_surroundings(lambda _: None, NODES, administration=owner), NODES[:1])
    assert owner.asked > 1
    assert str(refused.value) == f"refused request {owner.asked}"
