"""The steps that start, break and end the clusters of a run: reserve, provision, configure, break_it, release.

The command line calls `prepare` before it starts a run. `down` ends all runs of this user. No step here uses Spark.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from brokerproof import clock
from brokerproof.errors import BrokerproofError, DeadlineError, NodeError
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.faults.timeline import Timeline
from brokerproof.kept_clusters import (
    ClusterChoice,
    adopt_cluster,
    end_unused_cluster,
    find_reason_against_keeping,
    has_ended_nodes,
    list_differences,
)
from brokerproof.machine import slots
from brokerproof.machine.files import check_disk_space, remove_abandoned_files
from brokerproof.machine.processes import end_processes, find_marked_processes, read_start
from brokerproof.machine.versions import read_installed_versions, read_package_version
from brokerproof.monitor import start_monitor
from brokerproof.network import Plan, make_shapes
from brokerproof.run.directory import Run
from brokerproof.run.live_status import LiveStatus
from brokerproof.run.records import (
    ClusterKept,
    ClusterReuse,
    ClustersConfigured,
    EarlyEnd,
    RunReleased,
    TimelineProcess,
    read_record,
    write_record,
)
from brokerproof.run.seals import seal_tables
from brokerproof.run.time_axis import follow_time_axis, make_time_axis
from brokerproof.runtimes.protocols import LivesElsewhere, NodeSpec, RunsProcesses, Runtime, SupervisesNodes
from brokerproof.runtimes.registry import (
    load_runtime,
    make_all_runtimes,
    make_runtime,
    remove_left_elsewhere,
    require_links,
    require_supervision,
)
from brokerproof.runtimes.supervision import find_supervisors
from brokerproof.settings import from_environment
from brokerproof.systems.abilities import FetchesVersions, LearnsFromNodes, RemovesTopics, RoutesLinks, require
from brokerproof.systems.registry import find_system, make_administration, make_observation, make_provisioning

log = logging.getLogger(__name__)

_SLOT_TIMEOUT_S = 1800.0
_MONITOR_TIMEOUT_S = 10.0
_STARTS_AT_ONCE = 8
# A kept cluster waits this many seconds for the next run, which begins when the results of this run are recorded.
_KEPT_S = 900.0
# A kept cluster must be as a new one within this many seconds.
_AS_NEW_S = 60.0


def prepare(scenario: Scenario, topology: Topology, say: Callable[[str], None]) -> None:
    """Fetch the messaging system's software for the nodes. For nodes in containers, only check the container engine.

    `say` is called with a sentence before each slow part. Raises InputError for an unknown version, and MachineError if
    the software cannot be fetched or the engine cannot run the nodes.
    """
    runtime = load_runtime(scenario.runtime)
    if issubclass(runtime, LivesElsewhere):
        runtime.require(topology)
        return
    system = find_system(topology)
    if isinstance(system, FetchesVersions):
        system.fetch(scenario.version, say)


def reserve(
    scenario: Scenario,
    topology: Topology,
    *,
    directory: str,
    run_id: str,
    settings: Mapping[str, Any] | None = None,
    triggered_at: int | None = None,
    triggered_by: str | None = None,
    report: str | None = None,
    cluster_choice: ClusterChoice = ClusterChoice.NEW,
    slot_timeout_s: float = _SLOT_TIMEOUT_S,
) -> Run:
    """Take one of this machine's slots for the run, make the run's directory, and start the run's monitor.

    A slot is a range of addresses for the nodes of one run. `settings` is {dotted path: value} of the values that were
    changed for this run; `scenario` already contains them. `triggered_at` is a Unix time in microseconds. With
    a `cluster_choice` other than NEW, the run takes over the slot of a kept cluster if one fits. Raises MachineError if
    the disk is too full or no slot becomes free in time, and RunError if the directory holds a run.
    """
    check_disk_space(Path(directory))
    adopted = None if cluster_choice is ClusterChoice.NEW else adopt_cluster(scenario, topology)
    last = adopted[1] if adopted else None
    with adopted[0] if adopted else _take_clean_slot(slot_timeout_s) as slot:
        cluster = None if last is None else last.facts.cluster or last.directory
        slot.assign(directory, *([cluster] if cluster else []))
        addresses = load_runtime(scenario.runtime).assign_addresses(topology, slot.number)
        run = Run.create(
            directory,
            run_id=run_id,
            scenario=scenario,
            topology=topology,
            slot=slot.number,
            addresses=addresses.nodes,
            views=addresses.views,
            host_ports=addresses.host_ports,
            triggered_at=triggered_at,
            triggered_by=triggered_by,
            report=report,
            settings=dict(settings or {}),
            versions=_read_versions(topology),
            sealed=True,
            time_axis=make_time_axis(),
            clock_error_us=1000 * (from_environment().clock_error_ms or 0),
            keeps_cluster=cluster_choice is ClusterChoice.KEEP,
            cluster=cluster,
            cluster_use=1 if last is None else last.facts.cluster_use + 1,
        )
        follow_time_axis(run)
        start_monitor(run, slot)
    return run


def _take_clean_slot(timeout_s: float) -> slots.Slot:
    """Take a slot (a range of addresses), and end processes of its previous run that may still use the addresses.

    If they cannot be ended, another slot is taken. Raises MachineError or NodeError if there is no other slot.
    """
    problems: dict[int, BrokerproofError] = {}
    if slots.are_all_held():
        end_unused_cluster()
    while True:
        slot = slots.take(timeout_s=timeout_s, excluded=problems)
        try:
            for directory in slot.runs:
                end_run(directory)
        except BaseException as error:
            slot.close()
            if not isinstance(error, BrokerproofError):
                raise
            log.warning("slot %d cannot be used: %s", slot.number, error)
            problems[slot.number] = error
            if len(problems) == slots.count_slots():
                raise
        else:
            return slot


def _read_versions(topology: Topology) -> dict[str, str | None]:
    """Return the present versions of this machine's software, which may change after the run has begun."""
    packages = find_system(topology).packages
    return {**read_installed_versions(), **{name: read_package_version(name) for name in packages}}


def provision(run: Run) -> None:
    """Start the links between the regions, then all nodes that are not on standby, and wait until these nodes serve.

    Service managers, if the topology has any, start last, and restart nodes that end by themselves. If the run took
    over a kept cluster that is as a new one, nothing is started; if it is not, it is ended and started anew. After an
    error, all nodes and links are stopped again. Raises MachineError or NodeError.
    """
    status, provisioning, runtime = LiveStatus(run, "run"), make_provisioning(run), make_runtime(run)
    status.show(phase="provision")
    if run.facts.cluster is not None and _reuse_cluster(run, runtime):
        return
    specs = provisioning.specs()
    started = time.monotonic()
    try:
        for name in specs:
            runtime.prepare(specs[name])
        if run.topology.links:
            routes = require(provisioning, RoutesLinks).routes()
            require_links(runtime).start_links(Plan(routes=routes, shapes=make_shapes(run.topology)))
        for number, group in enumerate(provisioning.start_order()):
            first = [specs[name] for name in group if not run.topology.nodes[name].standby]
            _start(provisioning.is_ready, runtime, first, status)
            if number == 0:
                provisioning.initialize(runtime.execute)
        if after_s := run.topology.restarted_after_s:
            require_supervision(runtime).supervise([specs[name] for name in after_s], after_s)
    except BaseException:
        runtime.release()
        raise
    count = sum(not node.standby for node in run.topology.nodes.values())
    log.info("%d nodes are healthy after %.1f s", count, time.monotonic() - started)


def _reuse_cluster(run: Run, runtime: Runtime) -> bool:
    """Return whether the kept cluster is as a new one, and record it. If it is not, end it."""
    # The run's own topic does not exist yet, so the cluster is looked at as its first run did.
    first, found = Run(str(run.facts.cluster)), list[str]()
    administration = make_administration(run)

    def is_decided() -> bool:
        found[:] = list_differences(first)
        if not found and isinstance(administration, RemovesTopics):
            try:
                administration.remove_other_topics()
            except BrokerproofError as error:
                found[:] = [str(error)]
        return not found or has_ended_nodes(first)

    with suppress(DeadlineError):
        clock.wait_until(is_decided, timeout_s=_AS_NEW_S, what="the kept cluster to be as a new one", every_s=0.5)
    if found:
        runtime.release()
        runtime.forget()
    why = "; ".join(found)
    write_record(run, ClusterReuse(reused=not why, why=why, at=clock.now_us()))
    log.info("the kept cluster is used" if not why else f"the kept cluster was not used, because {why}")
    return not why


def configure(run: Run) -> None:
    """Set the topology's policies on the clusters, and read all policies back.

    Raises AdminError if a cluster refuses a policy or returns a value other than the one set.
    """
    LiveStatus(run, "run").show(phase="configure")
    administration = make_administration(run)
    administration.configure()
    administration.check_configuration()
    write_record(run, ClustersConfigured(at=clock.now_us()))


def end_load_without_clusters(run: Run) -> bool:
    """End load and consumers, which wait for the clusters, if these are not configured. Return whether they are not."""
    if read_record(run, ClustersConfigured) is not None:
        return False
    follow_time_axis(run)
    write_record(run, EarlyEnd(why="the clusters were not configured", at=clock.now_us()))
    return True


def break_it(run: Run) -> None:
    """Inject and heal the scenario's faults at their times, while the load runs.

    Faults that are not permanent are healed even after an error. If this process is killed, the monitor makes load and
    consumers end. Raises the first error of the timeline.
    """
    pid = os.getpid()
    write_record(run, TimelineProcess(pid=pid, created=read_start(pid), host=socket.gethostname()))
    runtime = make_runtime(run)
    link = require_links(runtime).network() if run.topology.links else None
    timeline = Timeline(
        run,
        provisioning=make_provisioning(run),
        administration=make_administration(run),
        observation=make_observation(run),
        runtime=runtime,
        show=LiveStatus(run, "run").show,
        link=link,
    )
    try:
        timeline.execute()
    finally:
        seal_tables(run, "faults", "copies")


def release(run: Run, *, monitor_timeout_s: float = _MONITOR_TIMEOUT_S) -> list[str]:
    """End all processes of the run and free its slot. Return the names of the processes and nodes that were ended.

    If the monitor does not end by itself within `monitor_timeout_s`, it is ended too. If the cluster is kept for a
    later run, the monitor guards it, and nothing is ended.
    """
    now = clock.now_us()
    reason = find_reason_against_keeping(run)
    if reason is None:
        write_record(run, ClusterKept(at=now, until=now + int(_KEPT_S * 1e6)))
    write_record(run, RunReleased(at=now))
    if reason is None:
        log.info("the cluster is kept for the next run")
        return []
    runtime = make_runtime(run)
    if isinstance(runtime, SupervisesNodes):
        # The nodes end next, and no service manager may restart them.
        runtime.end_supervision()
    # The monitor writes its last samples and ends by itself.
    slot = slots.take_from_run(run.directory, timeout_s=monitor_timeout_s)
    try:
        if read_record(run, ClustersConfigured) is not None and isinstance(runtime, RunsProcesses):
            provisioning = make_provisioning(run)
            if isinstance(provisioning, LearnsFromNodes):
                provisioning.learn(runtime.pids())
        ended = end_run(run.directory)
        if run.facts.cluster is not None:
            ended += end_run(run.facts.cluster)
        # If the monitor did not end by itself, `end_run` has ended it, and its slot is free now.
        slot = slot or slots.take_from_run(run.directory, timeout_s=0)
        if slot is not None:
            slot.clear()
    finally:
        if slot is not None:
            slot.close()
    return ended


def down(below: Path | None = None) -> list[str]:
    """End every process of every run of this user on this machine, and free the address ranges (slots) of these runs.

    Return the names of the ended processes and nodes. With `below`, only runs whose directories are below this path are
    ended. If something cannot be ended, such as a process that survives SIGKILL, the rest is ended first, and then the
    first error is raised.
    """
    ended: list[str] = []
    problems: list[BrokerproofError] = []

    def attempt(end: Callable[[], list[str]]) -> bool:
        try:
            ended.extend(end())
        except BrokerproofError as error:
            problems.append(error)
            return False
        return True

    # Service managers end first, because they would restart nodes.
    attempt(lambda: end_processes(find_supervisors(below)))
    attempt(lambda: end_processes(find_marked_processes(below)))
    for directory in slots.list_assigned_runs():
        if below is not None and not Path(directory).is_relative_to(below):
            continue
        # A slot that is still held belongs to a run that is just starting, so it is left alone.
        if (slot := slots.take_from_run(directory, timeout_s=0)) is not None:
            with slot:
                # A process that is just starting has no visible mark yet. `end_run` finds it by its record. If the run
                # cannot be ended, its slot keeps its record, so that the run is ended later.
                were_ended = [attempt(partial(end_run, each)) for each in slot.runs]
                if all(were_ended):
                    slot.clear()
    # This also finds nodes of runs whose directories are gone.
    attempt(lambda: remove_left_elsewhere(below))
    if problems:
        raise problems[0]
    return ended


def end_run(directory: str) -> list[str]:
    """End every process of a run, and remove its nodes' data and its unfinished files.

    Return the names of the ended processes and nodes. This works even if the run's monitor was killed.
    """
    here = Path(directory).absolute()
    # Service managers end first, because they would restart nodes.
    ended = end_processes(find_supervisors(here)) + end_processes(find_marked_processes(here))
    # All runtimes are tried, because the directory of a run that died early does not name its runtime.
    for runtime in make_all_runtimes(here / "nodes"):
        ended += runtime.release()
        runtime.forget()
    remove_abandoned_files(here)
    return ended


def _start(healthy: Callable[[NodeSpec], bool], runtime: Runtime, specs: list[NodeSpec], status: LiveStatus) -> None:
    """Start nodes in parallel, and wait until `healthy` returns true for each.

    Raises NodeError if a node dies or does not become healthy in time.
    """
    with ThreadPoolExecutor(max_workers=_STARTS_AT_ONCE) as pool:
        list(pool.map(runtime.start, specs))
    waiting = {spec.name: spec for spec in specs}
    deadline = time.monotonic() + max((spec.start_timeout_s for spec in specs), default=0)
    while waiting:
        for spec in _find_healthy(healthy, list(waiting.values())):
            del waiting[spec.name]
        status.show(text=f"waiting for {', '.join(waiting)}" if waiting else "")
        for spec in waiting.values():
            if not runtime.is_alive(spec.name):
                raise NodeError(
                    f"node {spec.name} died while it started; its log ends with\n{runtime.log_tail(spec.name)}"
                )
        if waiting and time.monotonic() > deadline:
            spec = next(iter(waiting.values()))
            raise NodeError(
                f"node {spec.name} was not healthy after {spec.start_timeout_s:.0f} s "
                f"({spec.health_source}); its log ends with\n{runtime.log_tail(spec.name)}"
            )
        if waiting:
            time.sleep(0.2)


def _find_healthy(healthy: Callable[[NodeSpec], bool], specs: list[NodeSpec]) -> Iterator[NodeSpec]:
    with ThreadPoolExecutor(max_workers=min(32, len(specs))) as pool:
        for spec, answer in zip(specs, pool.map(healthy, specs), strict=True):
            if answer:
                yield spec
