"""The first line of a task's log says what the step does, with the run's own values."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from brokerproof.orchestration.dag_building.operators import LifecycleOperator
from brokerproof.orchestration.steps import describe_step
from brokerproof.run.directory import Run
from builders import make_run

STEPS = ("provision", "configure", "load", "consume", "break_it", "read_back", "verify", "release")


def make_named_run(directory: Path, name: str) -> Run:
    return make_run(directory / name, name, run_id=f"{name}-1")


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        ("provision", "starts the 9 nodes of topology sync_active_passive in witness, eu and us, of pulsar."),
        ("break_it", "injects eu_destroyed (destroy) at 20 s after the rate is held, and heals what is not permanent."),
        ("verify", "compares the tables with their seals, and judges every message by `at_least_once`."),
    ],
)
def test_a_step_says_what_it_does(tmp_path: Path, step: str, sentence: str) -> None:
    run = make_named_run(tmp_path, "sync_datacenter_loss")
    assert describe_step(step, run) == f"sync_datacenter_loss-1: {sentence}"


@pytest.mark.parametrize("name", ["sync_nominal", "geo_link_cut", "sync_datacenter_loss"])
def test_every_step_that_tells_no_result_has_a_sentence(tmp_path: Path, name: str) -> None:
    run = make_named_run(tmp_path, name)
    for step in STEPS:
        assert (describe_step(step, run) or "").endswith(".")
    assert describe_step("completeness", run) is None


def test_the_log_begins_with_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = make_named_run(tmp_path, "sync_nominal")
    with caplog.at_level(logging.INFO):
        LifecycleOperator(task_id="break_it", run_directory=run.directory).pre_execute({})
    assert caplog.messages[0] == "sync_nominal-1: injects no fault: the scenario is the reference."
