"""The monitor: it goes on whatever a source answers, and leaves a table that agrees with its seal."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from brokerproof import clock, monitor
from brokerproof.clock import wait_until
from brokerproof.machine.processes import read_start
from brokerproof.monitor import RestartSampler
from brokerproof.run.directory import Run
from brokerproof.run.live_status import read_live_status
from brokerproof.run.observations import Sample
from brokerproof.run.records import (
    ClustersConfigured,
    EarlyEnd,
    FaultsUndone,
    ObservationsRequested,
    ObservationsWritten,
    RunReleased,
    TimelineProcess,
    read_record,
    write_record,
)
from brokerproof.run.seals import check_seals
from brokerproof.runtimes.process_runtime import ProcessRuntime
from brokerproof.runtimes.restarts import RestartEvent, RestartStep
from brokerproof.runtimes.supervision import Supervision
from builders import make_run

from .planted_system import ON_PLANTED, PlantedSystem, plant_system


class OddSource:
    """Raises, at the first question, what no source may raise; has a sample from then on."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self) -> list[Sample]:
        self.asked += 1
        if self.asked == 1:
            raise TypeError("no source may raise this")
        return [Sample(at=clock.now_us(), source="cluster:mycluster", metric="under_replicated", value="0")]


@pytest.fixture
def source() -> OddSource:
    return OddSource()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: OddSource) -> Iterator[Run]:
    plant_system(monkeypatch, PlantedSystem(cluster=SimpleNamespace(samplers=lambda: {"odd": source})))
    run = make_run(tmp_path / "run", "sync_nominal", ON_PLANTED, sealed=True)
    write_record(run, ClustersConfigured(at=clock.now_us()))
    watching = threading.Thread(target=monitor.sample_run, args=(run,))
    watching.start()
    yield run
    write_record(run, RunReleased(at=clock.now_us()))
    watching.join()


def test_a_source_that_raises_anything_is_recorded_and_asked_again(run: Run, source: OddSource) -> None:
    wait_until(lambda: source.asked > 2, timeout_s=20, what="the source to be asked again")
    write_record(run, ObservationsRequested(at=clock.now_us()))
    wait_until(lambda: read_record(run, ObservationsWritten), timeout_s=20, what="the samples")
    rows = pq.read_table(run.table("observations")).to_pylist()
    assert "no source may raise this" in next(row["value"] for row in rows if row["metric"] == "no_answer")
    assert any(row["metric"] == "under_replicated" for row in rows)


def test_what_is_sampled_after_the_samples_were_asked_for_is_not_added_to_the_sealed_table(
    run: Run, source: OddSource
) -> None:
    wait_until(lambda: source.asked > 2, timeout_s=20, what="the first samples")
    write_record(run, ObservationsRequested(at=clock.now_us()))
    wait_until(lambda: read_record(run, ObservationsWritten), timeout_s=20, what="the samples")
    asked = source.asked
    wait_until(lambda: source.asked > asked + 1, timeout_s=20, what="later samples")
    write_record(run, RunReleased(at=clock.now_us()))
    wait_until(
        lambda: not any(thread.name.endswith("(sample_run)") for thread in threading.enumerate()),
        timeout_s=20,
        what="the monitor to end",
    )
    assert "observations" not in check_seals(run).broken


@pytest.fixture
def timeline(run: Run) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is said to do the timeline of the run."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    created = read_start(process.pid)
    write_record(run, TimelineProcess(pid=process.pid, created=created, host=socket.gethostname()))
    yield process
    process.kill()
    process.wait()


def test_load_and_consumers_are_told_that_the_timeline_was_killed(
    run: Run, timeline: subprocess.Popen[bytes], source: OddSource
) -> None:
    asked = source.asked
    wait_until(lambda: source.asked > asked + 2, timeout_s=20, what="the monitor to look several times")
    assert read_record(run, EarlyEnd) is None
    timeline.kill()
    early = wait_until(lambda: read_record(run, EarlyEnd), timeout_s=5, what="load and consumers to be told")
    assert early.why == "the process of break_it ended before the timeline did"


def test_nobody_is_told_of_a_timeline_that_came_to_its_end(
    run: Run, timeline: subprocess.Popen[bytes], source: OddSource
) -> None:
    write_record(run, FaultsUndone(undone=True, problems=(), at=clock.now_us()))
    timeline.kill()
    timeline.wait()
    monitor.record_killed_timeline(run)
    assert read_record(run, EarlyEnd) is None


def test_a_timeline_on_another_machine_is_not_looked_for_on_this_one(run: Run) -> None:
    write_record(run, TimelineProcess(pid=2**22, created=0.0, host="another"))
    monitor.record_killed_timeline(run)
    assert read_record(run, EarlyEnd) is None


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
    write_record(run, ClustersConfigured(at=clock.now_us()))
    watching = threading.Thread(target=monitor.sample_run, args=(run,))
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
