"""The traits of a role: whether its nodes accept clients, store messages or coordinate a cluster.

Each messaging system has roles of its own. So code for all systems asks for a trait, never for a role.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from brokerproof.errors import InputError
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
    """Raises InputError, with the path of a field, if the topology's nodes cannot form clusters of the system."""
    for name, node in topology.nodes.items():
        at = topology.node_fields[name]
        if node.role not in system.roles:
            raise InputError(
                f"no role of {system.name} is called `{node.role}`",
                field=f"{at}.role",
                remedy=suggest_name(node.role, system.roles),
            )
        if node.standby and not system.roles[node.role].may_stand_by:
            able = [f"{role}s" for role in list_roles_that(system, lambda traits: traits.may_stand_by)]
            raise InputError(
                f"a {node.role} on standby has not what the others wrote meanwhile",
                field=f"{at}.standby",
                remedy=f"leave it out; only {' and '.join(able)} can stand by" if able else "leave it out",
            )
    for name, node in topology.shared_metadata.items():
        if node.role not in list_roles_that(system, coordinates):
            raise InputError(
                f"is a {node.role}", field=f"shared_metadata.{name}.role", remedy="put it into its cluster's nodes"
            )
    for field in ("settings", "heap_mb", "restart"):
        for role in getattr(topology, field):
            if role not in system.roles:
                raise InputError(
                    f"no role of {system.name} is called `{role}`",
                    field=f"{field}.{role}",
                    remedy=suggest_name(role, system.roles),
                )
    for name, cluster in topology.clusters.items():
        _check_cluster(cluster, system, at=f"clusters.{name}.nodes", shared=topology.shared_metadata)


def _check_cluster(cluster: Cluster, system: System, *, at: str, shared: Collection[str]) -> None:
    for trait in (serves, stores):
        _check_some(cluster, list_roles_that(system, trait), at)
    serving = list_roles_that(system, serves)
    if all(node.standby for node in cluster.nodes.values() if node.role in serving):
        raise InputError(
            f"every {' and '.join(serving)} is on standby", field=at, remedy="leave `standby` out of one of them"
        )
    coordinating = list_roles_that(system, coordinates)
    own = [name for name, node in cluster.nodes.items() if node.role in coordinating]
    if not shared:
        _check_some(cluster, coordinating, at, or_else=", or `shared_metadata` for all clusters")
    elif own:
        raise InputError(
            "both this cluster and `shared_metadata` have nodes that coordinate it",
            field=f"{at}.{own[0]}",
            remedy="leave one of the two out",
        )


def _check_some(cluster: Cluster, roles: list[str], at: str, *, or_else: str = "") -> None:
    if roles and not any(node.role in roles for node in cluster.nodes.values()):
        names = " or ".join(f"`{role}`" for role in roles)
        raise InputError(
            f"no node has the role {names}", field=at, remedy=f"add a node with `role: {roles[0]}`{or_else}"
        )
