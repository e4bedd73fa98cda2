"""Apache Pulsar as a messaging system that Brokerproof can run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from brokerproof.experiment.abilities import Ability
from brokerproof.experiment.scenario import Scenario, Workload
from brokerproof.experiment.topology import Role, Topology
from brokerproof.machine.finding import Finding
from brokerproof.run.directory import Run
from brokerproof.systems.clients import Clients
from brokerproof.systems.protocols import Administration, Observation, Provisioning, RoleTraits, WarmUp
from brokerproof.systems.pulsar import topic
from brokerproof.systems.pulsar.distribution import CHECKSUMS, distribution, examine


class Pulsar:
    """Brokers serve, bookies store, a metadata store coordinates."""

    name = "pulsar"
    roles: Mapping[str, RoleTraits] = {
        Role.METADATA: RoleTraits(coordinates=True, heap_mb=128),
        Role.BOOKIE: RoleTraits(stores=True, heap_mb=192),
        Role.BROKER: RoleTraits(serves=True, may_stand_by=True, heap_mb=320),
    }
    abilities = frozenset(Ability)
    packages = ("pulsar-client", "jgo")
    default_version = "4.0.8"

    def versions(self) -> Sequence[str]:
        """Those with a pinned checksum."""
        return list(CHECKSUMS)

    def validate(self, topology: Topology) -> Topology:
        """As it is."""
        return topology

    def check(self, scenario: Scenario, topology: Topology) -> None:
        """Nothing beyond what the topology says."""

    def topic(self, workload: Workload) -> str:
        """A persistent topic of the workload's namespace."""
        return topic.full_name(workload)

    def reached(self, topology: Topology, home: str, workload: Workload) -> list[str]:
        """Where the namespace is replicated to."""
        return topology.reached(home, workload.namespace)

    # The parts are imported when a run needs them: a scenario's file is checked without Pulsar's client.

    def warm_up(self, version: str) -> WarmUp:
        """One node of each role, from which Java learns its classes."""
        from brokerproof.systems.pulsar import warm_up

        return WarmUp(
            fetch=lambda: distribution(version),
            done=lambda: warm_up.is_warm(version),
            topology=warm_up.TOPOLOGY,
            workload={"namespace": warm_up.NAMESPACE},
        )

    def examine(self, version: str) -> list[Finding]:
        """The distribution."""
        return [examine(version)]

    def provisioning(self, run: Run) -> Provisioning:
        """JVM processes from the distribution."""
        from brokerproof.systems.pulsar.provisioning import PulsarProvisioning

        return PulsarProvisioning(run)

    def administration(self, run: Run) -> Administration:
        """Over the brokers' admin REST."""
        from brokerproof.systems.pulsar.administration import PulsarAdministration

        return PulsarAdministration(run)

    def observation(self, run: Run, *, patience_s: float = 10.0) -> Observation:
        """Over the REST of brokers, bookies and metadata stores."""
        from brokerproof.systems.pulsar.observation import PulsarObservation

        return PulsarObservation(run, patience_s=patience_s)

    def clients(self, run: Run, cluster: str, region: str | None = None) -> Clients:
        """Pulsar's own Python client."""
        from brokerproof.systems.pulsar.client import PulsarClients

        return PulsarClients(run, cluster, region)


PULSAR = Pulsar()
