"""The targets of a fault: the nodes or clients that it may act on, and those that it acts on if it is injected now."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from brokerproof.errors import AdminError, DeadlineError, RunError
from brokerproof.experiment.fault import Fault, Targets
from brokerproof.experiment.topology import Topology
from brokerproof.experiment.workload import Workload, WorkloadClient
from brokerproof.faults.courses import Course
from brokerproof.faults.stage import Stage
from brokerproof.run.directory import Run
from brokerproof.run.records import FaultTargets, read_record, record_keys, write_record
from brokerproof.systems.abilities import FindsCoordinators, LocatesCopies, require
from brokerproof.systems.protocols import Observation
from brokerproof.systems.registry import find_system
from brokerproof.systems.roles import coordinates, list_nodes_that, serves, stores

# Seconds to wait for an answer about the targets. After `_PATIENCE_S`, the targets that were known last are used. If
# none were ever known, the fault is given up after `_TIMEOUT_S`.
_PATIENCE_S, _TIMEOUT_S = 5.0, 60.0


def list_possible_targets(targets: Targets, topology: Topology) -> list[str]:
    """Return the names of all nodes that a fault with these `targets` may act on, according to the topology.

    Only a running cluster knows which of these nodes owns the topic, holds its newest messages or leads the others.
    """
    system = find_system(topology)
    if targets.asks_who_leads:
        clusters = [targets.cluster] if targets.cluster else topology.clusters
        found = (name for cluster in clusters for name in list_nodes_that(coordinates, topology, cluster))
        return _select(list(dict.fromkeys(found)), targets, topology)
    trait = {None: None, "topic_owner": serves}.get(targets.now, stores)
    names = targets.nodes or [
        name for name, node in topology.nodes.items() if trait is None or trait(system.roles[node.role])
    ]
    return _select(names, targets, topology)[: None if targets.now else targets.count]


def list_clients(targets: Targets, workload: Workload, topology: Topology) -> dict[str, WorkloadClient]:
    """Return {label: client} of all clients that `targets` selects; empty if it selects nodes."""
    clients = workload.list_clients(topology, targets.client) if targets.client else []
    found = {
        each.label: each
        for each in clients
        if (not targets.names or {each.label, each.name} & set(targets.names))
        and targets.subscription in (None, each.subscription)
        and targets.cluster in (None, each.cluster)
    }
    return dict(list(found.items())[: targets.count])


def resolve_targets(targets: Targets, topology: Topology, observation: Observation) -> list[str]:
    """Return the names of the nodes that a fault acts on if it is injected now.

    Raises RunError if no node fits `targets` now, AdminError if the cluster does not answer.
    """
    return _find_candidates(targets, topology, observation)[: targets.count]


def _find_candidates(targets: Targets, topology: Topology, observation: Observation) -> list[str]:
    """Return all nodes that fit `targets` now. A fault takes the first `targets.count` of them."""
    if targets.nodes:
        names = list(targets.nodes)
    elif targets.now == "topic_owner":
        owner = observation.find_owner(targets.cluster)
        names = [owner] if owner else []
    elif targets.asks_who_leads:
        coordinators = require(observation, FindsCoordinators).find_coordinators(targets.cluster)
        names = [coordinators.leader] if targets.now == "coordination_leader" else list(coordinators.followers)
    elif targets.now is not None:
        names = require(observation, LocatesCopies).find_holders(targets.cluster)
    else:
        names = list(topology.nodes)
    names = _select(names, targets, topology)
    if not names:
        raise RunError(f"no node is {targets.model_dump(exclude_defaults=True)} now; the fault has no target")
    return names


class TargetFinder:
    """Finds the targets of each fault when the fault is due, or uses targets found earlier if none can be found."""

    def __init__(self, stage: Stage, list_kept_down: Callable[[Fault], Collection[str]]) -> None:
        """`list_kept_down` returns the nodes that are down because of faults other than the given one."""
        self._stage, self._list_kept_down = stage, list_kept_down
        # {fault: (the nodes that fitted its targets last, when this was known)}
        self._known: dict[str, tuple[list[str], int]] = {}

    def remember(self, fault: Fault) -> Course[None]:
        """Remember the targets that a fault would have now, if they depend on the cluster's state (`targets.now`)."""
        if fault.targets.now is not None and fault.targets.client is None:
            yield from self._stage.waits.do(lambda: self._ask(fault))

    def find(self, fault: Fault) -> Course[list[str]]:
        """Return the targets of a fault that is due.

        A fault that asks for nodes by what they do now acts on none that another fault keeps down, because it would
        have no effect there. If its targets cannot be found within `_PATIENCE_S` seconds, those that were found last
        are returned, and the record `FaultTargets` and the timeline's problems mention this. Raises DeadlineError if no
        targets are known after `_TIMEOUT_S` seconds.
        """
        stage = self._stage
        if fault.targets.client is not None:
            return list(list_clients(fault.targets, stage.run.scenario.workload, stage.topology))
        if fault.targets.now is None:
            return resolve_targets(fault.targets, stage.topology, stage.observation)
        asked_at = stage.clock.now_us()
        why: list[str] = []

        def find() -> list[str] | None:
            reason = self._ask(fault)
            candidates, known_at = self._known.get(fault.name, ([], 0))
            why[:] = [reason or f"another fault keeps {', '.join(candidates)} down"]
            if known_at < asked_at and stage.clock.now_us() <= asked_at + _PATIENCE_S * 1e6:
                return None
            return self._choose(fault, candidates) or None

        what = f"the targets of {fault.name}"
        try:
            targets = yield from stage.waits.poll(find, timeout_s=_TIMEOUT_S, what=what, every_s=0.25)
        except DeadlineError as error:
            raise DeadlineError(f"{error}: {why[0]}") from None
        candidates, known_at = self._known[fault.name]
        # Another fault may have taken one of them since this was asked.
        targets = self._choose(fault, candidates) or targets
        if known_at < asked_at:
            known = FaultTargets(
                fault=fault.name, targets=tuple(targets), known_at=known_at, why=why[0], at=stage.clock.now_us()
            )
            write_record(stage.run, known)
            stage.problems.append(
                f"the targets of {fault.name} were not known when it was due ({why[0]}); "
                f"it was done to those that were known {known.age_s:.0f} s before"
            )
        return targets

    def _choose(self, fault: Fault, candidates: Sequence[str]) -> list[str]:
        down = self._list_kept_down(fault)
        return [name for name in candidates if name not in down][: fault.targets.count]

    def _ask(self, fault: Fault) -> str | None:
        """Find and remember the nodes that fit a fault now. Returns None, or the reason why none was found."""
        try:
            candidates = _find_candidates(fault.targets, self._stage.topology, self._stage.observation)
        except (AdminError, RunError) as error:
            return str(error)
        self._known[fault.name] = candidates, self._stage.clock.now_us()
        return None


def read_doubts_about_targets(run: Run) -> dict[str, str]:
    """Return {fault: sentence} for each fault whose targets could not be found when it was due, but only before.

    If the record of a fault's targets cannot be read, the sentence says why.
    """
    doubts: dict[str, str] = {}
    for name in record_keys(run, FaultTargets):
        try:
            record = read_record(run, FaultTargets, name)
        except RunError as error:
            doubts[name] = f"the record of its targets cannot be read ({error})"
        else:
            if record is not None:
                doubts[name] = f"its targets were known only from {record.age_s:.0f} s before"
    return doubts


def _select(names: Sequence[str], targets: Targets, topology: Topology) -> list[str]:
    return [
        name
        for name in names
        if (targets.region is None or topology.nodes[name].region == targets.region)
        and (targets.role is None or topology.nodes[name].role == targets.role)
        # Coordinating nodes may be in no cluster, because all clusters share them.
        and (targets.cluster is None or targets.asks_who_leads or name in topology.clusters[targets.cluster].nodes)
    ]
