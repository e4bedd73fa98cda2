"""The roles of Pulsar's nodes, and the traits of each role."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from brokerproof.systems.protocols import RoleTraits


class Role(StrEnum):
    """A node's role, by the name that topologies use."""

    METADATA = "metadata"
    BOOKIE = "bookie"
    BROKER = "broker"


TRAITS: Mapping[str, RoleTraits] = {
    Role.METADATA: RoleTraits(coordinates=True, heap_mb=128),
    Role.BOOKIE: RoleTraits(stores=True, may_stand_by=True, heap_mb=192),
    Role.BROKER: RoleTraits(serves=True, may_stand_by=True, heap_mb=320),
}
