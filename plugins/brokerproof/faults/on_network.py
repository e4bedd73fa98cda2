"""The kinds of fault that act on the link between regions: on traffic between the targets and nodes of other regions.

If all nodes of a region are targets, the fault also acts on the region's clients. All serving nodes (message servers)
of a region share one address, from which they open connections to serving nodes of other regions. A fault acts on these
connections only if all serving nodes of the region are targets.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from brokerproof.errors import AdminError, InputError, RunError
from brokerproof.experiment.fault import Direction, Fault, LinkChange
from brokerproof.experiment.topology import name_clients_place, name_servers_place
from brokerproof.faults.kind import FaultKind, Surroundings, register_fault
from brokerproof.network import Condition, accepts_connection, matches
from brokerproof.runtimes.protocols import EmulatesLinks
from brokerproof.systems.roles import is_listed, serves

if TYPE_CHECKING:
    from brokerproof.experiment.topology import Topology
    from brokerproof.network import LinkClient

# Seconds in which a cut link must pass no connection and no byte. A loopback address connects in microseconds.
_PROBE_S = 0.05


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """The traffic that a fault acts on: from the senders to the receivers, and back if `both_ways`.

    Senders and receivers are names of nodes, or of groups of processes such as a region's clients (`Topology.places`).
    """

    senders: list[str]
    receivers: list[str]
    both_ways: bool

    def holds(self, sender: str, receiver: str) -> bool:
        """Return whether the fault acts on the traffic from `sender` to `receiver`."""
        return matches(self.senders, self.receivers, self.both_ways, sender, receiver)


class LinkFaultKind(FaultKind):
    """The base of the kinds of fault that act on the link between regions."""

    needs_of_runtime = EmulatesLinks
    # The field of the fault's `link` that this kind requires.
    changes: ClassVar[str | None] = None
    # Further fields that this kind allows.
    takes: ClassVar[tuple[str, ...]] = ()

    def check(self, fault: Fault, topology: Topology) -> None:
        """Raises InputError if the topology has no links, or if `fault.link` contradicts the topology or this kind."""
        if not topology.links:
            raise InputError(
                f"`{self.name}` is done to the link between regions, and the topology has none",
                field="kind",
                remedy="use a topology with `links`, such as `sync_active_passive_wan`",
            )
        on = fault.link or LinkChange()
        for region in on.regions:
            if region not in topology.regions:
                raise InputError(
                    f"no region is called `{region}`",
                    field="link.regions",
                    remedy=f"one of: {', '.join(topology.regions)}",
                )
        if fault.targets.region is not None and on.regions == [fault.targets.region]:
            raise InputError(
                f"nothing between `{fault.targets.region}` and itself crosses a link",
                field="link.regions",
                remedy="name other regions, or leave it out for all of them",
            )
        given = on.model_dump(include={"delay_ms", "jitter_ms", "bandwidth_mbit"}, exclude_none=True)
        if self.changes and self.changes not in given:
            raise InputError(f"`{self.name}` needs a value for it", field=f"link.{self.changes}", remedy="add it")
        for field in given:
            if field != self.changes and field not in self.takes:
                raise InputError(f"`{self.name}` does not change it", field=f"link.{field}", remedy="leave it out")

    def find_recovery(self, around: Surroundings, targets: Sequence[str]) -> str | None:
        """Return evidence that the affected nodes are healthy; None until they are.

        Each affected node has to report itself healthy. The cluster has to list it as alive too, because a node may not
        have noticed that its session with the cluster ended. Affected nodes that ended by themselves are restarted.
        """
        traffic = select_traffic(around, targets)
        concerned = {*traffic.senders, *traffic.receivers} & around.specs.keys() - around.kept_down
        around.supervise(concerned)
        try:
            listed = {name for names in around.observation.list_alive().values() for name in names}
        except AdminError:
            return None
        if any(is_listed(around.roles[around.specs[name].role]) for name in concerned - listed):
            return None
        return super().find_recovery(around, sorted(concerned))


class _LastingLinkFaultKind(LinkFaultKind):
    """The base of the kinds of fault that change the link, for example by a cut or a delay, until the fault is healed.

    The change is a condition of the emulated network. The condition has the fault's name as its id.
    """

    @abstractmethod
    def condition(self, fault: Fault, traffic: Traffic) -> Condition:
        """Return the condition that the fault adds to the emulated network."""

    def inject(self, around: Surroundings, targets: Sequence[str]) -> None:
        require_link(around).add(self.condition(around.fault, select_traffic(around, targets)))

    def find_evidence(self, around: Surroundings, targets: Sequence[str]) -> str | None:
        """Return evidence that the fault's condition is in force; None if it is not.

        The evidence contains the number of affected connections.
        """
        state = require_link(around).state()
        condition = next((one for one in state.conditions if one.id == around.fault.name), None)
        if condition is None:
            return None
        in_force = condition.model_dump(exclude={"id", "senders", "receivers"}, exclude_defaults=True)
        return json.dumps({"in_force": in_force, **state.effects[condition.id].model_dump()})

    def heal(self, around: Surroundings, targets: Sequence[str]) -> None:
        if _is_in_force(around):
            require_link(around).remove(around.fault.name)

    def find_recovery(self, around: Surroundings, targets: Sequence[str]) -> str | None:
        """Return evidence that the fault's condition has ended and the nodes are healthy; None until then."""
        return None if _is_in_force(around) else super().find_recovery(around, targets)


@register_fault
class Partition(_LastingLinkFaultKind):
    """Cuts nodes off from other regions, in both directions or only in one: no traffic gets through."""

    name, done = "partition", "cut off"

    def condition(self, fault: Fault, traffic: Traffic) -> Condition:
        return Condition(id=fault.name, **vars(traffic), cut=True)

    def find_evidence(self, around: Surroundings, targets: Sequence[str]) -> str | None:
        """Return evidence that no byte crosses the link and a new connection gets no answer; None until both hold."""
        condition = super().find_evidence(around, targets)
        if condition is None:
            return None
        link, traffic = require_link(around), select_traffic(around, targets)
        before = link.count_bytes(**vars(traffic))
        address, let_in = _try_connection(link, traffic)
        crossed = link.count_bytes(**vars(traffic)) - before
        if let_in or crossed:
            return None
        return json.dumps({**json.loads(condition), "bytes_crossed": 0, "in_s": _PROBE_S, "no_answer_from": address})

    def find_recovery(self, around: Surroundings, targets: Sequence[str]) -> str | None:
        """Return evidence that the link accepts a new connection and the nodes are healthy; None until then."""
        address, let_in = _try_connection(require_link(around), select_traffic(around, targets))
        health = super().find_recovery(around, targets) if let_in else None
        return None if health is None else json.dumps({**json.loads(health), "answer_from": address})


@register_fault
class Delay(_LastingLinkFaultKind):
    """Adds a one-way delay, in milliseconds, to the traffic between nodes and other regions."""

    name, done = "delay", "delayed"
    changes, takes, slows = "delay_ms", ("jitter_ms",), True
    leaves_nodes = True

    def condition(self, fault: Fault, traffic: Traffic) -> Condition:
        on = fault.link or LinkChange()
        return Condition(id=fault.name, **vars(traffic), delay_ms=on.delay_ms or 0, jitter_ms=on.jitter_ms or 0)


@register_fault
class Bandwidth(_LastingLinkFaultKind):
    """Limits the bandwidth between nodes and other regions.

    All connections from one region to another share `bandwidth_mbit` (Mbit/s).
    """

    name, done = "bandwidth", "throttled"
    changes, slows = "bandwidth_mbit", True
    leaves_nodes = True

    def condition(self, fault: Fault, traffic: Traffic) -> Condition:
        on = fault.link or LinkChange()
        return Condition(id=fault.name, **vars(traffic), bandwidth_mbit=on.bandwidth_mbit)


@register_fault
class Reset(LinkFaultKind):
    """Resets all open connections between nodes and other regions, once."""

    name, done = "reset", "disconnected for a moment"
    leaves_nodes = True

    def inject(self, around: Surroundings, targets: Sequence[str]) -> None:
        require_link(around).reset(around.fault.name, **vars(select_traffic(around, targets)))

    def find_evidence(self, around: Surroundings, targets: Sequence[str]) -> str | None:
        """Return evidence that the link reset at least one connection; None if it reset none."""
        effect = require_link(around).state().effects.get(around.fault.name)
        return json.dumps(effect.model_dump()) if effect is not None and effect.connections else None

    def heal(self, around: Surroundings, targets: Sequence[str]) -> None:
        """Do nothing, because clients connect again by themselves."""


def _is_in_force(around: Surroundings) -> bool:
    return any(condition.id == around.fault.name for condition in require_link(around).state().conditions)


def require_link(around: Surroundings) -> LinkClient:
    """Return the network between the run's regions. Raises RunError if the run has none."""
    if around.link is None:
        raise RunError(f"{around.fault.name} is done to the link, and this run has none")
    return around.link


def select_traffic(around: Surroundings, targets: Sequence[str]) -> Traffic:
    """Return the traffic that the fault acts on: both directions, or the direction that `link.direction` selects.

    One side is the targets, with the clients and serving nodes that `_add_affected_places` adds. The other side is all
    nodes and clients in the regions that the fault names, or in all regions if the fault names none.
    """
    regions: dict[str, str] = {}
    for route in require_link(around).routes():
        regions |= {route.viewer: route.viewer_region, route.target: route.target_region}
    on = around.fault.link or LinkChange()
    ours = sorted(_add_affected_places(around, targets) & regions.keys())
    # Routes exist only between different regions, so it is harmless that `others` includes the targets' own region.
    others = sorted(name for name, region in regions.items() if not on.regions or region in on.regions)
    if on.direction is Direction.TO_TARGETS:
        ours, others = others, ours
    return Traffic(senders=ours, receivers=others, both_ways=on.direction is Direction.BOTH)


def _add_affected_places(around: Surroundings, targets: Sequence[str]) -> set[str]:
    """Return the targets, and the groups of processes (`Topology.places`) on which the fault acts too.

    If all serving nodes (message servers) of a region are targets, the group of these serving nodes is added. If all
    nodes of a region are targets, the group of the region's clients is added too.
    """
    names = set(targets)
    for region in {spec.region for spec in around.specs.values()}:
        inside = {name: spec.role for name, spec in around.specs.items() if spec.region == region}
        serving = {name for name, role in inside.items() if serves(around.roles[role])}
        if inside.keys() <= set(targets):
            names |= {name_clients_place(region), name_servers_place(region)}
        elif serving and serving <= set(targets):
            names.add(name_servers_place(region))
    return names


def _try_connection(link: LinkClient, traffic: Traffic) -> tuple[str, bool]:
    """Try a connection on the first route of the traffic. Returns (address, whether the link accepted it)."""
    route = next(
        route
        for route in link.routes()
        if traffic.holds(route.viewer, route.target) or traffic.holds(route.target, route.viewer)
    )
    address = f"{route.listen_address}:{route.ports[0]} ({route.target} as {route.viewer} sees it)"
    return address, accepts_connection(route, timeout_s=_PROBE_S)
