"""Apache Pulsar as a messaging system that Brokerproof can run, and the class that sets policies on its clusters."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from brokerproof.errors import InputError
from brokerproof.experiment.abilities import Ability
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Cluster, Topology
from brokerproof.experiment.workload import OnRestart, Workload
from brokerproof.experiment.yaml_models import parse, suggest_name
from brokerproof.machine.finding import Finding
from brokerproof.run.directory import Run
from brokerproof.systems.clients import Clients
from brokerproof.systems.protocols import RoleTraits
from brokerproof.systems.pulsar import configuration, topology_rules
from brokerproof.systems.pulsar.addressing import Addressing
from brokerproof.systems.pulsar.answers import BUNDLE, PARTITIONED_TOPIC, TOPIC_STATS
from brokerproof.systems.pulsar.client_settings import PulsarClientSettings
from brokerproof.systems.pulsar.cluster import PulsarCluster, make_clusters
from brokerproof.systems.pulsar.leftovers import remove_leftovers
from brokerproof.systems.pulsar.observation import PulsarObservation
from brokerproof.systems.pulsar.policies import ClusterPolicies, parse_policies
from brokerproof.systems.pulsar.provisioning import CHECKSUMS, PulsarProvisioning, find_distribution, name_image
from brokerproof.systems.pulsar.replication import list_clusters_reached
from brokerproof.systems.pulsar.roles import TRAITS
from brokerproof.systems.pulsar.topic import make_admin_path, make_full_name, parse_namespace


class PulsarAdministration:
    def __init__(self, run: Run) -> None:
        self.run, self.topology = run, run.topology
        self.clusters = make_clusters(run)
        self._addressing = Addressing.from_run(run)

    def configure(self) -> None:
        """Register the clusters with each other, then set tenants, namespaces, isolation and partitions."""
        for cluster in self.clusters.values():
            configuration.register(cluster.brokers, self._registrations)
        for name, cluster in self.clusters.items():
            configuration.apply(
                cluster.brokers, name, self.topology, self._addressing.hosts, self.run.scenario.workload
            )

    def check_configuration(self) -> None:
        workload = self.run.scenario.workload
        for name, cluster in self.clusters.items():
            configuration.check(
                cluster.brokers, name, self.topology, self._addressing.hosts, workload, self._registrations
            )

    def reassign(self, cluster: str | None = None) -> None:
        """Unload the bundles that hold the topic's partitions.

        Unloading only the topic would leave it with its owner.
        """
        self._change_bundles(cluster, "unload")

    def find_groups(self, cluster: str | None = None) -> list[str]:
        """Return the bundles that hold the topic's partitions."""
        found = self._find_cluster(cluster)
        lookups = (path.replace("/admin/v2/", "/lookup/v2/topic/", 1) for _, path in found.partitions)
        return sorted({found.brokers.get_text(lookup + "/bundle", BUNDLE) for lookup in lookups})

    def split(self, cluster: str | None = None) -> None:
        """Split the bundles that hold the topic's partitions, each in the middle of its range, and unload the halves.

        Pulsar's load balancer unloads the halves of a bundle that it splits, too.
        """
        self._change_bundles(cluster, "split?unload=true")

    def grow(self) -> None:
        """Give the topic its later partitions.

        Pulsar first changes the number, which clients ask for. Then it makes the partitions, and at the beginning of
        each one the subscriptions of the first partition (`PersistentTopicsBase.internalUpdatePartitionedTopicAsync`).
        So consumers that learn of the partitions late get every message. If the answer is lost, the request can be
        repeated.
        """
        workload = self.run.scenario.workload
        for name in workload.list_homes(self.topology):
            cluster = self.clusters[name]
            cluster.brokers.change("POST", f"{make_admin_path(cluster.topic)}/partitions", workload.grows_to)

    def has_grown(self) -> bool:
        workload = self.run.scenario.workload
        partitions = workload.list_partitions()
        for name in workload.list_homes(self.topology):
            cluster = self.clusters[name]
            found = cluster.brokers.get(f"{make_admin_path(cluster.topic)}/partitions", PARTITIONED_TOPIC)
            if found.partitions != len(partitions):
                return False
            # A partition that is not served yet has no stats.
            paths = [path for _, path in cluster.list_paths(partitions)]
            first, *others = [set(cluster.brokers.get(f"{path}/stats", TOPIC_STATS).subscriptions) for path in paths]
            if any(not first <= subscriptions for subscriptions in others):
                return False
        return True

    def unload(self, cluster: str) -> None:
        """Close the topic in a cluster, so that the next reads come from bookies and not from a broker's cache."""
        found = self.clusters[cluster]
        for _, path in found.partitions:
            found.brokers.change("PUT", path + "/unload")

    def remove_other_topics(self) -> None:
        """Remove what runs with other tenants left in all clusters: topics, namespaces and ledgers."""
        remove_leftovers(self.clusters, self.topology)

    def _change_bundles(self, cluster: str | None, change: str) -> None:
        found = self._find_cluster(cluster)
        for bundle in self.find_groups(cluster):
            found.brokers.change("PUT", f"/admin/v2/namespaces/{parse_namespace(found.topic)}/{bundle}/{change}")

    def _find_cluster(self, cluster: str | None) -> PulsarCluster:
        return self.clusters[cluster or self.run.scenario.workload.list_homes(self.topology)[0]]

    @property
    def _registrations(self) -> dict[str, dict[str, str]]:
        return {
            name: {"serviceUrl": self._addressing.join_web_urls(name), **self._addressing.make_registration(name)}
            for name in self.topology.clusters
        }


class Pulsar:
    """Pulsar: brokers serve, bookies store, a metadata store coordinates."""

    name = "pulsar"
    roles: Mapping[str, RoleTraits] = TRAITS
    declared_abilities = frozenset(
        {
            Ability.POSITIONS,
            Ability.UNSTORED_TOPICS,
            Ability.REPAIR,
            Ability.READ_COUNTERS,
            Ability.MEMBERSHIP,
            Ability.NEGATIVE_ACKS,
            Ability.REPLICATED_SUBSCRIPTIONS,
            Ability.MOVING_SUBSCRIPTIONS,
            Ability.DEDUPLICATION,
            Ability.INDIVIDUAL_ACKS,
            Ability.CUMULATIVE_ACKS,
        }
    )
    policies = ClusterPolicies
    client_settings = PulsarClientSettings
    packages = ("pulsar-client",)
    versions = tuple(CHECKSUMS)
    provisioning = PulsarProvisioning
    administration = PulsarAdministration
    observation = PulsarObservation

    def validate(self, topology: Topology) -> Topology:
        return topology_rules.validate(topology)

    def check(self, scenario: Scenario, topology: Topology) -> None:
        """Raises InputError if a cluster that is published to lacks the workload's namespace.

        Also raises InputError if several producers publish to a topic that each of them needs for itself, if the topic
        lacks the numbers by which a producer continues, or if a replicated topic is to store nothing or to get more
        partitions.
        """
        workload = scenario.workload
        settings = parse(PulsarClientSettings, workload.client.model_dump(), file="")
        access = settings.access
        if access is not None and workload.producers > 1:
            raise InputError(
                f"{workload.producers} producers of a topic, and `{access}` allows one",
                field="workload.producers",
                remedy="give 1, or leave `workload.client.access` out",
            )
        if workload.namespace is None:
            raise InputError("is missing", field="workload.namespace", remedy="add it")
        for cluster in workload.list_homes(topology):
            known = parse_policies(topology.clusters[cluster]).namespaces
            if workload.namespace not in known:
                raise InputError(
                    f"no namespace is called `{workload.namespace}`",
                    field="workload.namespace",
                    remedy=suggest_name(workload.namespace, known),
                )
            if not workload.is_stored and list_clusters_reached(topology, cluster, workload.namespace)[1:]:
                raise InputError(
                    f"`{workload.namespace}` is replicated, and only stored messages are followed to another cluster",
                    field="workload.stored",
                    remedy="use a namespace without `replicated_to`",
                )
            if workload.grows_to is not None and list_clusters_reached(topology, cluster, workload.namespace)[1:]:
                raise InputError(
                    f"`{workload.namespace}` is replicated, and only a topic of one cluster can get more partitions",
                    field="workload.grows_to",
                    remedy="use a namespace without `replicated_to`",
                )
            if settings.on_restart is OnRestart.CONTINUE and (
                workload.partitions or not known[workload.namespace].deduplication
            ):
                raise InputError(
                    "`continue` needs a topic with deduplication and without partitions",
                    field="workload.client.on_restart",
                    remedy="use `resend`, or change `deduplication` of the namespace or `workload.partitions`",
                )

    def topic(self, workload: Workload) -> str:
        return make_full_name(workload)

    def separate(self, scenario: Scenario, topology: Topology, use: int) -> tuple[Scenario, Topology]:
        """Return both with tenants of the run's own, whose names end with `-USE`."""

        def rename(namespace: str) -> str:
            tenant, _, name = namespace.partition("/")
            return f"{tenant}-{use}/{name}"

        clusters = {}
        for name, cluster in topology.clusters.items():
            namespaces = cluster.policies["namespaces"]
            own = {rename(namespace): policies for namespace, policies in namespaces.items()}
            clusters[name] = Cluster.model_validate(cluster.model_dump() | {"namespaces": own})
        namespace = scenario.workload.namespace
        workload = scenario.workload.model_copy(update={"namespace": namespace and rename(namespace)})
        return (
            scenario.model_copy(update={"workload": workload}),
            topology.model_copy(update={"clusters": clusters}),
        )

    def list_reached(self, topology: Topology, home: str, topic: str) -> list[str]:
        return list_clusters_reached(topology, home, parse_namespace(topic))

    def fetch(self, version: str, say: Callable[[str], None]) -> None:
        find_distribution(version).fetch(say)

    def examine(self, version: str) -> list[Finding]:
        return [find_distribution(version).examine()]

    def list_images(self, version: str) -> list[str]:
        return [name_image(version)]

    def clients(self, run: Run, cluster: str, region: str | None = None) -> Clients:
        # Imported when a run needs it, so that a scenario can be checked without importing Pulsar's client.
        from brokerproof.systems.pulsar.client import PulsarClients

        return PulsarClients(run, cluster, region)


PULSAR = Pulsar()
