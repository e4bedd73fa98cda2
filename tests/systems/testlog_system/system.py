"""The log server in the registry of messaging systems."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from brokerproof.errors import InputError
from brokerproof.experiment.abilities import Ability
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Cluster, Topology
from brokerproof.experiment.workload import Workload
from brokerproof.machine.finding import Finding
from brokerproof.run.directory import Run
from brokerproof.systems.clients import Clients
from brokerproof.systems.protocols import Administration, Observation, Provisioning, RoleTraits

from testlog_system.administration import TestlogAdministration
from testlog_system.client_settings import LogClientSettings
from testlog_system.clients import TestlogClients
from testlog_system.cluster import ROLE
from testlog_system.observation import TestlogObservation
from testlog_system.policies import ServerPolicies, parse_policies
from testlog_system.provisioning import TestlogProvisioning


class Testlog:
    """Servers serve and store; the one that leads owns every topic."""

    name = "testlog"
    roles: Mapping[str, RoleTraits] = {ROLE: RoleTraits(serves=True, stores=True)}
    abilities = frozenset({Ability.POSITIONS, Ability.REASSIGNMENT, Ability.CONFIRMED_ACKS})
    policies = ServerPolicies
    client_settings = LogClientSettings
    packages: Sequence[str] = ()
    default_version = "1"

    def versions(self) -> Sequence[str]:
        """The one in this checkout."""
        return [self.default_version]

    def validate(self, topology: Topology) -> Topology:
        """One cluster, in one region that no link leads to, with its policies."""
        if len(topology.clusters) > 1:
            raise InputError("holds more than one cluster", field="clusters", remedy="keep one")
        if topology.links:
            raise InputError("servers find each other without links only", field="links", remedy="leave it out")
        clusters: dict[str, Cluster] = {}
        for name, cluster in topology.clusters.items():
            try:
                policies = parse_policies(cluster)
            except InputError as error:
                raise InputError(error.problem, field=f"clusters.{name}.{error.field}", remedy=error.remedy) from None
            clusters[name] = Cluster.model_validate({"nodes": cluster.nodes, **policies.model_dump(mode="json")})
        return topology.model_copy(update={"clusters": clusters})

    def check(self, scenario: Scenario, topology: Topology) -> None:
        """A subscription has one consumer."""
        for number, subscription in enumerate(scenario.workload.subscriptions):
            if subscription.consumers > 1:
                raise InputError(
                    "a subscription of the log server has one consumer",
                    field=f"workload.subscriptions.{number}.consumers",
                    remedy="write 1",
                )

    def topic(self, workload: Workload) -> str:
        """As the workload calls it."""
        return workload.topic

    def list_reached(self, topology: Topology, home: str, topic: str) -> list[str]:
        """The home alone: nothing is replicated to another cluster."""
        return [home]

    def fetch(self, version: str, say: Callable[[str], None]) -> None:
        """Nothing: it is in this checkout."""

    def examine(self, version: str) -> list[Finding]:
        """It needs nothing that Brokerproof does not need."""
        return []

    def list_images(self, version: str) -> list[str]:
        """None."""
        return []

    def provisioning(self, run: Run) -> Provisioning:
        """Python processes."""
        return TestlogProvisioning(run)

    def administration(self, run: Run) -> Administration:
        """Over the servers' own protocol."""
        return TestlogAdministration(run)

    def observation(self, run: Run, *, patience_s: float = 10.0) -> Observation:
        """Over the servers' own protocol."""
        return TestlogObservation(run, patience_s=patience_s)

    def clients(self, run: Run, cluster: str, region: str | None = None) -> Clients:
        """The library of the log server."""
        return TestlogClients(run)


TESTLOG = Testlog()
