"""Apache Pulsar as a messaging system that Brokerproof can run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from brokerproof.errors import InputError
from brokerproof.experiment.abilities import Ability
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.experiment.workload import Workload
from brokerproof.experiment.yaml_models import suggest_name
from brokerproof.machine.finding import Finding
from brokerproof.run.directory import Run
from brokerproof.systems.clients import Clients
from brokerproof.systems.protocols import RoleTraits
from brokerproof.systems.pulsar import topology_rules
from brokerproof.systems.pulsar.administration import PulsarAdministration
from brokerproof.systems.pulsar.client_settings import PulsarClientSettings
from brokerproof.systems.pulsar.observation import PulsarObservation
from brokerproof.systems.pulsar.policies import ClusterPolicies, parse_policies
from brokerproof.systems.pulsar.provisioning import PulsarProvisioning
from brokerproof.systems.pulsar.replication import list_clusters_reached
from brokerproof.systems.pulsar.roles import TRAITS
from brokerproof.systems.pulsar.software import CHECKSUMS, find_distribution, name_image
from brokerproof.systems.pulsar.topic import make_full_name, parse_namespace


class Pulsar:
    """Pulsar: brokers serve, bookies store, a metadata store coordinates."""

    name = "pulsar"
    roles: Mapping[str, RoleTraits] = TRAITS
    declared_abilities = frozenset(
        {
            Ability.POSITIONS,
            Ability.REPAIR,
            Ability.READ_COUNTERS,
            Ability.REPLICATED_SUBSCRIPTIONS,
            Ability.MOVING_SUBSCRIPTIONS,
            Ability.DEDUPLICATION,
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
        """Raises InputError unless every cluster that is published to has the workload's namespace."""
        workload = scenario.workload
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

    def topic(self, workload: Workload) -> str:
        return make_full_name(workload)

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
