"""The monitor: the process that holds a run's slot and samples its clusters, from task `reserve` to task `release`.

If the process that injects the faults (the timeline) was killed, the monitor makes load and consumers end. The monitor
holds the lock of the slot, so a run is dead if it was not released and the lock is free. The monitor ends when the run
is released, when the run's directory is gone, or after `MAX_LIFE_S` seconds. If the cluster is kept for a later run,
the monitor goes on to hold the slot until that run takes it over, and ends the nodes if no run does so in time.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from brokerproof import clock
from brokerproof.machine.processes import Mark, find_process, start_process
from brokerproof.machine.slots import Slot
from brokerproof.network import sample_links
from brokerproof.run.directory import Run
from brokerproof.run.live_status import LiveStatus, read_live_status
from brokerproof.run.observations import INTERVAL_S, Sample, SampledMetric, Source, parse_names, split_name
from brokerproof.run.records import (
    ClusterHandover,
    ClusterKept,
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
from brokerproof.run.seals import seal_tables
from brokerproof.run.time_axis import MONITOR, follow_time_axis, note_wall_clock
from brokerproof.runtimes.protocols import SupervisesNodes
from brokerproof.runtimes.registry import make_runtime, require_links, require_supervision
from brokerproof.runtimes.restarts import RestartStep
from brokerproof.systems.registry import make_observation

log = logging.getLogger(__name__)

# Seconds to wait for a node, which may be frozen, before another node is asked. Two samples of a source are then less
# than a second apart.
_PATIENCE_S = 0.45
MAX_LIFE_S = 6 * 3600
_WRITE_EVERY_S = 30.0
_GUARD_EVERY_S = 0.1
_RESTART_METRICS = {RestartStep.ENDED: SampledMetric.ENDED, RestartStep.RESTARTED: SampledMetric.RESTARTED}


def start_monitor(run: Run, slot: Slot) -> None:
    """Start the monitor of a run. The monitor inherits the slot, so the slot stays held after this process ends."""
    directory = Path(run.directory).absolute()
    start_process(
        [sys.executable, "-m", "brokerproof.monitor", run.directory],
        mark=Mark(directory, "monitor"),
        record=directory / "monitor.json",
        log=directory / "logs" / "monitor.log",
        environment=os.environ,
        descriptors=[slot.descriptor],
    )


def sample_run(run: Run) -> None:
    end_at = time.monotonic() + MAX_LIFE_S
    queue: SimpleQueue[Sample] = SimpleQueue()
    latest: dict[tuple[str, str], str] = {}
    stopping = threading.Event()
    sampling = False
    unwritten: list[dict[str, Any]] = []
    written_at = time.monotonic()

    def flush() -> None:
        nonlocal unwritten, written_at
        # Judging reads the table after the requested samples are sealed, so later samples only show in the live status.
        if read_record(run, ObservationsWritten) is None:
            run.append("observations", unwritten)
        unwritten, written_at = [], time.monotonic()

    def seal() -> None:
        if read_record(run, ObservationsWritten) is None:
            flush()
            seal_tables(run, "observations")

    try:
        while time.monotonic() < end_at and run.exists("run.json") and read_record(run, RunReleased) is None:
            if not sampling and read_record(run, ClustersConfigured) is not None:
                sampling = True
                for name, sampler in _make_samplers(run).items():
                    threading.Thread(
                        target=_sample_repeatedly, args=(name, sampler, queue, stopping), daemon=True
                    ).start()
            # Only this thread takes samples from the queue.
            while not queue.empty():
                sample = queue.get()
                if sample.value is None:
                    latest.pop((sample.source, sample.metric), None)
                else:
                    latest[sample.source, sample.metric] = sample.value
                unwritten.append(sample.row(run.run_id))
            if _is_write_requested(run):
                seal()
                write_record(run, ObservationsWritten(at=clock.now_us()))
            elif time.monotonic() - written_at > _WRITE_EVERY_S:
                flush()
            record_killed_timeline(run)
            _write_live_status(run, latest)
            time.sleep(0.5)
    finally:
        stopping.set()
        if run.exists("run.json"):
            seal()


def guard_kept_cluster(run: Run) -> None:
    """Wait until a later run takes over the slot of a kept cluster. If none does in time, end the nodes."""
    kept = read_record(run, ClusterKept)
    if kept is None:
        return
    while run.exists("run.json") and clock.now_us() < kept.until:
        if read_record(run, ClusterHandover) is not None:
            return
        time.sleep(_GUARD_EVERY_S)
    runtime = make_runtime(run)
    runtime.release()
    runtime.forget()


def record_killed_timeline(run: Run) -> None:
    """Write an `EarlyEnd` if the timeline's process ended before it could record the timeline's end.

    If the process ran on another machine, do nothing, because this machine cannot see whether it still runs.
    """
    doing = read_record(run, TimelineProcess)
    if doing is None or doing.host != socket.gethostname() or find_process(doing.pid, doing.created) is not None:
        return
    # These records are read after the process is gone. Before that, the process could still write one after the read.
    if read_record(run, FaultsUndone) is None and read_record(run, EarlyEnd) is None:
        write_record(run, EarlyEnd(why="the process of break_it ended before the timeline did", at=clock.now_us()))


def _is_write_requested(run: Run) -> bool:
    """Return whether a step requested all samples up to a time that has passed, and they are not written yet."""
    requested = read_record(run, ObservationsRequested)
    return requested is not None and read_record(run, ObservationsWritten) is None and clock.now_us() > requested.at


def _make_samplers(run: Run) -> Mapping[str, Callable[[], list[Sample]]]:
    """Return {name: sampler} for a run. A sampler is a function that returns new samples.

    The messaging system has its own samplers. If the topology has links between regions, one more sampler samples the
    emulated links. If it has service managers, which restart ended nodes, one more sampler samples their events.
    """
    samplers = dict(make_observation(run, patience_s=_PATIENCE_S).samplers())
    if run.topology.links:
        samplers["link"] = partial(sample_links, require_links(make_runtime(run)).network())
    if run.topology.restarted_after_s:
        samplers["service managers"] = RestartSampler(require_supervision(make_runtime(run))).sample
    return samplers


class RestartSampler:
    """Makes a sample of each event that a service manager has recorded: the end or the restart of a node."""

    def __init__(self, runtime: SupervisesNodes) -> None:
        self._runtime = runtime
        self._taken = 0

    def sample(self) -> list[Sample]:
        """Return samples of the events since the last call."""
        events = self._runtime.list_restart_events()[self._taken :]
        self._taken += len(events)
        return [
            Sample(
                at=event.at,
                source=Source.SERVICE_MANAGER.join_name(event.node),
                metric=str(_RESTART_METRICS[event.step]),
                value=str(event.times),
            )
            for event in events
        ]


def _sample_repeatedly(
    name: str, sampler: Callable[[], list[Sample]], queue: SimpleQueue[Sample], stopping: threading.Event
) -> None:
    while not stopping.is_set():
        started = time.monotonic()
        try:
            for sample in sampler():
                queue.put(sample)
        except Exception as error:
            # After any error, sampling goes on. The error is recorded, because a gap in the samples is a gap in the
            # evidence.
            queue.put(
                Sample(
                    at=clock.now_us(),
                    source=Source.SAMPLER.join_name(name),
                    metric=str(SampledMetric.NO_ANSWER),
                    value=repr(error)[:300],
                )
            )
        stopping.wait(max(0.05, INTERVAL_S - (time.monotonic() - started)))


def _write_live_status(run: Run, latest: dict[tuple[str, str], str]) -> None:
    """Write the live status with the name `live`, which the command line shows for the run.

    It has the content of the live status with the name `run`, the sums of all clients' counts, the producers that miss
    their rates now with the reasons, and the latest samples.
    `latest` is {(source of the sample, metric): value}.
    """
    shown = read_live_status(run, "run")
    counters: dict[str, int] = {}
    missed: dict[str, list[str]] = {}
    workload = run.scenario.workload
    for part in range(workload.producer_count):
        produced = read_live_status(run, f"load-{part}")
        if produced.get("missed_rate") is not None:
            missed[produced.get("producer", f"load-{part}")] = produced["missed_rate"]
        for name, value in produced.items():
            if name in ("acked", "failed", "unknown"):
                counters[name] = counters.get(name, 0) + int(value)
    part = 0
    while consumed := read_live_status(run, f"consume-{part}"):
        counters["delivered"] = counters.get("delivered", 0) + int(consumed.get("delivered", 0))
        part += 1
    owners = [value for (_, metric), value in latest.items() if split_name(metric)[0] == SampledMetric.OWNER and value]
    shown.pop("at", None)
    LiveStatus(run, "live").show(
        **(shown | counters),
        missed_rates=missed,
        owner=", ".join(dict.fromkeys(owners)),
        alive=_collect_alive(latest),
        under_replicated=_sum_under_replicated(latest),
        backlog=_collect_backlogs(latest),
        restarted=_count_restarts(latest),
    )


def _collect_alive(latest: dict[tuple[str, str], str]) -> dict[str, list[str]]:
    """Return {role: names of the living nodes with this role, in all clusters}."""
    alive: dict[str, list[str]] = {}
    for (_, metric), value in latest.items():
        kind, role = split_name(metric)
        if kind == SampledMetric.ALIVE:
            alive.setdefault(role, []).extend(parse_names(value))
    return alive


def _count_restarts(latest: dict[tuple[str, str], str]) -> dict[str, int]:
    """Return {node: number of its restarts by a service manager}."""
    return {
        split_name(source)[1]: int(value)
        for (source, metric), value in latest.items()
        if metric == SampledMetric.RESTARTED
    }


def _sum_under_replicated(latest: dict[tuple[str, str], str]) -> str | None:
    """Return the number of under-replicated segments, summed over all clusters; None if no cluster knows its number."""
    counts = [value for (_, metric), value in latest.items() if metric == SampledMetric.UNDER_REPLICATED]
    known = [int(value) for value in counts if value.isdigit()]
    return str(sum(known)) if known else None


def _collect_backlogs(latest: dict[tuple[str, str], str]) -> dict[str, str]:
    """Return {name: latest backlog} of all subscriptions, and of the replication between clusters in each direction.

    The name of a subscription's backlog is `SUBSCRIPTION`, or `SUBSCRIPTION@CLUSTER` if the sample's source names a
    cluster. The name of a direction of replication is `HOME>OTHER`.
    """
    found: dict[str, str] = {}
    for (source, metric), value in latest.items():
        kind, name = split_name(metric)
        if kind in (SampledMetric.BACKLOG, SampledMetric.REPLICATION_BACKLOG):
            cluster = source.partition("@")[2]
            found[f"{name}@{cluster}" if cluster and kind == SampledMetric.BACKLOG else name] = value
    return found


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    watched = Run(sys.argv[1])
    follow_time_axis(watched)
    with note_wall_clock(watched, MONITOR):
        sample_run(watched)
    guard_kept_cluster(watched)
