"""The specs from which a runtime starts Pulsar's nodes: the JVM's command, the configuration, the health endpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TypedDict

from brokerproof.experiment.topology import Cluster, Node, Topology
from brokerproof.machine.files import FULL_SHARE
from brokerproof.runtimes.protocols import NodeSpec, Program
from brokerproof.systems.jvm.java_command import BESIDE_HEAP_MB, fill_properties, make_java_command, make_java_files
from brokerproof.systems.jvm.software import Software
from brokerproof.systems.pulsar import metadata_store
from brokerproof.systems.pulsar.addressing import (
    BOOKIE_HTTP_PORT,
    BOOKIE_PORT,
    BROKER_HTTP_PORT,
    BROKER_PORT,
    CLIENTS_PORT,
    METADATA_ADMIN_PORT,
    METADATA_METRICS_PORT,
    METADATA_PORT,
    Addressing,
)
from brokerproof.systems.pulsar.policies import BookiePlacement, RepairPlacement, parse_policies
from brokerproof.systems.pulsar.roles import Role

_REGION_AWARE = "org.apache.bookkeeper.client.RegionAwareEnsemblePlacementPolicy"

# Options that bin/pulsar of 4.0 passes to every node.
_OPENS = (
    "java.base/java.io",
    "java.base/java.util.zip",
    "java.base/java.nio",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.platform",
    "java.management/sun.management",
    "jdk.management/com.sun.management.internal",
)
_JVM = (
    "-Djute.maxbuffer=10485760",
    "-Dzookeeper.clientTcpKeepAlive=true",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "--enable-native-access=ALL-UNNAMED",
    *(part for module in _OPENS for part in ("--add-opens", f"{module}=ALL-UNNAMED")),
)
_METADATA_DRIVERS = (
    "-Dbookkeeper.metadata.bookie.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadataBookieDriver",
    "-Dbookkeeper.metadata.client.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadataClientDriver",
)
_HEALTH: Mapping[str, str] = {
    Role.METADATA: f"http://{{}}:{METADATA_ADMIN_PORT}/commands/ruok",
    Role.BOOKIE: f"http://{{}}:{BOOKIE_HTTP_PORT}/api/v1/bookie/is_ready",
    Role.BROKER: f"http://{{}}:{BROKER_HTTP_PORT}/admin/v2/brokers/health",
}

_READY: Mapping[str, str] = {**_HEALTH, Role.BROKER: f"http://{{}}:{BROKER_HTTP_PORT}/admin/v2/brokers/ready"}

_METRICS_PORTS: Mapping[str, int] = {
    Role.METADATA: METADATA_METRICS_PORT,
    Role.BOOKIE: BOOKIE_HTTP_PORT,
    Role.BROKER: BROKER_HTTP_PORT,
}


class _Common(TypedDict):
    """The fields of a node's spec that are made in the same way for each role."""

    name: str
    role: str
    region: str
    address: str
    image: str
    health: tuple[str, ...]
    health_source: str
    memory_mb: int
    metrics: tuple[int, str]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The programs and addresses from which the specs of nodes are made."""

    software: Software
    addressing: Addressing

    @property
    def topology(self) -> Topology:
        return self.addressing.topology

    @property
    def addresses(self) -> Mapping[str, str]:
        """{node: the address at which the node listens}."""
        return self.addressing.addresses

    def metadata_url(self, cluster_name: str, hosts: Mapping[str, str] | None = None) -> str:
        """Return `HOST:2181,…` of the cluster's metadata store; in a shared store, `HOST:2181,…/CLUSTER`.

        `hosts` is {node: host}, by default the hosts under which the nodes find each other.
        """
        return self.configuration_url(cluster_name, hosts) + metadata_store.chroot(self.topology, cluster_name)

    def configuration_url(self, cluster_name: str, hosts: Mapping[str, str] | None = None) -> str:
        """Return `HOST:2181,…` of the store that holds tenants, namespaces and the registrations of clusters."""
        hosts = hosts or self.addressing.hosts
        return ",".join(f"{hosts[name]}:{METADATA_PORT}" for name in metadata_store.nodes(self.topology, cluster_name))

    def service_url(self, cluster: Cluster) -> str:
        """Return the URL under which a cluster registers itself. It has the addresses at which the brokers listen."""
        return "pulsar://" + ",".join(
            f"{self.addresses[name]}:{BROKER_PORT}" for name in cluster.names(role=Role.BROKER)
        )


def make_node_specs(layout: Layout, cluster_name: str) -> dict[str, NodeSpec]:
    """Return {name: spec} of a cluster's nodes."""
    cluster = layout.topology.clusters[cluster_name]
    make: Mapping[str, Callable[[Layout, str, str, Node], NodeSpec]] = {
        Role.METADATA: _make_metadata_spec,
        Role.BOOKIE: _make_bookie_spec,
        Role.BROKER: _make_broker_spec,
    }
    return {name: make[node.role](layout, cluster_name, name, node) for name, node in cluster.nodes.items()}


def make_shared_metadata_specs(layout: Layout) -> dict[str, NodeSpec]:
    """Return {name: spec} of the nodes of the metadata store that all clusters share. Empty without such a store."""
    return {name: _make_metadata_spec(layout, "", name, node) for name, node in layout.topology.shared_metadata.items()}


def make_initialization(layout: Layout, cluster_name: str) -> Program:
    """Return the program that writes a new cluster's metadata."""
    cluster = layout.topology.clusters[cluster_name]
    command = (
        *_make_java_command(layout, Role.BROKER, heap_mb=128),
        "org.apache.pulsar.PulsarClusterMetadataSetup",
        *("--cluster", cluster_name),
        *("--metadata-store", f"zk:{layout.metadata_url(cluster_name, layout.addresses)}"),
        *("--configuration-metadata-store", f"zk:{layout.configuration_url(cluster_name, layout.addresses)}"),
        *("--web-service-url", layout.addressing.join_web_urls(cluster_name)),
        *("--broker-service-url", layout.service_url(cluster)),
    )
    return Program(
        purpose=f"writing the metadata of cluster {cluster_name}",
        image=layout.software.image,
        command=command,
        # The program is not a node, so its hosts file has no names of nodes.
        files=make_java_files(None, {}),
    )


def make_health_url(spec: NodeSpec) -> str:
    """Return the URL of a node's health endpoint.

    A healthy node answers a GET with status 200. If the answer is JSON, it names no error.
    """
    return _HEALTH[spec.role].format(spec.address)


def make_ready_url(spec: NodeSpec) -> str:
    """Return the URL at which a node answers whether it is ready to serve.

    Asking has no side effect, unlike a broker's health check, which publishes a message. Before the racks are set, this
    message could be stored in any region.
    """
    return _READY[spec.role].format(spec.address)


def _make_metadata_spec(layout: Layout, cluster_name: str, name: str, node: Node) -> NodeSpec:
    address = layout.addresses[name]
    members = metadata_store.list_members(layout.topology, name)
    settings = {
        "dataDir": "{node}/data",
        "clientPort": METADATA_PORT,
        "clientPortAddress": address,
        "admin.serverAddress": address,
        "admin.serverPort": METADATA_ADMIN_PORT,
        "metricsProvider.httpHost": address,
        "metricsProvider.httpPort": METADATA_METRICS_PORT,
        **(metadata_store.make_settings(members, layout.addressing.hosts) if members else {}),
        **layout.topology.settings.get(Role.METADATA, {}),
    }
    return NodeSpec(
        **_make_common(layout, name, node, direct_mb=64),
        command=(
            *_make_java_command(layout, Role.METADATA, heap_mb=layout.topology.heap_mb[Role.METADATA]),
            "-Dzookeeper.4lw.commands.whitelist=*",
            "-Dzookeeper.snapshot.trust.empty=true",
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            "{node}/conf/zookeeper.conf",
        ),
        files={
            **_make_files(layout, name, "zookeeper.conf", settings),
            **({"conf/myid": f"{metadata_store.number_member(members, name)}\n"} if members else {}),
        },
        # ZooKeeper reads its number from its data directory, which a fault may wipe. So `format` copies the file there.
        format=("cp", "{node}/conf/myid", "{node}/data/myid") if members else None,
        ports=(
            *(METADATA_PORT, METADATA_ADMIN_PORT, METADATA_METRICS_PORT),
            *((metadata_store.ELECTION_PORT, metadata_store.PEER_PORT) if members else ()),
        ),
    )


def _make_bookie_spec(layout: Layout, cluster_name: str, name: str, node: Node) -> NodeSpec:
    cluster = layout.topology.clusters[cluster_name]
    address = layout.addresses[name]
    settings: dict[str, object] = {
        "bookiePort": BOOKIE_PORT,
        # Without these two and `advertisedAddress`, a bookie listens on all addresses. In a container that is harmless.
        **({"listeningInterface": "lo", "allowLoopback": "true"} if ip_address(address).is_loopback else {}),
        "advertisedAddress": layout.addressing.hosts[name],
        "journalDirectory": "{node}/data/journal",
        "ledgerDirectories": "{node}/data/ledgers",
        "indexDirectories": "{node}/data/index",
        # The bookie shares the machine's disk, and must not fail because other programs fill it.
        "diskUsageThreshold": FULL_SHARE,
        "diskUsageWarnThreshold": FULL_SHARE,
        "diskUsageLwmThreshold": FULL_SHARE,
        "zkServers": layout.metadata_url(cluster_name),
        "httpServerEnabled": "true",
        "httpServerHost": address,
        "httpServerPort": BOOKIE_HTTP_PORT,
        "prometheusStatsHttpAddress": address,
        "prometheusStatsHttpPort": BOOKIE_HTTP_PORT,
        # Small, because many bookies share one machine.
        "journalMaxSizeMB": 64,
        "dbStorage_writeCacheMaxSizeMb": 32,
        "dbStorage_readAheadCacheMaxSizeMb": 16,
        "dbStorage_rocksDB_blockCacheSize": 8_388_608,
        "dbStorage_rocksDB_writeBufferSizeMB": 8,
        "numReadWorkerThreads": 2,
        "numHighPriorityWorkerThreads": 2,
        "numJournalCallbackThreads": 2,
    }
    if parse_policies(cluster).placement.repair is RepairPlacement.REGION_AWARE:
        # As shipped, auto-recovery puts a copy anywhere. With these three settings it looks up the regions.
        settings |= {
            "ensemblePlacementPolicy": _REGION_AWARE,
            "reppDnsResolverClass": "org.apache.pulsar.bookie.rackawareness.BookieRackAffinityMapping",
            # BookKeeper cuts the value at the first `,`, which would leave one node of the store and no chroot. Pulsar
            # replaces each `;` by a `,` (`AbstractMetadataDriver`, `BookieRackAffinityMapping`).
            "metadataServiceUri": f"metadata-store:zk:{layout.metadata_url(cluster_name).replace(',', ';')}",
        }
    settings |= layout.topology.settings.get(Role.BOOKIE, {})
    heap = layout.topology.heap_mb[Role.BOOKIE]
    # A bookie with an empty disk does not start while the metadata store holds its old cookie.
    reset = ("org.apache.bookkeeper.bookie.BookieShell", "-conf", "{node}/conf/bookkeeper.conf")
    return NodeSpec(
        **_make_common(layout, name, node, direct_mb=heap),
        command=(
            *_make_java_command(layout, Role.BOOKIE, heap_mb=heap, direct_mb=heap),
            *_METADATA_DRIVERS,
            "org.apache.bookkeeper.server.Main",
            "--conf",
            "{node}/conf/bookkeeper.conf",
        ),
        files=_make_files(layout, name, "bookkeeper.conf", settings),
        reset=(
            *_make_java_command(layout, Role.BOOKIE, heap_mb=128),
            *_METADATA_DRIVERS,
            *reset,
            *("bookieformat", "-nonInteractive", "-force", "-deleteCookie"),
        ),
        ports=(BOOKIE_PORT, BOOKIE_HTTP_PORT),
    )


def _make_broker_spec(layout: Layout, cluster_name: str, name: str, node: Node) -> NodeSpec:
    cluster = layout.topology.clusters[cluster_name]
    placement = parse_policies(cluster).placement
    address = layout.addresses[name]
    pinned = placement.bookies is BookiePlacement.PINNED
    settings: dict[str, object] = {
        "metadataStoreUrl": f"zk:{layout.metadata_url(cluster_name)}",
        "configurationMetadataStoreUrl": f"zk:{layout.configuration_url(cluster_name)}",
        "clusterName": cluster_name,
        "advertisedAddress": address,
        # The engine chooses the address in the container that a published port leads to, so the broker binds to all.
        "bindAddress": "0.0.0.0" if layout.addressing.publish(name) else address,
        "brokerServicePort": BROKER_PORT,
        "webServicePort": BROKER_HTTP_PORT,
        "bookkeeperClientRegionawarePolicyEnabled": str(placement.bookies is BookiePlacement.REGION_AWARE).lower(),
        "bookkeeperClientRackawarePolicyEnabled": str(pinned).lower(),
        "bookkeeperClientReorderReadSequenceEnabled": str(placement.local_reads).lower(),
        # An inactive topic would be deleted before it is read back.
        "brokerDeleteInactiveTopicsEnabled": "false",
        # A small machine's CPU is always busy, so shedding would move topics without a fault.
        "loadBalancerSheddingEnabled": "false",
        "loadBalancerAutoBundleSplitEnabled": "false",
        "managedLedgerCacheSizeMB": 32,
        "numIOThreads": 2,
        "numHttpServerThreads": 8,
        "numOrderedExecutorThreads": 2,
        "numExecutorThreadPoolSize": 2,
        "numCacheExecutorThreadPoolSize": 2,
        "managedLedgerNumSchedulerThreads": 2,
        **layout.addressing.configure_listeners(name),
        **layout.topology.settings.get(Role.BROKER, {}),
    }
    heap = layout.topology.heap_mb[Role.BROKER]
    return NodeSpec(
        **_make_common(layout, name, node, direct_mb=heap),
        command=(
            *_make_java_command(layout, Role.BROKER, heap_mb=heap, direct_mb=heap),
            *_METADATA_DRIVERS,
            "-Dlog4j.shutdownHookEnabled=false",
            "org.apache.pulsar.PulsarBrokerStarter",
            "--broker-conf",
            "{node}/conf/broker.conf",
        ),
        files=_make_files(layout, name, "broker.conf", settings),
        published=layout.addressing.publish(name),
        ports=(BROKER_PORT, BROKER_HTTP_PORT, *((CLIENTS_PORT,) if layout.topology.links else ())),
    )


def _make_common(layout: Layout, name: str, node: Node, *, direct_mb: int) -> _Common:
    """Return the fields of a node's spec that are made in the same way for each role.

    They are the node's name, role, region, address and image, its health checks, memory limit and page of metrics.
    """
    role, address = node.role, layout.addresses[name]
    return {
        "name": name,
        "role": role,
        "region": node.region,
        "address": address,
        "image": layout.software.image,
        "health": ("curl", "--fail", "--silent", "--show-error", _READY[role].format(address)),
        "health_source": _HEALTH[role].format(address),
        "memory_mb": layout.topology.heap_mb[role] + direct_mb + BESIDE_HEAP_MB,
        "metrics": (_METRICS_PORTS[role], "/metrics"),
    }


def _make_java_command(layout: Layout, role: Role, *, heap_mb: int, direct_mb: int = 64) -> tuple[str, ...]:
    """Return the command of a JVM that uses the class data archive of a role. The caller appends the main class."""
    return make_java_command(
        layout.software,
        heap_mb=heap_mb,
        direct_mb=direct_mb,
        class_data=layout.software.list_class_data_options(role, layout.topology.heap_mb[role]),
        options=_JVM,
    )


def _make_files(layout: Layout, node: str, name: str, settings: Mapping[str, object]) -> dict[str, str]:
    return {
        f"conf/{name}": fill_properties(layout.software.read_shipped(name), settings),
        **make_java_files(layout.addresses[node], layout.addressing.map_hosts(node)),
    }
