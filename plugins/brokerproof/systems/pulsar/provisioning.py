"""Starts Pulsar's nodes: their specs and order, the clusters' first metadata, their health."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

import httpx

from brokerproof.errors import AdminError
from brokerproof.network import Route
from brokerproof.run.directory import Run
from brokerproof.runtimes.protocols import NodeSpec, Program
from brokerproof.runtimes.registry import make_runtime
from brokerproof.systems.pulsar import metadata_store, nodes
from brokerproof.systems.pulsar.addressing import Addressing
from brokerproof.systems.pulsar.admin import parse_json, parse_text, request
from brokerproof.systems.pulsar.answers import COMMAND_DONE, HEALTHY
from brokerproof.systems.pulsar.roles import Role
from brokerproof.systems.pulsar.software import ImageSoftware, LocalSoftware, provide_software


class PulsarProvisioning:
    """The nodes of one run."""

    def __init__(self, run: Run) -> None:
        self.run, self.topology = run, run.topology
        self._addressing = Addressing.from_run(run)
        self._http = httpx.Client(timeout=httpx.Timeout(5.0, connect=1.0), trust_env=False)

    @cached_property
    def _software(self) -> LocalSoftware | ImageSoftware:
        return provide_software(self.run.scenario.version, make_runtime(self.run))

    @cached_property
    def layout(self) -> nodes.Layout:
        """Fetches the distribution if the nodes need it on this machine and the cache lacks it."""
        return nodes.Layout(software=self._software, addressing=self._addressing)

    def specs(self) -> Mapping[str, NodeSpec]:
        """Every node of the topology, by name."""
        return nodes.make_shared_metadata_specs(self.layout) | {
            name: spec
            for cluster in self.topology.clusters
            for name, spec in nodes.make_node_specs(self.layout, cluster).items()
        }

    def routes(self) -> list[Route]:
        """Of nodes by name, and of brokers and clients by listener."""
        return self._addressing.routes()

    def start_order(self) -> list[list[str]]:
        """Metadata stores, then bookies, then brokers. A store of several nodes has its leader before bookies start."""
        return [
            [name for name, node in self.topology.nodes.items() if node.role == role]
            for role in (Role.METADATA, Role.BOOKIE, Role.BROKER)
        ]

    def initialize(self, execute: Callable[[Program], None]) -> None:
        """Write the metadata of the clusters, one after the other: in a shared store they change the same namespaces.

        It also writes the entry that bookies would race for if they started side by side without it.
        """
        for name in self.topology.clusters:
            execute(nodes.make_initialization(self.layout, name))
        for name in self.topology.clusters:
            metadata_store.lay_out(self.layout.metadata_url(name, self._addressing.addresses))

    def is_healthy(self, spec: NodeSpec) -> bool:
        """GET of the node's health endpoint answers 200, and says that the node is well."""
        return self._is_well(spec.role, nodes.make_health_url(spec))

    def is_ready(self, spec: NodeSpec) -> bool:
        """GET of the node's ready endpoint answers 200, and says that the node is ready."""
        return self._is_well(spec.role, nodes.make_ready_url(spec))

    def describe_health(self, spec: NodeSpec) -> str:
        """The URL of the health endpoint."""
        return nodes.make_health_url(spec)

    def learn(self, pids: Mapping[str, int]) -> None:
        """Class data archives of the roles that lack one."""
        if not isinstance(self._software, LocalSoftware):
            return
        for role in Role:
            node = next((name for name in pids if self.topology.nodes[name].role == role), None)
            if node is not None:
                self._software.learn(role, self.topology.heap_mb[role], pids[node])

    def _is_well(self, role: str, url: str) -> bool:
        try:
            response = request(self._http, "GET", url)
            if role == Role.METADATA:
                # The status is 200 also where it does not serve yet.
                parse_json(response, COMMAND_DONE)
            else:
                parse_text(response, HEALTHY)
        except AdminError:
            return False
        return True
