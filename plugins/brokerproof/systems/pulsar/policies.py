"""The models of the policies that a topology gives a Pulsar cluster: the placement of copies, and the namespaces."""

from __future__ import annotations

from enum import StrEnum
from typing import Self

from pydantic import Field, model_validator

from brokerproof.errors import InputError
from brokerproof.experiment.topology import Cluster
from brokerproof.experiment.yaml_models import FrozenModel, parse
from brokerproof.systems.pulsar.roles import Role


class Persistence(FrozenModel):
    """How many copies an entry has, and how often a subscription's position is stored."""

    ensemble: int = Field(2, ge=1, description="bookies of a ledger")
    write_quorum: int = Field(2, ge=1, description="copies of an entry")
    ack_quorum: int = Field(2, ge=1, description="copies that must exist before the ack")
    # Pulsar reads a policy without a rate as 0. A broker's own default is `managedLedgerDefaultMarkDeleteRateLimit`.
    mark_delete_rate: float = Field(
        1.0,
        ge=0,
        allow_inf_nan=False,
        description="how often per second a subscription's position is stored at most. 0: whenever it moves",
    )

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if not self.ensemble >= self.write_quorum >= self.ack_quorum:
            raise InputError(
                f"impossible quorum {self.ensemble}/{self.write_quorum}/{self.ack_quorum}",
                remedy="ensemble >= write_quorum >= ack_quorum",
            )
        return self


class IsolationPolicy(FrozenModel):
    """The region whose brokers own a namespace's topics, and the region whose brokers take over from them."""

    primary: str = Field(description="region whose brokers own the topics")
    secondary: str | None = Field(None, description="region whose brokers take over")
    min_limit: int = Field(
        1, ge=0, description="the secondary brokers take over if fewer primary brokers than this are alive"
    )
    usage_threshold: int = Field(100, ge=0, le=100, description="percent of load before the secondary ones help")


class Namespace(FrozenModel):
    """The policies of a namespace."""

    isolation: IsolationPolicy | None = None
    persistence: Persistence = Persistence()
    deduplication: bool = False
    replicated_to: list[str] = Field(default_factory=list, description="clusters that every message must reach")


class BookiePlacement(StrEnum):
    """How brokers choose the bookies of a new ledger."""

    REGION_AWARE = "region_aware"
    PINNED = "pinned"
    ANY = "any"


class RepairPlacement(StrEnum):
    """How auto-recovery chooses the bookie of a new copy."""

    REGION_AWARE = "region_aware"
    SHIPPED = "shipped"


class Placement(FrozenModel):
    """The placement of copies, and whether brokers prefer to read the copy in their own region."""

    bookies: BookiePlacement = BookiePlacement.REGION_AWARE
    pinned_to: str | None = Field(None, description="region of all copies, with `bookies: pinned`")
    repair: RepairPlacement = RepairPlacement.REGION_AWARE
    local_reads: bool = True

    @model_validator(mode="after")
    def _pinned_somewhere(self) -> Self:
        if (self.bookies is BookiePlacement.PINNED) != (self.pinned_to is not None):
            raise InputError(
                "`pinned_to` and `bookies: pinned` belong together", field="pinned_to", remedy="give both or neither"
            )
        return self


class ClusterPolicies(FrozenModel):
    """The policies of a cluster of Pulsar: its placement, and its namespaces by `tenant/name`."""

    placement: Placement = Placement()
    namespaces: dict[str, Namespace] = Field(default_factory=dict)


def parse_policies(cluster: Cluster) -> ClusterPolicies:
    """Return a cluster's policies. Raises InputError, with a field's path below the cluster, if a policy is invalid."""
    return parse(ClusterPolicies, cluster.policies, file="")


def list_regions_with(role: Role, cluster: Cluster) -> list[str]:
    """Return the regions in which the cluster has nodes with this role, in the order of the topology's file."""
    return list(dict.fromkeys(node.region for node in cluster.nodes.values() if node.role == role))
