"""The first line of a task's log says what the step does, with the run's own values."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from brokerproof.orchestration.dag_building.operators import LifecycleOperator
from brokerproof.orchestration.steps import compute_time_limit, describe_step
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


def test_what_lasts_as_long_as_the_load_has_time_for_faults_that_wait_for_others(tmp_path: Path) -> None:
    first = {"name": "first", "kind": "stop", "targets": {"nodes": ["broker-eu-1"]}, "heal_after_s": 0}
    second = {"name": "second", "kind": "stop", "targets": {"nodes": ["broker-eu-2"]}, "heal_after_s": 7}
    when = {"healthy": "first", "for_s": 5, "within_s": 500}
    plain, waiting = (
        make_run(tmp_path / name, "sync_nominal", {"faults": [first, {**second, **more}]}).scenario
        for name, more in (("plain", {}), ("waiting", {"when": when}))
    )
    # A wait of 500 s, 7 s until it is healed, and four minutes for its targets, its effect and its recovery.
    assert waiting.longest_load_s - plain.longest_load_s == 500 + 7 + 240
    assert plain.longest_load_s == plain.phases.total_s
    for step in ("load", "consume", "break_it", "read_back"):
        longer = compute_time_limit(step, waiting) - compute_time_limit(step, plain)
        assert longer.total_seconds() == 747, step
