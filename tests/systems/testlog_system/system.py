"""The log server as an object of the registry of messaging systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from brokerproof.errors import InputError
from brokerproof.experiment.abilities import Ability
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Cluster, Topology
from brokerproof.experiment.workload import Workload
from brokerproof.run.directory import Run
from brokerproof.systems.clients import Clients
from brokerproof.systems.protocols import RoleTraits

from testlog_system.administration import TestlogAdministration
from testlog_system.client_settings import LogClientSettings
from testlog_system.clients import TestlogClients
from testlog_system.cluster import ROLE
from testlog_system.observation import TestlogObservation
from testlog_system.policies import ServerPolicies, parse_policies
from testlog_system.provisioning import TestlogProvisioning


class Testlog:
    """The log server. All servers store messages; the leader owns every topic and serves the clients."""

    name = "testlog"
    roles: Mapping[str, RoleTraits] = {ROLE: RoleTraits(serves=True, stores=True)}
    declared_abilities = frozenset({Ability.POSITIONS, Ability.CUMULATIVE_ACKS})
    policies = ServerPolicies
    client_settings = LogClientSettings
    packages: Sequence[str] = ()
    versions: Sequence[str] = ("1",)
    provisioning = TestlogProvisioning
    administration = TestlogAdministration
    observation = TestlogObservation

    def validate(self, topology: Topology) -> Topology:
        """Return the topology with default policies. Raises InputError if it has more than one cluster."""
        if len(topology.clusters) > 1:
            raise InputError("holds more than one cluster", field="clusters", remedy="keep one")
        clusters: dict[str, Cluster] = {}
        for name, cluster in topology.clusters.items():
            try:
                policies = parse_policies(cluster)
            except InputError as error:
                raise InputError(error.problem, field=f"clusters.{name}.{error.field}", remedy=error.remedy) from None
            clusters[name] = Cluster.model_validate({"nodes": cluster.nodes, **policies.model_dump(mode="json")})
        return topology.model_copy(update={"clusters": clusters})

    def check(self, scenario: Scenario, topology: Topology) -> None:
        """Raises InputError if a subscription has several consumers."""
        for number, subscription in enumerate(scenario.workload.subscriptions):
            if subscription.consumers > 1:
                raise InputError(
                    "a subscription of the log server has one consumer",
                    field=f"workload.subscriptions.{number}.consumers",
                    remedy="write 1",
                )

    def topic(self, workload: Workload) -> str:
        return workload.topic

    def separate(self, scenario: Scenario, topology: Topology, use: int) -> tuple[Scenario, Topology]:
        """Return the scenario with a topic of its own."""
        topic = f"{scenario.workload.topic}-{use}"
        workload = scenario.workload.model_copy(update={"topic": topic})
        return scenario.model_copy(update={"workload": workload}), topology

    def clients(self, run: Run, cluster: str, region: str | None = None) -> Clients:
        return TestlogClients(run)


TESTLOG = Testlog()
