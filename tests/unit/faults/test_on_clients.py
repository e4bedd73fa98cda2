"""The kinds of fault that act only on clients: what shows that they took effect."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from brokerproof.errors import RunError
from brokerproof.faults.kind import Surroundings
from brokerproof.faults.registry import FAULT_KINDS

CLIENTS = ["p0", "p1"]


def make_surroundings(clients: Any) -> Surroundings:
    unused: Any = None
    return Surroundings(
        provisioning=unused,
        administration=unused,
        observation=unused,
        runtime=unused,
        specs={},
        roles={},
        link=None,
        fault=SimpleNamespace(name="f"),
        clients=clients,
    )


@pytest.mark.parametrize("kind", ["fence", "task_retry"])
def test_a_fault_of_clients_takes_effect_when_every_client_has_evidence(kind: str) -> None:
    evidence: dict[str, str | None] = {"p0": "seen"}
    around = make_surroundings(SimpleNamespace(evidence_of_fencing=evidence.get, evidence_of_repetition=evidence.get))
    assert FAULT_KINDS[kind].find_evidence(around, CLIENTS) is None
    evidence["p1"] = "seen too"
    assert json.loads(FAULT_KINDS[kind].find_evidence(around, CLIENTS) or "") == evidence


@pytest.mark.parametrize(("kind", "act"), [("fence", "fence"), ("task_retry", "fail_task")])
def test_a_fault_of_clients_is_injected_into_every_client(kind: str, act: str) -> None:
    done: list[str] = []
    FAULT_KINDS[kind].inject(make_surroundings(SimpleNamespace(**{act: done.append})), CLIENTS)
    assert sorted(done) == CLIENTS


@pytest.mark.parametrize("kind", ["fence", "task_retry"])
def test_a_fault_of_clients_cannot_act_on_nodes(kind: str) -> None:
    with pytest.raises(RunError, match="its targets are nodes"):
        FAULT_KINDS[kind].inject(make_surroundings(None), CLIENTS)
