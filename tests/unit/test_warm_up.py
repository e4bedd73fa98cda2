"""The warm-up before a machine's first run: a failure of it costs speed and nothing else."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from brokerproof import warm_up
from brokerproof.errors import MachineError, NodeError

TOPOLOGY = {
    "title": "t",
    "description": "d",
    "clusters": {
        "only": {
            "nodes": {
                "metadata-1": {"role": "metadata", "region": "here"},
                "bookie-1": {"role": "bookie", "region": "here"},
                "broker-1": {"role": "broker", "region": "here"},
            },
            "namespaces": {"a/b": {"persistence": {"ensemble": 1, "write_quorum": 1, "ack_quorum": 1}}},
        }
    },
}


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done, with stand-ins for everything that takes a cluster."""
    done: list[str] = []
    asked = SimpleNamespace(
        done=lambda: False, fetch=lambda: done.append("fetch"), topology=TOPOLOGY, workload={"namespace": "a/b"}
    )
    monkeypatch.setattr(warm_up, "load_system", lambda name: SimpleNamespace(warm_up=lambda version: asked))
    monkeypatch.setattr(warm_up.lifecycle, "begin", lambda *args, **kwargs: "run")
    for step in ("provision", "configure", "release"):
        monkeypatch.setattr(warm_up.lifecycle, step, lambda run, step=step: done.append(step))
    monkeypatch.setattr(warm_up, "_talk", lambda run: done.append("talk"))
    return done


def test_it_lives_through_a_small_run(steps: list[str]) -> None:
    warm_up.prepare("pulsar", "4.0.8", lambda _: None)
    assert steps == ["fetch", "provision", "configure", "talk", "release"]


def test_one_that_fails_is_said_and_ended_and_keeps_nobody_from_running(
    steps: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(run: Any) -> None:
        raise NodeError("no node starts here")

    monkeypatch.setattr(warm_up.lifecycle, "provision", refuse)
    with caplog.at_level(logging.WARNING):
        warm_up.prepare("pulsar", "4.0.8", lambda _: None)
    assert steps == ["fetch", "release"]
    assert "the warm-up failed, so nodes start slower: no node starts here" in caplog.text


def test_what_cannot_be_fetched_stops_everything(steps: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> None:
        raise MachineError("no network")

    warm_up.load_system("pulsar").warm_up("4.0.8").fetch = gone  # type: ignore[method-assign]
    with pytest.raises(MachineError, match="no network"):
        warm_up.prepare("pulsar", "4.0.8", lambda _: None)
    assert steps == []
