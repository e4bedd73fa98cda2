"""The provisioning of Pulsar's nodes: their specs, start order and health, and the clusters' first metadata."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cached_property

import httpx

from brokerproof.errors import AdminError, InputError
from brokerproof.experiment.yaml_models import suggest_name
from brokerproof.network import Route
from brokerproof.run.directory import Run
from brokerproof.runtimes.protocols import NodeSpec, Program, Runtime
from brokerproof.runtimes.registry import make_runtime
from brokerproof.settings import from_environment
from brokerproof.systems.jvm import software
from brokerproof.systems.jvm.distribution import Distribution
from brokerproof.systems.jvm.software import ImageSoftware, LocalSoftware
from brokerproof.systems.pulsar import configuration, metadata_store, nodes
from brokerproof.systems.pulsar.addressing import Addressing
from brokerproof.systems.pulsar.admin import parse_json, parse_text, request
from brokerproof.systems.pulsar.answers import COMMAND_DONE, HEALTHY
from brokerproof.systems.pulsar.policies import parse_policies
from brokerproof.systems.pulsar.roles import Role

# {version: SHA-512 of `pulsar-server-distribution-<version>-bin.tar.gz`}. Only these versions can be used. The first
# one is the default.
CHECKSUMS: Mapping[str, str] = {
    "4.0.8": "65b769b10696cdfebf7fc5bcdc95dd663702e27051e616c1a13cb100e9127952"
    "5be35352171befe7b0011176330aab29bd0a6c8a0f2f0646641af46d2e33cbd6",
    "4.0.6": "ac174f604e94473215e07024d05853dbf24bf1520ec222c8bb0d87707a5f1267"
    "49df7d5733e06a2423456421489ed371e122f4f5a7793a5146a5a1b47f437e90",
    "4.0.4": "6dd1a9698217363fe314fa9bfdbb093bb5d769f479deea9981ce4487db8ccdfa"
    "78a62ebb885d06b1d984f8298d8f9a7021beca9230609b570ef77f2209f19011",
}


def find_distribution(version: str) -> Distribution:
    """Return the distribution of a version. Raises InputError for a version without a pinned checksum."""
    if version not in CHECKSUMS:
        raise InputError(
            f"no checksum of Pulsar {version} is pinned", field="version", remedy=suggest_name(version, CHECKSUMS)
        )
    return Distribution(
        system="pulsar",
        version=version,
        group="org.apache.pulsar",
        artifact="pulsar-server-distribution",
        sha512=CHECKSUMS[version],
        directory=f"apache-pulsar-{version}",
        size_mb=240,
    )


def name_image(version: str) -> str:
    """Return the official image of a version, by name and tag, in the registry of the settings."""
    return from_environment().name_image(f"apachepulsar/pulsar:{version}")


def provide_software(version: str, runtime: Runtime) -> software.LocalSoftware | software.ImageSoftware:
    """Return Pulsar's official image if the runtime runs images, otherwise Pulsar's distribution on this machine.

    A missing distribution is fetched. Raises InputError for an unknown version, MachineError if the distribution cannot
    be fetched.
    """
    return software.provide_software(
        find_distribution(version), image=name_image(version), home_in_image="/pulsar", runtime=runtime
    )


class PulsarProvisioning:
    def __init__(self, run: Run) -> None:
        self.run, self.topology = run, run.topology
        self._addressing = Addressing.from_run(run)
        self._http = httpx.Client(timeout=httpx.Timeout(5.0, connect=1.0), trust_env=False)

    @cached_property
    def _software(self) -> LocalSoftware | ImageSoftware:
        return provide_software(self.run.scenario.version, make_runtime(self.run))

    @cached_property
    def layout(self) -> nodes.Layout:
        """The programs and addresses of the nodes.

        Fetches the distribution if the nodes need it on this machine and the cache lacks it.
        """
        return nodes.Layout(software=self._software, addressing=self._addressing)

    def specs(self) -> Mapping[str, NodeSpec]:
        return nodes.make_shared_metadata_specs(self.layout) | {
            name: spec
            for cluster in self.topology.clusters
            for name, spec in nodes.make_node_specs(self.layout, cluster).items()
        }

    def routes(self) -> list[Route]:
        return self._addressing.routes()

    def start_order(self) -> list[list[str]]:
        """Return three groups of nodes, which start one after the other: nodes of metadata stores, bookies, brokers.

        The bookies need a leader of their metadata store. Its nodes are ready only after they have elected one.
        """
        return [
            [name for name, node in self.topology.nodes.items() if node.role == role]
            for role in (Role.METADATA, Role.BOOKIE, Role.BROKER)
        ]

    def initialize(self, execute: Callable[[Program], None]) -> None:
        """Write the metadata of the clusters one by one, because clusters in a shared store change the same namespaces.

        Also write the racks, because a broker looks up its own region only once. A bookie that starts without the
        layout of the under-replicated ledgers writes it. If several do so at the same time, all but the first exit:
        https://github.com/apache/pulsar/pull/26248, repaired in Pulsar 4.2 and in later releases of 4.0.
        """
        for name in self.topology.clusters:
            execute(nodes.make_initialization(self.layout, name))
        for name, cluster in self.topology.clusters.items():
            racks = configuration.group_racks(cluster, parse_policies(cluster).placement, self._addressing.hosts)
            metadata_store.write(
                self.layout.metadata_url(name, self._addressing.addresses),
                {
                    metadata_store.UNDER_REPLICATION: metadata_store.LAYOUT,
                    metadata_store.RACKS: json.dumps(racks).encode(),
                },
            )

    def is_healthy(self, spec: NodeSpec) -> bool:
        """Return whether the node's health endpoint answers with status 200 and the expected body."""
        return self._is_well(spec.role, nodes.make_health_url(spec))

    def is_ready(self, spec: NodeSpec) -> bool:
        """Return whether the node's ready endpoint answers with status 200 and the expected body."""
        return self._is_well(spec.role, nodes.make_ready_url(spec))

    def learn(self, pids: Mapping[str, int]) -> None:
        """Make the class data archive of one role that has none. Does nothing if nodes are containers.

        An archive takes about 15 s of a core, and the end of the run waits for it. So the archives are made in several
        runs. That of the brokers is the first, because it saves the most.
        """
        if not isinstance(self._software, LocalSoftware):
            return
        processes = {self.topology.nodes[name].role: pid for name, pid in pids.items()}
        for role in (Role.BROKER, Role.BOOKIE, Role.METADATA):
            if role in processes and self._software.learn(role, self.topology.heap_mb[role], processes[role]):
                return

    def _is_well(self, role: str, url: str) -> bool:
        try:
            response = request(self._http, "GET", url)
            if role == Role.METADATA:
                # The status is 200 even if the node does not serve yet.
                parse_json(response, COMMAND_DONE)
            else:
                parse_text(response, HEALTHY)
        except AdminError:
            return False
        return True
