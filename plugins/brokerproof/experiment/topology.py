"""A topology: the clusters, their regions and nodes, the links between regions, and policies.

The messaging system defines, reads and checks roles and policies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from itertools import chain
from typing import Any, Self

from pydantic import ConfigDict, Field, model_validator

from brokerproof.directories import Directories
from brokerproof.errors import InputError, Mistakes
from brokerproof.experiment.layered_file import extend_field, find_container, read_layered_file
from brokerproof.experiment.yaml_models import (
    HYPHENATED,
    FrozenModel,
    PlainValue,
    apply_overrides,
    parse,
    suggest_file,
    suggest_name,
    write_value,
)


class LinkQuality(FrozenModel):
    """The delay, jitter and bandwidth of traffic in one direction."""

    delay_ms: float = Field(0, ge=0, le=60_000, description="one way")
    jitter_ms: float = Field(0, ge=0, description="the delay varies by at most this value, with equal probability")
    bandwidth_mbit: float | None = Field(
        None, gt=0, description="Mbit/s of all connections together, in each direction; unlimited by default"
    )

    @model_validator(mode="after")
    def _check_jitter(self) -> Self:
        if self.jitter_ms > self.delay_ms:
            raise InputError(
                f"a jitter of {self.jitter_ms:g} ms around a delay of {self.delay_ms:g} ms",
                field="jitter_ms",
                remedy="choose a jitter that is no greater than the delay",
            )
        return self


class RegionLink(LinkQuality):
    """The network between two regions. Both directions have the same quality."""

    between: list[str] = Field(min_length=2, max_length=2, description="the two regions")


class Restart(FrozenModel):
    """The service manager of a node. It starts the node `after_s` seconds after each time that the node ends by itself.

    `restart: false` in the file means no service manager.
    """

    after_s: float | None = Field(
        None,
        ge=0,
        allow_inf_nan=False,
        description="seconds from the end of the node to its next start; by default there is none",
    )

    @model_validator(mode="before")
    @classmethod
    def _read_short_form(cls, content: Any) -> Any:
        if content is False:
            return {}
        if isinstance(content, Mapping | Restart):
            return content
        raise InputError(
            f"is `{write_value(content)}`, which does not say after how many seconds",
            remedy="give `{after_s: 10}`, or `false` for no service manager",
        )


class Node(FrozenModel):
    """One process (or container) of a cluster."""

    role: str = Field(description="what it does, one of the messaging system's roles")
    region: str = Field(pattern=HYPHENATED)
    rack: str = Field("rack-1", pattern=HYPHENATED, description="rack inside the region")
    standby: bool = Field(
        False, description="it is not started with the other nodes; a fault of the kind `start` starts it"
    )
    restart: Restart | None = Field(
        None, description="its service manager; by default the one that the topology's `restart` has for its role"
    )


class Cluster(FrozenModel):
    """One cluster: its nodes by name, and its policies, which are further fields that the messaging system defines."""

    # The system reads and checks the other fields.
    model_config = ConfigDict(frozen=True, extra="allow")

    nodes: dict[str, Node]

    @property
    def policies(self) -> Mapping[str, Any]:
        """All fields of the cluster except `nodes`, unchanged."""
        return self.model_extra or {}

    def names(self, *, role: str | None = None, region: str | None = None) -> list[str]:
        """Return the names of the nodes with this role in this region. None means any role or any region."""
        return [
            name
            for name, node in self.nodes.items()
            if (role is None or node.role == role) and (region is None or node.region == region)
        ]


class Topology(FrozenModel):
    """The clusters, nodes, links and policies that a run sets up."""

    title: str
    description: str
    system: str = Field("pulsar", description="the messaging system")
    clusters: dict[str, Cluster] = Field(min_length=1)
    shared_metadata: dict[str, Node] = Field(
        default_factory=dict,
        description="nodes that coordinate all clusters, which then have no such nodes of their own",
    )
    links: list[RegionLink] = Field(
        default_factory=list,
        description="networks between regions. If there is one, every connection between two regions crosses an "
        "emulated network, which adds no delay between two regions that are not listed here",
    )
    settings: dict[str, dict[str, PlainValue]] = Field(
        default_factory=dict, description="configuration keys of the messaging system, by role"
    )
    heap_mb: dict[str, int] = Field(
        default_factory=dict, description="heap of a node in MiB, by role; the system's own by default"
    )
    restart: dict[str, Restart] = Field(
        default_factory=dict,
        description="service managers, by role: they start nodes again that ended by themselves, and none that a fault "
        "took down; by default there are none",
    )

    @model_validator(mode="after")
    def _give_nodes_their_roles_restart(self) -> Self:
        # The default is filled in here, so that the parameters of a run show the restart in force for each node.
        for nodes in (self.shared_metadata, *(cluster.nodes for cluster in self.clusters.values())):
            for name, node in nodes.items():
                if node.restart is None and node.role in self.restart:
                    nodes[name] = node.model_copy(update={"restart": self.restart[node.role]})
        return self

    @model_validator(mode="after")
    def _check_parts(self) -> Self:
        Mistakes(chain(self._list_name_mistakes(), self._list_link_mistakes())).raise_all()
        return self

    def _list_name_mistakes(self) -> Iterator[InputError]:
        seen: set[str] = set(self.shared_metadata)
        for cluster_name, cluster in self.clusters.items():
            for name in cluster.nodes:
                if name in seen:
                    yield InputError(
                        "is the name of two nodes", field=f"clusters.{cluster_name}.nodes.{name}", remedy="rename one"
                    )
                seen.add(name)
        for name, at in self.node_fields.items() if self.links else ():
            if not re.match(HYPHENATED, name) or name == "localhost":
                yield InputError(
                    "is no host name, which nodes of a topology with links need",
                    field=at,
                    remedy="use lower-case letters, digits and `-`, with a letter first",
                )
            if name in self.places:
                yield InputError("is the name of a place of its clients", field=at, remedy="rename it")

    def _list_link_mistakes(self) -> Iterator[InputError]:
        pairs: set[frozenset[str]] = set()
        for number, link in enumerate(self.links):
            at = f"links.{number}.between"
            unknown = [region for region in link.between if region not in self.regions]
            for region in unknown:
                yield InputError(
                    f"no node is in region `{region}`", field=at, remedy=suggest_name(region, self.regions)
                )
            pair = frozenset(link.between)
            if len(pair) == 1 and not unknown:
                yield InputError(
                    f"leads from `{link.between[0]}` to itself", field=at, remedy="name two different regions"
                )
            if pair in pairs:
                yield InputError(f"{' and '.join(link.between)} have two links", field=at, remedy="keep one")
            pairs.add(pair)

    @cached_property
    def node_fields(self) -> Mapping[str, str]:
        """{node: dotted path of its field in the topology file}, with nodes of `shared_metadata` first."""
        own = {
            name: f"clusters.{cluster_name}.nodes.{name}"
            for cluster_name, cluster in self.clusters.items()
            for name in cluster.nodes
        }
        return {**{name: f"shared_metadata.{name}" for name in self.shared_metadata}, **own}

    @cached_property
    def places(self) -> Mapping[str, str]:
        """{place: its region}. A place is a group of a region's processes that counts as one client of other regions.

        The place `clients-REGION` is the workload's clients in the region. The place `servers-REGION` is the region's
        serving nodes (message servers), when they connect as clients to the serving nodes of other regions.
        """
        return {place(region): region for region in self.regions for place in (name_servers_place, name_clients_place)}

    @cached_property
    def nodes(self) -> Mapping[str, Node]:
        """All nodes by name: those of `shared_metadata` and those of every cluster."""
        own = {name: node for cluster in self.clusters.values() for name, node in cluster.nodes.items()}
        return {**self.shared_metadata, **own}

    @cached_property
    def restarted_after_s(self) -> Mapping[str, float]:
        """{node: seconds until its service manager restarts it}. Nodes without a service manager are left out."""
        return {
            name: node.restart.after_s
            for name, node in self.nodes.items()
            if node.restart is not None and node.restart.after_s is not None
        }

    @cached_property
    def regions(self) -> list[str]:
        """All regions in the order of the file, beginning with those of the nodes in `shared_metadata`."""
        return list(dict.fromkeys(node.region for node in self.nodes.values()))

    def cluster_of(self, node: str) -> str:
        """Return the name of a node's cluster. Raises KeyError for a node of `shared_metadata`."""
        for name, cluster in self.clusters.items():
            if node in cluster.nodes:
                return name
        raise KeyError(node)


def name_servers_place(region: str) -> str:
    """Return the name of the place that consists of a region's serving nodes (see `Topology.places`)."""
    return f"servers-{region}"


def name_clients_place(region: str) -> str:
    return f"clients-{region}"


def read_topology(
    name: str,
    directories: Directories,
    overrides: Mapping[str, Any] | None = None,
    *,
    check: Callable[[Topology], Topology] = lambda topology: topology,
) -> Topology:
    """Return the topology in the file `name.yaml`, merged with the files that it extends.

    `overrides` is {dotted path: value} and replaces values. `check` gets the topology, and may fill in defaults or
    raise InputError for fields. Raises InputError, which names for each mistake the file that states the field.
    """
    path = directories.find(name)
    if path is None:
        raise InputError(f"no topology is called `{name}`", field="topology", remedy=suggest_file(name, directories))
    layered = read_layered_file(path, directories, own=("title", "description"))
    extended = extend_field(layered.content, "settings", directories.below("settings"), file=path)
    content = apply_overrides(extended, overrides or {}, source=f"overrides of topology {name}")
    try:
        return check(parse(Topology, content, file=""))
    except InputError as error:
        mistakes: dict[tuple[int, str, str], InputError] = {}
        for each in error.mistakes:
            # What a YAML anchor and its aliases share is one value, and a mistake in it is one mistake.
            shared = id(find_container(extended, each.field)), each.field.rpartition(".")[2], each.problem
            mistakes.setdefault(shared, each.locate(file=str(layered.file_of(each.field))))
        Mistakes(mistakes.values()).raise_all()
        raise
