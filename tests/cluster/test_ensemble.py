"""Three real nodes of a metadata store, each in a region of its own: they elect a leader, lose it and get it back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pytest
from brokerproof import lifecycle
from brokerproof.clock import wait_until
from brokerproof.errors import AdminError
from brokerproof.network import Condition, LinkClient, Plan, make_shapes
from brokerproof.run.directory import Run
from brokerproof.runtimes.process_runtime import ProcessRuntime
from brokerproof.systems.protocols import Coordinators
from brokerproof.systems.pulsar import metadata_store
from brokerproof.systems.pulsar.observation import PulsarObservation
from brokerproof.systems.pulsar.provisioning import PulsarProvisioning
from kazoo.client import KazooClient

# An election takes half a second, where 2 cores have nothing else to do.
ELECTION_S = 20.0


@dataclass(frozen=True)
class Ensemble:
    """The nodes of the store, and what asks them."""

    run: Run
    provisioning: PulsarProvisioning
    runtime: ProcessRuntime
    link: LinkClient

    def start(self, names: Iterable[str]) -> None:
        specs = self.provisioning.specs()
        for name in names:
            self.runtime.start(specs[name])

    def serves(self, *names: str) -> bool:
        specs = self.provisioning.specs()
        return all(self.provisioning.is_ready(specs[name]) for name in names)

    def find_coordinators(self) -> Coordinators | None:
        try:
            return PulsarObservation(self.run, patience_s=2).find_coordinators()
        except AdminError:
            return None

    def await_leader(self, other_than: str = "", followers: int = 2, timeout_s: float = ELECTION_S) -> Coordinators:
        found: Coordinators | None = None

        def leads() -> bool:
            nonlocal found
            found = self.find_coordinators()
            return found is not None and found.leader != other_than and len(found.followers) == followers

        wait_until(leads, timeout_s=timeout_s, what="a leader with its followers")
        assert found is not None
        return found

    def holds_layout(self, *names: str) -> bool:
        """Whether each node alone tells what was written to the store."""
        return all(self._asked_alone(name) for name in names)

    def _asked_alone(self, name: str) -> bool:
        client = KazooClient(hosts=f"{self.run.facts.addresses[name]}:2181", timeout=10)
        try:
            client.start(timeout=ELECTION_S)
            return client.exists(metadata_store.UNDER_REPLICATION) is not None
        finally:
            client.stop()
            client.close()


@pytest.fixture
def ensemble(reserve_small: Callable[..., Run]) -> Ensemble:
    run = reserve_small("ensemble", topology="ensemble_wan")
    runtime, provisioning = lifecycle.make_runtime(run), PulsarProvisioning(run)
    assert isinstance(runtime, ProcessRuntime)
    first = provisioning.start_order()[0]
    for name in first:
        runtime.prepare(provisioning.specs()[name])
    link = runtime.start_links(Plan(routes=provisioning.routes(), shapes=make_shapes(run.topology)))
    started = Ensemble(run=run, provisioning=provisioning, runtime=runtime, link=link)
    started.start(first)
    wait_until(lambda: started.serves(*first), timeout_s=60, what="three nodes that serve")
    return started


def test_another_node_leads_when_the_leader_is_lost_and_one_with_an_empty_disk_joins_again(ensemble: Ensemble) -> None:
    before = ensemble.await_leader()
    provisioning, runtime = ensemble.provisioning, ensemble.runtime
    url = provisioning.layout.metadata_url("small", ensemble.run.facts.addresses)
    metadata_store.write(url, {metadata_store.UNDER_REPLICATION: metadata_store.LAYOUT})

    runtime.kill(before.leader)
    after = ensemble.await_leader(other_than=before.leader, followers=1)
    assert {after.leader, *after.followers} == set(before.followers)
    assert not ensemble.serves(before.leader)

    ensemble.start([before.leader])
    wait_until(lambda: ensemble.serves(before.leader), timeout_s=60, what="the killed node to serve again")
    (follower,) = after.followers
    runtime.kill(follower)
    runtime.wipe(provisioning.specs()[follower])
    ensemble.start([follower])
    wait_until(lambda: ensemble.serves(follower), timeout_s=60, what="the node with an empty disk to serve again")
    back = ensemble.await_leader(followers=2)
    assert back.leader == after.leader
    assert ensemble.holds_layout(back.leader, *back.followers)


def test_without_a_majority_nobody_serves(ensemble: Ensemble) -> None:
    before = ensemble.await_leader()
    left, lost = before.leader, before.followers
    for name in lost:
        ensemble.runtime.kill(name)
    wait_until(lambda: not ensemble.serves(left), timeout_s=ELECTION_S, what="the last node to serve nobody")
    assert ensemble.runtime.is_alive(left)
    with pytest.raises(AdminError, match="no node of the metadata store says that it leads"):
        PulsarObservation(ensemble.run, patience_s=2).find_coordinators()

    ensemble.start(lost)
    wait_until(lambda: ensemble.serves(left, *lost), timeout_s=60, what="all three to serve again")


def test_what_they_say_to_each_other_crosses_the_link_and_stops_with_it(ensemble: Ensemble) -> None:
    before = ensemble.await_leader()
    leader_region = ensemble.run.topology.nodes[before.leader].region
    opened = {(pair.sender, pair.receiver): pair.opened for pair in ensemble.link.metrics().pairs}
    for follower in before.followers:
        region = ensemble.run.topology.nodes[follower].region
        # The follower's connection to the leader; elections go either way.
        assert opened[region, leader_region] >= 1

    others = [name for name in ensemble.run.topology.nodes if name != before.leader]
    ensemble.link.add(Condition(id="cut", senders=[before.leader], receivers=others, both_ways=True, cut=True))
    # A node takes the others for lost after `syncLimit` ticks, which are 10 s.
    after = ensemble.await_leader(other_than=before.leader, followers=1, timeout_s=60)
    assert after.leader in before.followers
    ensemble.link.remove("cut")
    wait_until(lambda: ensemble.serves(before.leader), timeout_s=60, what="the node that was cut off to serve again")
    assert ensemble.await_leader().leader == after.leader
