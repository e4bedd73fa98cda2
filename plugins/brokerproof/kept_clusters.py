"""Clusters that stay for the next run: which may stay, who takes one over, and whether it is as a new one.

The nodes of a kept cluster are in the directory of the run that started them. Each later run on them has topics of its
own, and its own slot record, which names both directories. A run that keeps its cluster leaves a `ClusterKept`; its
monitor then guards the nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import zip_longest
from typing import Any, TypeVar

from brokerproof import clock
from brokerproof.errors import BrokerproofError
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.faults.registry import FAULT_KINDS
from brokerproof.machine import slots
from brokerproof.network import State
from brokerproof.run.directory import Run
from brokerproof.run.records import (
    ClusterHandover,
    ClusterKept,
    ClustersConfigured,
    FaultsUndone,
    SubscriptionDrains,
    read_record,
    write_record,
)
from brokerproof.runtimes.protocols import EmulatesLinks, PausesNodes
from brokerproof.runtimes.registry import make_runtime
from brokerproof.systems.abilities import CountsMissingCopies, FindsCoordinators, SeparatesRuns
from brokerproof.systems.registry import find_system, make_observation, make_provisioning


class ClusterChoice(StrEnum):
    """Which cluster a run uses, and whether the cluster stays after it."""

    # A new cluster, which ends with the run.
    NEW = "new"
    # A kept cluster if one fits and is as a new one, otherwise a new one. It ends with the run.
    REUSE = "reuse"
    # Like REUSE, but the cluster stays for a later run.
    KEEP = "keep"


# A scenario and its topology.
Planned = tuple[Scenario, Topology]
# The same, and what else belongs to the run.
PlannedAndMore = TypeVar("PlannedAndMore", bound=tuple[Any, ...])

# A monitor looks for a handover ten times a second, but may be slow on a busy machine.
_HANDOVER_S = 30.0


def order_for_keeping(planned: Sequence[PlannedAndMore]) -> list[PlannedAndMore]:
    """Return the scenarios ordered so that runs share clusters: those of one cluster in a row, those that harm it last.

    Otherwise the given order stays. A scenario, its topology and anything else are one tuple.
    """
    clusters = [_describe_cluster(*each[:2]) for each in planned]
    return sorted(
        planned, key=lambda each: (clusters.index(_describe_cluster(*each[:2])), _find_harm(*each[:2]) is not None)
    )


def choose_clusters(planned: Sequence[Planned], *, keep: bool) -> list[ClusterChoice]:
    """Return the choice of each of these runs, which follow each other. A run keeps its cluster if the next can use it.

    Without `keep`, each run has a new cluster.
    """
    if not keep:
        return [ClusterChoice.NEW] * len(planned)
    return [
        ClusterChoice.KEEP
        if following is not None
        and _find_harm(*each) is None
        and _describe_cluster(*following) == _describe_cluster(*each)
        else ClusterChoice.REUSE
        for each, following in zip_longest(planned, planned[1:])
    ]


def find_reason_against_keeping(run: Run) -> str | None:
    """Return why a run's cluster cannot stay for a later run; None if it can.

    The reason completes the sentence "the cluster ends, because …".
    """
    if not run.facts.keeps_cluster:
        return "the run was not asked to keep it"
    if (harm := _find_harm(run.scenario, run.topology)) is not None:
        return harm
    if read_record(run, ClustersConfigured) is None:
        return "it was not configured"
    undone = read_record(run, FaultsUndone)
    if run.scenario.faults and (undone is None or not undone.undone or not undone.undisturbed):
        return "nothing proves that every fault was undone"
    drains = read_record(run, SubscriptionDrains)
    if drains is None or not all(drain.drained for drain in drains.subscriptions):
        # What holds a subscription back may be in the memory of a node that answers every health check.
        return "nothing proves that every subscription drained"
    return None


def _find_harm(scenario: Scenario, topology: Topology) -> str | None:
    """Return why no later run can use the cluster on which the scenario ran; None if one can."""
    if not isinstance(find_system(topology), SeparatesRuns):
        return f"{topology.system} cannot give runs topics of their own"
    if topology.restarted_after_s:
        return "its service managers count restarts from the beginning"
    for fault in scenario.faults:
        kind = FAULT_KINDS[fault.kind]
        # Clients end with their run.
        if fault.targets.client is None and (fault.permanent or kind.destroys or kind.helps):
            return f"{fault.name} leaves it unlike a new one"
    return None


def adopt_cluster(scenario: Scenario, topology: Topology) -> tuple[slots.Slot, Run] | None:
    """Take the slot of a kept cluster on which the scenario can run. Return the slot and the last run that used it.

    Returns None if there is no such cluster. If its monitor does not hand it over, the cluster is left alone.
    """
    for run in _list_kept():
        fits = _describe_cluster(run.scenario, run.topology) == _describe_cluster(scenario, topology)
        if fits and (slot := _take_over(run)) is not None:
            return slot, run
    return None


def has_kept_cluster() -> bool:
    """Return whether a slot is held only for a kept cluster, so that the next run can have the slot."""
    return next(_list_kept(), None) is not None


def end_unused_cluster() -> None:
    """Make the monitor of one kept cluster free its slot, if there is one. The next run in the slot ends the nodes."""
    for run in _list_kept():
        if (slot := _take_over(run)) is not None:
            slot.close()
            return


def has_ended_nodes(run: Run) -> bool:
    """Return whether a node that is not on standby has ended. Nothing starts it: a kept cluster has no service manager.

    If the runtime does not answer, no node is known to have ended.
    """
    runtime, nodes = make_runtime(run), run.topology.nodes
    try:
        return not all(runtime.is_alive(name) for name, node in nodes.items() if not node.standby)
    except BrokerproofError:
        return False


def list_differences(run: Run) -> Iterator[str]:
    """Yield a sentence for each difference between the cluster that a run started, and a new cluster."""
    runtime, provisioning, observation = make_runtime(run), make_provisioning(run), make_observation(run)
    try:
        for name, spec in provisioning.specs().items():
            if run.topology.nodes[name].standby:
                if runtime.is_alive(name):
                    yield f"{name} runs, although it is on standby"
            elif not runtime.is_alive(name):
                yield f"{name} does not run"
            elif isinstance(runtime, PausesNodes) and runtime.is_paused(name):
                yield f"{name} is frozen"
            elif not provisioning.is_ready(spec):
                yield f"{name} does not serve"
        listed = observation.list_alive()
        for role, names in listed.items():
            wanted = {name for name, node in run.topology.nodes.items() if node.role == role and not node.standby}
            if wanted != set(names):
                yield f"the cluster lists as {role}: {', '.join(sorted(names)) or 'none'}"
        if isinstance(observation, CountsMissingCopies) and (missing := observation.count_under_replicated()):
            yield f"{missing} segments lack a copy"
        if isinstance(observation, FindsCoordinators):
            for cluster in _list_clusters_with_ensemble(run.topology):
                observation.find_coordinators(cluster)
        if run.topology.links and isinstance(runtime, EmulatesLinks):
            yield from _list_link_differences(runtime.network().state())
    except BrokerproofError as error:
        yield str(error)


def _list_clusters_with_ensemble(topology: Topology) -> list[str]:
    """Return the clusters with several coordinating nodes. A single one has no leader to ask for."""
    roles = find_system(topology).roles
    return [
        name
        for name, cluster in topology.clusters.items()
        if sum(roles[node.role].coordinates for node in (*topology.shared_metadata.values(), *cluster.nodes.values()))
        > 1
    ]


def _list_link_differences(state: State) -> Iterator[str]:
    for condition in state.conditions:
        yield f"the link has the condition {condition.id}"


def _list_kept() -> Iterator[Run]:
    for directory in slots.list_held_runs():
        run = Run(directory)
        try:
            if read_record(run, ClusterKept) is not None and read_record(run, ClusterHandover) is None:
                yield run
        except BrokerproofError:
            # A damaged run keeps no cluster. Its slot is cleaned when its monitor has ended.
            continue


def _take_over(run: Run) -> slots.Slot | None:
    write_record(run, ClusterHandover(at=clock.now_us()))
    return slots.take_from_run(run.directory, timeout_s=_HANDOVER_S)


def _describe_cluster(scenario: Scenario, topology: Topology) -> dict[str, Any]:
    """Return what two runs must have in common so that the cluster of one can serve the other."""
    parts = topology.model_dump(mode="json", exclude={"title", "description"})
    return {**parts, "runtime": scenario.runtime, "version": scenario.version}
