"""A topology: the clusters, their regions and nodes, and the policies laid over them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from brokerproof.errors import InputError
from brokerproof.experiment.layered_file import extend_field, read_layered_file
from brokerproof.experiment.links import RegionLink
from brokerproof.experiment.yaml_models import Document, apply_overrides, closest, list_yaml, parse

_NAME = r"^[a-z][a-z0-9-]*$"


class Role(StrEnum):
    """What a node does."""

    METADATA = "metadata"
    BROKER = "broker"
    BOOKIE = "bookie"


class Node(Document):
    """One process (or container) of a cluster."""

    role: Role
    region: str = Field(pattern=_NAME)
    rack: str = Field("rack-1", pattern=_NAME, description="rack inside the region")
    standby: bool = Field(
        False, description="a broker that is not started with the other nodes, but by a fault of the kind `start`"
    )

    @model_validator(mode="after")
    def _only_brokers_stand_by(self) -> Self:
        if self.standby and self.role is not Role.BROKER:
            raise InputError(
                f"a {self.role} on standby has not what the others wrote meanwhile",
                field="standby",
                remedy="leave it out; only brokers can stand by",
            )
        return self


class Persistence(Document):
    """How many bookies hold each entry."""

    ensemble: int = Field(2, ge=1)
    write_quorum: int = Field(2, ge=1)
    ack_quorum: int = Field(2, ge=1)

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if not self.ensemble >= self.write_quorum >= self.ack_quorum:
            raise InputError(
                f"impossible quorum {self.ensemble}/{self.write_quorum}/{self.ack_quorum}",
                remedy="ensemble >= write_quorum >= ack_quorum",
            )
        return self


class IsolationPolicy(Document):
    """Which region's brokers own a namespace's topics, and which take over."""

    primary: str = Field(description="region whose brokers own the topics")
    secondary: str | None = Field(None, description="region whose brokers take over")
    min_limit: int = Field(1, ge=0, description="fewest primary brokers before the secondary ones take over")
    usage_threshold: int = Field(100, ge=0, le=100, description="percent of load before the secondary ones help")


class Namespace(Document):
    """A namespace's policies."""

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


class Placement(Document):
    """Where copies go and where reads come from."""

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


class Cluster(Document):
    """One cluster: its nodes by name, its placement, its namespaces by `tenant/name`."""

    nodes: dict[str, Node]
    placement: Placement = Placement()
    namespaces: dict[str, Namespace] = Field(default_factory=dict)

    @field_validator("nodes")
    @classmethod
    def _named_like_hosts(cls, nodes: dict[str, Node]) -> dict[str, Node]:
        for role in (Role.BROKER, Role.BOOKIE):
            if not any(node.role is role for node in nodes.values()):
                raise InputError(f"no node has the role `{role}`", remedy=f"add a node with `role: {role}`")
        if all(node.standby for node in nodes.values() if node.role is Role.BROKER):
            raise InputError("every broker is on standby", remedy="leave `standby` out of one of them")
        return nodes

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        bookies = self.names(role=Role.BOOKIE)
        if self.placement.pinned_to is not None:
            self._known_region(self.placement.pinned_to, "placement.pinned_to")
            bookies = self.names(role=Role.BOOKIE, region=self.placement.pinned_to)
        for name, namespace in self.namespaces.items():
            at = f"namespaces.{name}"
            if name.count("/") != 1:
                raise InputError("is no namespace", field=at, remedy="write `tenant/namespace`")
            if namespace.persistence.ensemble > len(bookies):
                raise InputError(
                    f"impossible quorum: an ensemble of {namespace.persistence.ensemble} with {len(bookies)} bookies",
                    field=f"{at}.persistence.ensemble",
                    remedy="lower it or add bookies",
                )
            if namespace.isolation:
                self._known_region(namespace.isolation.primary, f"{at}.isolation.primary")
                if namespace.isolation.secondary is not None:
                    self._known_region(namespace.isolation.secondary, f"{at}.isolation.secondary")
        return self

    def _known_region(self, region: str, field: str) -> None:
        if region not in self.regions:
            raise InputError(f"no node is in region `{region}`", field=field, remedy=closest(region, self.regions))

    @property
    def regions(self) -> list[str]:
        """Regions that hold messages (have a bookie), in the file's order."""
        return list(dict.fromkeys(node.region for node in self.nodes.values() if node.role is Role.BOOKIE))

    def names(self, *, role: Role | None = None, region: str | None = None) -> list[str]:
        """Names of the nodes of a role, of a region, or both."""
        return [
            name
            for name, node in self.nodes.items()
            if (role is None or node.role is role) and (region is None or node.region == region)
        ]


class Topology(Document):
    """Everything that `provision` and `configure` set up."""

    title: str
    description: str
    system: str = Field("pulsar", description="the driver that runs it")
    clusters: dict[str, Cluster] = Field(min_length=1)
    shared_metadata: dict[str, Node] = Field(
        default_factory=dict,
        description="nodes of one metadata store for all clusters, which then have none of their own: each cluster "
        "under a chroot of its name, the root as their configuration store",
    )
    links: list[RegionLink] = Field(
        default_factory=list,
        description="networks between regions; with any, all that connects two regions crosses an emulated network, "
        "which passes everything on at once between two regions that are not listed here",
    )
    settings: dict[Role, dict[str, str | int | float | bool]] = Field(
        default_factory=dict, description="the system's own configuration keys, by role"
    )
    heap_mb: dict[Role, int] = Field(
        default_factory=lambda: {Role.METADATA: 128, Role.BOOKIE: 192, Role.BROKER: 320},
        description="heap of a node in MiB, by role; bookies and brokers get as much direct memory again",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        seen: set[str] = set(self.shared_metadata)
        for name, node in self.shared_metadata.items():
            if node.role is not Role.METADATA:
                raise InputError(
                    f"is a {node.role}", field=f"shared_metadata.{name}.role", remedy="put it into its cluster's nodes"
                )
        for cluster_name, cluster in self.clusters.items():
            self._one_metadata_store(cluster_name)
            for name in cluster.nodes:
                if name in seen:
                    raise InputError(
                        "is the name of two nodes", field=f"clusters.{cluster_name}.nodes.{name}", remedy="rename one"
                    )
                seen.add(name)
            for name, namespace in cluster.namespaces.items():
                for other in namespace.replicated_to:
                    at = f"clusters.{cluster_name}.namespaces.{name}.replicated_to"
                    if other not in self.clusters:
                        raise InputError(
                            f"no cluster is called `{other}`", field=at, remedy=closest(other, self.clusters)
                        )
                    self._same_there(cluster_name, name, other, at)
        return self

    def _one_metadata_store(self, cluster: str) -> None:
        own = self.clusters[cluster].names(role=Role.METADATA)
        if not own and not self.shared_metadata:
            raise InputError(
                "no node has the role `metadata`",
                field=f"clusters.{cluster}.nodes",
                remedy="add a node with `role: metadata`, or `shared_metadata` for all clusters",
            )
        if own and self.shared_metadata:
            raise InputError(
                "a second metadata store beside the shared one",
                field=f"clusters.{cluster}.nodes.{own[0]}",
                remedy="leave one of the two out",
            )

    def _same_there(self, cluster: str, name: str, other: str, at: str) -> None:
        """A namespace that is replicated has to be in the other cluster; in one configuration store it is one."""
        here, there = self.clusters[cluster].namespaces[name], self.clusters[other].namespaces.get(name)
        if there is None:
            raise InputError(
                f"`{other}` has no namespace `{name}`", field=at, remedy=f"add it to clusters.{other}.namespaces"
            )
        different = here.model_copy(update={"isolation": None, "replicated_to": []}) != there.model_copy(
            update={"isolation": None, "replicated_to": []}
        )
        if self.shared_metadata and (different or set(self.reached(cluster, name)) != set(self.reached(other, name))):
            raise InputError(
                f"`{name}` is one namespace in the shared metadata store, and `{other}` describes it differently",
                field=at,
                remedy="give both the same clusters, persistence and deduplication",
            )

    @model_validator(mode="after")
    def _links_of_known_regions(self) -> Self:
        pairs: set[frozenset[str]] = set()
        for number, link in enumerate(self.links):
            at = f"links.{number}.between"
            for region in link.between:
                if region not in self.regions:
                    raise InputError(f"no node is in region `{region}`", field=at, remedy=closest(region, self.regions))
            pair = frozenset(link.between)
            if len(pair) == 1:
                raise InputError(
                    f"leads from `{link.between[0]}` to itself", field=at, remedy="name two different regions"
                )
            if pair in pairs:
                raise InputError(f"{' and '.join(link.between)} have two links", field=at, remedy="keep one")
            pairs.add(pair)
        return self

    @model_validator(mode="after")
    def _nodes_can_be_named_across_links(self) -> Self:
        if not self.links:
            return self
        files = {name: f"shared_metadata.{name}" for name in self.shared_metadata} | {
            name: f"clusters.{cluster_name}.nodes.{name}"
            for cluster_name, cluster in self.clusters.items()
            for name in cluster.nodes
        }
        for name, at in files.items():
            if not re.match(_NAME, name) or name == "localhost":
                raise InputError(
                    "is no host name, which nodes of a topology with links need",
                    field=at,
                    remedy="use lower-case letters, digits and `-`, with a letter first",
                )
            if name == "zk" and self.nodes[name].role is Role.METADATA:
                # Pulsar takes the prefix off `zk:zk:2181` twice.
                raise InputError(
                    "is what Pulsar's URLs of metadata stores begin with", field=at, remedy="rename it `metadata`"
                )
            if name in self.places:
                raise InputError("is the name of a place of its clients", field=at, remedy="rename it")
        return self

    @model_validator(mode="after")
    def _replicated_from_one_region_across_links(self) -> Self:
        for cluster in self.clusters:
            regions = self.regions_replicating_to(cluster) if self.links else []
            if len(regions) > 1:
                raise InputError(
                    f"is replicated with across links from brokers in {' and '.join(regions)}, and Pulsar knows "
                    "another cluster by one listener only",
                    field=f"clusters.{cluster}",
                    remedy="leave out `links`, or put the brokers of each cluster into one region",
                )
        return self

    def regions_replicating_to(self, cluster: str) -> list[str]:
        """The regions in which the clusters that replicate something to this one have brokers."""
        return list(
            dict.fromkeys(
                node.region
                for name, other in self.clusters.items()
                if name != cluster and any(cluster in self.reached(name, each) for each in other.namespaces)
                for node in other.nodes.values()
                if node.role is Role.BROKER
            )
        )

    @cached_property
    def places(self) -> Mapping[str, str]:
        """What connects to other regions beside nodes under their own names, with its region.

        `brokers-REGION` are the region's brokers where they are clients of other brokers, `clients-REGION` the clients
        of the workload that are in the region.
        """
        return {place(region): region for region in self.regions for place in (brokers_in, clients_in)}

    @cached_property
    def nodes(self) -> Mapping[str, Node]:
        """All nodes of all clusters and of the metadata store that they share, by name."""
        own = {name: node for cluster in self.clusters.values() for name, node in cluster.nodes.items()}
        return {**self.shared_metadata, **own}

    @cached_property
    def regions(self) -> list[str]:
        """All regions, those of metadata stores included, in the file's order."""
        return list(dict.fromkeys(node.region for node in self.nodes.values()))

    def metadata_nodes(self, cluster: str) -> list[str]:
        """The nodes of a cluster's metadata store: the shared one, or its own."""
        return list(self.shared_metadata) or self.clusters[cluster].names(role=Role.METADATA)

    def cluster_of(self, node: str) -> str:
        """Name of the cluster that a node belongs to. Raises KeyError for a node of the shared metadata store."""
        for name, cluster in self.clusters.items():
            if node in cluster.nodes:
                return name
        raise KeyError(node)

    def reached(self, home: str, namespace: str) -> list[str]:
        """The clusters whose logs have to hold what is published to a namespace in `home`, `home` first."""
        policies = self.clusters[home].namespaces.get(namespace)
        return list(dict.fromkeys([home, *(policies.replicated_to if policies else [])]))


def brokers_in(region: str) -> str:
    """The place of a region's brokers as clients of other brokers."""
    return f"brokers-{region}"


def clients_in(region: str) -> str:
    """The place of a region's clients."""
    return f"clients-{region}"


def load_topology(name: str, directory: Path, overrides: Mapping[str, Any] | None = None) -> Topology:
    """The topology in `directory/name.yaml` with what it extends, and with values replaced by dotted path."""
    known = list_yaml(directory)
    path = directory / f"{name}.yaml"
    if name not in known:
        raise InputError(f"no topology is called `{name}`", file=str(path), remedy=closest(name, known))
    layered = read_layered_file(path, own=("title", "description"))
    extended = extend_field(layered.content, "settings", directory / "settings", file=path)
    content = apply_overrides(extended, overrides or {}, source=f"overrides of topology {name}")
    try:
        return parse(Topology, content, file=str(path))
    except InputError as error:
        file = layered.file_of(error.field)
        raise InputError(error.problem, file=str(file), field=error.field, remedy=error.remedy) from None
