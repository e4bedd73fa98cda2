"""The kinds of fault that act on the link: on the traffic between the targets and the nodes of other regions.

Where the targets are a whole region, the fault also acts on the region's clients. Where the targets are all serving
nodes of a region, it also acts on their connections as clients of other serving nodes. As a client, a single serving
node shares an address with its neighbours, so a fault of that node alone does not act on these connections.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from brokerproof.errors import AdminError, InputError, RunError
from brokerproof.experiment.fault import Direction, Fault, LinkChange
from brokerproof.experiment.topology import name_brokers_place, name_clients_place
from brokerproof.faults.kind import FaultKind, Surroundings, register
from brokerproof.network import Condition, accepts_connection, matches
from brokerproof.runtimes.protocols import EmulatesLinks
from brokerproof.systems.roles import coordinates, is_listed, list_nodes_that, serves

if TYPE_CHECKING:
    from brokerproof.experiment.topology import Topology
    from brokerproof.network import Network

# On a loopback address a connection takes microseconds; this is the time in which no byte must cross either.
_PROBE_S = 0.05


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """The traffic that a fault acts on, in the link's terms."""

    senders: list[str]
    receivers: list[str]
    both_ways: bool

    def holds(self, sender: str, receiver: str) -> bool:
        """Whether the fault acts on the traffic from one node to the other."""
        return matches(self.senders, self.receivers, self.both_ways, sender, receiver)


class LinkFaultKind(FaultKind):
    """A kind of fault that acts on the link."""

    needs_of_runtime = EmulatesLinks
    # The field of `link` that this kind changes, which must be given, and the fields that may be given with it.
    changes: ClassVar[str | None] = None
    takes: ClassVar[tuple[str, ...]] = ()

    def check(self, fault: Fault, topology: Topology) -> None:
        """Raises InputError without a link, for an unknown region, and without the quality that this kind changes."""
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
            raise InputError(f"`{self.name}` does not say how much", field=f"link.{self.changes}", remedy="add it")
        for field in given:
            if field != self.changes and field not in self.takes:
                raise InputError(f"is not what `{self.name}` changes", field=f"link.{field}", remedy="leave it out")

    def find_recovery(self, around: Surroundings, targets: Sequence[str]) -> str | None:
        """The cluster lists all affected nodes as alive, and each of them says that it is healthy.

        The node's own answer is not enough: a node whose session has ended calls itself healthy until it notices.
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
    """A kind of fault that lasts: one condition of the link, with the name of the fault."""

    @abstractmethod
    def condition(self, fault: Fault, traffic: Traffic) -> Condition:
        """The condition that the link gets."""

    def inject(self, around: Surroundings, targets: Sequence[str]) -> None:
        require_link(around).add(self.condition(around.fault, select_traffic(around, targets)))

    def find_evidence(self, around: Surroundings, targets: Sequence[str]) -> str | None:
        """The condition is in force; the evidence says on how many connections."""
        state = require_link(around).state()
        condition = next((one for one in state.conditions if one.id == around.fault.name), None)
        if condition is None:
            return None
        in_force = condition.model_dump(exclude={"id", "senders", "receivers"}, exclude_defaults=True)
        return json.dumps({"in_force": in_force, **state.effects[condition.id].model_dump()})

    def heal(self, around: Surroundings, targets: Sequence[str]) -> None:
        """End the condition, if it is in force."""
        if _is_in_force(around):
            require_link(around).remove(around.fault.name)

    def find_recovery(self, around: Surroundings, targets: Sequence[str]) -> str | None:
        """The condition is gone, and the nodes are healthy."""
        return None if _is_in_force(around) else super().find_recovery(around, targets)


@register
class Partition(_LastingLinkFaultKind):
    """Cuts nodes off from other regions: nothing gets through, in both directions or one."""

    name, done = "partition", "cut off"
    keeps_sessions = True

    def list_silenced(self, fault: Fault, targets: Collection[str], topology: Topology) -> list[str]:
        """The nodes that it cuts off from every node which can still coordinate their cluster.

        Of several such nodes only those can that see more than half of them.
        """
        far = (fault.link or LinkChange()).regions or topology.regions

        def is_cut(one: str, other: str) -> bool:
            here, there = (topology.nodes[name].region for name in (one, other))
            return here != there and ((one in targets and there in far) or (other in targets and here in far))

        silenced: list[str] = []
        for name, cluster in topology.clusters.items():
            stores = list_nodes_that(coordinates, topology, name)
            able = [one for one in stores if 2 * sum(not is_cut(one, other) for other in stores) > len(stores)]
            if stores:
                silenced += [node for node in cluster.nodes if all(is_cut(node, store) for store in able)]
        return silenced

    def condition(self, fault: Fault, traffic: Traffic) -> Condition:
        return Condition(id=fault.name, **vars(traffic), cut=True)

    def find_evidence(self, around: Surroundings, targets: Sequence[str]) -> str | None:
        """No byte crosses, and a new connection gets no answer."""
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
        """A new connection gets through, and the nodes are healthy."""
        address, let_in = _try_connection(require_link(around), select_traffic(around, targets))
        health = super().find_recovery(around, targets) if let_in else None
        return None if health is None else json.dumps({**json.loads(health), "answer_from": address})


@register
class Delay(_LastingLinkFaultKind):
    """Adds a delay, in milliseconds one way, between nodes and other regions."""

    name, done = "delay", "delayed"
    changes, takes, slows = "delay_ms", ("jitter_ms",), True
    leaves_nodes = True

    def condition(self, fault: Fault, traffic: Traffic) -> Condition:
        on = fault.link or LinkChange()
        return Condition(id=fault.name, **vars(traffic), delay_ms=on.delay_ms or 0, jitter_ms=on.jitter_ms or 0)


@register
class Bandwidth(_LastingLinkFaultKind):
    """Limits the bandwidth between nodes and other regions, to one value in Mbit/s for all of them together."""

    name, done = "bandwidth", "throttled"
    changes, slows = "bandwidth_mbit", True
    leaves_nodes = True

    def condition(self, fault: Fault, traffic: Traffic) -> Condition:
        on = fault.link or LinkChange()
        return Condition(id=fault.name, **vars(traffic), bandwidth_mbit=on.bandwidth_mbit)


@register
class Reset(LinkFaultKind):
    """Resets, once, every connection that is open between nodes and other regions."""

    name, done = "reset", "disconnected for a moment"
    leaves_nodes = True

    def inject(self, around: Surroundings, targets: Sequence[str]) -> None:
        require_link(around).reset(around.fault.name, **vars(select_traffic(around, targets)))

    def find_evidence(self, around: Surroundings, targets: Sequence[str]) -> str | None:
        """The link reset at least one connection."""
        effect = require_link(around).state().effects.get(around.fault.name)
        return json.dumps(effect.model_dump()) if effect is not None and effect.connections else None

    def heal(self, around: Surroundings, targets: Sequence[str]) -> None:
        """There is nothing to undo: clients connect again by themselves."""


def _is_in_force(around: Surroundings) -> bool:
    return any(condition.id == around.fault.name for condition in require_link(around).state().conditions)


def require_link(around: Surroundings) -> Network:
    """The run's link. Raises RunError where it has none."""
    if around.link is None:
        raise RunError(f"{around.fault.name} is done to the link, and this run has none")
    return around.link


def select_traffic(around: Surroundings, targets: Sequence[str]) -> Traffic:
    """The traffic between the targets and everything that they see in other regions."""
    regions: dict[str, str] = {}
    for route in require_link(around).routes():
        regions |= {route.viewer: route.viewer_region, route.target: route.target_region}
    on = around.fault.link or LinkChange()
    ours = sorted(_add_client_places(around, targets) & regions.keys())
    # Routes exist only between different regions, so names in the targets' own region have no effect here.
    others = sorted(name for name, region in regions.items() if not on.regions or region in on.regions)
    if on.direction is Direction.TO_TARGETS:
        ours, others = others, ours
    return Traffic(senders=ours, receivers=others, both_ways=on.direction is Direction.BOTH)


def _add_client_places(around: Surroundings, targets: Sequence[str]) -> set[str]:
    """The targets, and the client places whose nodes are all among the targets."""
    names = set(targets)
    for region in {spec.region for spec in around.specs.values()}:
        inside = {name: spec.role for name, spec in around.specs.items() if spec.region == region}
        serving = {name for name, role in inside.items() if serves(around.roles[role])}
        if inside.keys() <= set(targets):
            names |= {name_clients_place(region), name_brokers_place(region)}
        elif serving and serving <= set(targets):
            names.add(name_brokers_place(region))
    return names


def _try_connection(link: Network, traffic: Traffic) -> tuple[str, bool]:
    """Try a new connection on one of the routes concerned. Returns its address, and whether the route let it in."""
    route = next(
        route
        for route in link.routes()
        if traffic.holds(route.viewer, route.target) or traffic.holds(route.target, route.viewer)
    )
    address = f"{route.listen_address}:{route.ports[0]} ({route.target} as {route.viewer} sees it)"
    return address, accepts_connection(route, timeout_s=_PROBE_S)
