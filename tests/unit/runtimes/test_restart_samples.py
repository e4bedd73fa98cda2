"""What a service manager did becomes rows of the table `observations`, through the monitor."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from brokerproof import clock, monitor
from brokerproof.clock import wait_until
from brokerproof.run.live_status import read_live_status
from brokerproof.run.records import (
    ClustersConfigured,
    ObservationsRequested,
    ObservationsWritten,
    RunReleased,
    read_record,
    write_record,
)
from brokerproof.runtimes.processes import ProcessRuntime
from brokerproof.runtimes.restart_samples import RestartSampler
from brokerproof.runtimes.restarts import RestartEvent, RestartStep
from brokerproof.runtimes.supervision import Supervision
from builders import make_run

from ..planted_system import ON_PLANTED, PlantedSystem, plant_system

EVENTS = [
    RestartEvent(node="bookie-eu-1", step=RestartStep.ENDED, at=1_000_000, times=1),
    RestartEvent(node="bookie-eu-1", step=RestartStep.RESTARTED, at=11_000_000, times=1),
    RestartEvent(node="bookie-us-1", step=RestartStep.ENDED, at=12_000_000, times=1),
    RestartEvent(node="bookie-eu-1", step=RestartStep.ENDED, at=13_000_000, times=2),
]
ROWS = [
    ("service_manager:bookie-eu-1", "ended", "1", 1_000_000),
    ("service_manager:bookie-eu-1", "restarted", "1", 11_000_000),
    ("service_manager:bookie-us-1", "ended", "1", 12_000_000),
    ("service_manager:bookie-eu-1", "ended", "2", 13_000_000),
]


def test_each_event_is_one_sample_with_its_own_time(tmp_path: Path) -> None:
    runtime = ProcessRuntime(tmp_path)
    sampler, events = RestartSampler(runtime), Supervision(tmp_path).events
    assert sampler.sample() == []
    taken = []
    for part in (EVENTS[:1], EVENTS[1:]):
        for event in part:
            events.add(event)
        taken += sampler.sample()
    assert [(sample.source, sample.metric, sample.value, sample.at) for sample in taken] == ROWS
    assert sampler.sample() == []


@pytest.mark.parametrize("managed", [True, False])
def test_the_monitor_records_the_events_of_a_run_that_has_service_managers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, managed: bool
) -> None:
    plant_system(monkeypatch, PlantedSystem(cluster=SimpleNamespace(samplers=dict)))
    settings = {**ON_PLANTED, "overrides.restart": {"bookie": {"after_s": 10}} if managed else {}}
    run = make_run(tmp_path / "run", "sync_nominal", settings, sealed=True)
    nodes = tmp_path / "run" / "nodes"
    nodes.mkdir()
    for event in EVENTS:
        Supervision(nodes).events.add(event)
    write_record(run, ClustersConfigured(at=clock.now_us(), restarted=()))
    watching = threading.Thread(target=monitor.watch_run, args=(run,))
    watching.start()
    try:
        if managed:
            wait_until(
                lambda: read_live_status(run, "live").get("restarted") == {"bookie-eu-1": 1},
                timeout_s=20,
                what="the display of what was started again",
            )
        write_record(run, ObservationsRequested(at=clock.now_us()))
        wait_until(lambda: read_record(run, ObservationsWritten), timeout_s=20, what="the samples")
    finally:
        write_record(run, RunReleased(at=clock.now_us()))
        watching.join()
    found = pq.read_table(run.table("observations")).to_pylist() if run.exists("tables", "observations") else []
    rows = [(row["source"], row["metric"], row["value"], clock.to_microseconds(row["at"])) for row in found]
    assert rows == (ROWS if managed else [])
