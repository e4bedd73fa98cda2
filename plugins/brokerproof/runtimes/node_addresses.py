"""The loopback addresses of a run's nodes, from the number of the slot that the run holds (machine/slots.py)."""

from __future__ import annotations

from brokerproof.errors import MachineError
from brokerproof.experiment.topology import Topology

# The second octet of slot 0; 127.0 to 127.9 are left to other programs.
_FIRST_OCTET = 10
# The range of the third octets of addresses for viewers across links. Lower third octets belong to regions.
_FIRST_VIEW, _LAST_VIEW = 101, 254


def assign_addresses(topology: Topology, slot: int) -> dict[str, str]:
    """Return {node: address}, with addresses `127.<10 + slot>.<region>.<node>`, so that each region is a subnet.

    Raises MachineError if a region has more than 250 nodes.
    """
    assigned: dict[str, str] = {}
    for number, region in enumerate(topology.regions, start=1):
        members = [name for name, node in topology.nodes.items() if node.region == region]
        if len(members) > 250:
            raise MachineError(f"region {region} has {len(members)} nodes; an address range holds 250")
        for place, name in enumerate(members, start=11 if len(members) <= 240 else 1):
            assigned[name] = f"127.{_FIRST_OCTET + slot}.{number}.{place}"
    return assigned


def assign_views(topology: Topology, slot: int) -> dict[str, dict[str, str]]:
    """Return the address at which each viewer sees each node of another region: {viewer: {node: address}}.

    A viewer is a node or a place: the clients, or the serving nodes, of a region. Each viewer has a subnet of its own,
    so that a connection's target address shows its viewer. Without links, the result is empty. Raises MachineError if
    there are too many nodes or places.
    """
    if not topology.links:
        return {}
    regions = {**{name: node.region for name, node in topology.nodes.items()}, **topology.places}
    if len(regions) > _LAST_VIEW - _FIRST_VIEW + 1 or len(topology.nodes) > 250:
        raise MachineError(
            f"{len(topology.nodes)} nodes in {len(topology.regions)} regions with links; an address range holds "
            f"{_LAST_VIEW - _FIRST_VIEW + 1} nodes and places together"
        )
    return {
        viewer: {
            name: f"127.{_FIRST_OCTET + slot}.{subnet}.{number}"
            for number, (name, node) in enumerate(topology.nodes.items(), start=1)
            if node.region != region
        }
        for subnet, (viewer, region) in enumerate(regions.items(), start=_FIRST_VIEW)
    }
