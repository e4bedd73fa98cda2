"""The traits of a role: whether its nodes accept clients, store messages or coordinate a cluster.

Each messaging system has roles of its own. So code for all systems asks for a trait, never for a role.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from brokerproof.errors import InputError, Mistakes
from brokerproof.experiment.topology import Cluster, Topology
from brokerproof.experiment.yaml_models import suggest_name
from brokerproof.systems.protocols import RoleTraits, System
from brokerproof.systems.registry import find_system

Trait = Callable[[RoleTraits], bool]


def serves(traits: RoleTraits) -> bool:
    """Return whether clients connect to nodes of the role."""
    return traits.serves


def stores(traits: RoleTraits) -> bool:
    """Return whether nodes of the role hold copies of messages."""
    return traits.stores


def coordinates(traits: RoleTraits) -> bool:
    """Return whether nodes of the role keep the list of the cluster's nodes."""
    return traits.coordinates


def is_listed(traits: RoleTraits) -> bool:
    """Return whether a cluster lists which nodes of the role are alive."""
    return traits.serves or traits.stores


def list_roles_that(system: System, trait: Trait) -> list[str]:
    """Return the roles of a system that have a trait."""
    return [role for role, traits in system.roles.items() if trait(traits)]


def list_nodes_that(trait: Trait, topology: Topology, cluster: str) -> list[str]:
    """Return a cluster's nodes whose role has the trait, including nodes that all clusters share."""
    roles = list_roles_that(find_system(topology), trait)
    nodes = {**topology.shared_metadata, **topology.clusters[cluster].nodes}
    return [name for name, node in nodes.items() if node.role in roles]


def check_roles(topology: Topology, system: System) -> None:
    """Raises InputError, with the paths of fields, if the topology's nodes cannot form clusters of the system."""
    unknown = [
        InputError(f"no role of {system.name} is called `{role}`", field=field, remedy=suggest_name(role, system.roles))
        for field, role in _list_written_roles(topology)
        if role not in system.roles
    ]
    # A cluster may seem to lack a role that is only misspelt, so the clusters are checked after the names.
    Mistakes(unknown).raise_all()
    mistakes = Mistakes()
    for name, node in topology.nodes.items():
        if node.standby and not system.roles[node.role].may_stand_by:
            able = [f"{role}s" for role in list_roles_that(system, lambda traits: traits.may_stand_by)]
            mistakes.found.append(
                InputError(
                    f"a {node.role} on standby has not what the others wrote meanwhile",
                    field=f"{topology.node_fields[name]}.standby",
                    remedy=f"leave it out; only {' and '.join(able)} can stand by" if able else "leave it out",
                )
            )
    for name, node in topology.shared_metadata.items():
        if node.role not in list_roles_that(system, coordinates):
            mistakes.found.append(
                InputError(
                    f"is a {node.role}", field=f"shared_metadata.{name}.role", remedy="put it into its cluster's nodes"
                )
            )
    for name, cluster in topology.clusters.items():
        with mistakes.collect(below=f"clusters.{name}.nodes"):
            _check_cluster(cluster, system, shared=topology.shared_metadata)
    mistakes.raise_all()


def _list_written_roles(topology: Topology) -> Iterator[tuple[str, str]]:
    """Yield (dotted path, role) for each place of the topology's file that names a role."""
    for name, node in topology.nodes.items():
        yield f"{topology.node_fields[name]}.role", node.role
    for field in ("settings", "heap_mb", "restart"):
        for role in getattr(topology, field):
            yield f"{field}.{role}", role


def _check_cluster(cluster: Cluster, system: System, *, shared: Collection[str]) -> None:
    mistakes = Mistakes()
    for trait in (serves, stores):
        with mistakes.collect():
            _check_some(cluster, list_roles_that(system, trait))
    for trait in (serves, stores):
        able = [node for node in cluster.nodes.values() if node.role in list_roles_that(system, trait)]
        if able and all(node.standby for node in able):
            roles = " and ".join(dict.fromkeys(node.role for node in able))
            mistakes.found.append(
                InputError(f"every {roles} is on standby", remedy="leave `standby` out of one of them")
            )
    coordinating = list_roles_that(system, coordinates)
    own = [name for name, node in cluster.nodes.items() if node.role in coordinating]
    if not shared:
        with mistakes.collect():
            _check_some(cluster, coordinating, or_else=", or `shared_metadata` for all clusters")
    elif own:
        mistakes.found.append(
            InputError(
                "both this cluster and `shared_metadata` have nodes that coordinate it",
                field=own[0],
                remedy="leave one of the two out",
            )
        )
    mistakes.raise_all()


def _check_some(cluster: Cluster, roles: list[str], *, or_else: str = "") -> None:
    if roles and not any(node.role in roles for node in cluster.nodes.values()):
        names = " or ".join(f"`{role}`" for role in roles)
        raise InputError(f"no node has the role {names}", remedy=f"add a node with `role: {roles[0]}`{or_else}")
