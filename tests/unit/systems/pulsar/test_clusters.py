"""Pulsar over several clusters, against stand-ins for their REST: who is asked what, and what the answers prove."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from brokerproof.checks import load_scenario, load_topology
from brokerproof.errors import AdminError
from brokerproof.run.directory import Run
from brokerproof.run.records import FaultEffective, write_record
from brokerproof.runtimes.node_addresses import assign_addresses
from brokerproof.systems.clients import Position
from brokerproof.systems.jvm.software import ImageSoftware
from brokerproof.systems.protocols import TopicLog
from brokerproof.systems.pulsar import configuration, leftovers, nodes
from brokerproof.systems.pulsar.addressing import Addressing
from brokerproof.systems.pulsar.observation import PulsarObservation
from brokerproof.systems.pulsar.system import PulsarAdministration
from pydantic import TypeAdapter

ROOT = Path(__file__).parents[4]
EU, US = "cluster-eu", "cluster-us"
TOPIC = "/admin/v2/persistent/world/global/orders"


class Rest:
    """Answers what is planted, 404 the rest, and keeps what was changed."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.changed: list[str] = []
        self.bodies: list[Any] = []

    def get(self, path: str, expected: TypeAdapter[Any], **parameters: Any) -> Any:
        for name, answer in self.answers.items():
            if path.endswith(f"/{name}"):
                return expected.validate_json(json.dumps(answer))
        raise AdminError(f"GET {path} was refused with 404")

    def get_text(self, path: str, expected: re.Pattern[str]) -> str:
        text = self.get(path, TypeAdapter(str))
        assert expected.fullmatch(text)
        return str(text)

    def get_headers(self, path: str) -> Mapping[str, str]:
        *_, ledger, _, entry = path.split("/")
        position = f"{ledger}:{entry}"
        marker = {"X-Pulsar-marker-type": "10"} if position in self.answers.get("markers", ()) else {}
        return {"X-Pulsar-Message-ID": self.answers.get("entry", position), **marker}

    def change(self, method: str, path: str, body: Any = None, *, accept: Any = ()) -> None:
        self.changed.append(f"{method} {path}")
        self.bodies.append((body, tuple(accept)))


def inside(end: str, **cursors: str) -> dict[str, Any]:
    """The topic's internal stats; a cursor `repl` is the replicator's to the other cluster."""
    return {
        "lastConfirmedEntry": end,
        "ledgers": [],
        "cursors": {
            name.replace("repl_", "pulsar.repl.cluster-"): {"markDeletePosition": at} for name, at in cursors.items()
        },
    }


def stats(*, replicating: dict[str, int], backlog: int = 0) -> dict[str, Any]:
    return {
        "msgInCounter": 100,
        "subscriptions": {"audit": {"msgBacklog": backlog, "msgOutCounter": 7, "consumers": []}},
        "replication": {
            name: {"replicationBacklog": behind, "replicationDelayInSeconds": 3, "msgInCount": 40}
            for name, behind in replicating.items()
        },
    }


def run_of(directory: Path, name: str) -> Run:
    scenario, topology = load_scenario(ROOT / f"dags/scenarios/{name}.yaml", ROOT / "topologies")
    return Run.create(
        str(directory / "run"),
        run_id="r",
        scenario=scenario,
        topology=topology,
        addresses=assign_addresses(topology, 0),
    )


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return run_of(tmp_path, "geo_nominal")


def make_observation(run: Run, eu: Rest, us: Rest) -> PulsarObservation:
    observation = PulsarObservation(run)
    for name, rest in ((EU, eu), (US, us)):
        observation.clusters[name].__dict__["brokers"] = rest
    return observation


def sound() -> tuple[Rest, Rest]:
    eu = Rest(internalStats=inside("5:9", repl_us="5:9", audit="5:4"), stats=stats(replicating={US: 0}))
    us = Rest(internalStats=inside("8:7", repl_eu="8:7", audit="8:7"), stats=stats(replicating={EU: 0}))
    return eu, us


def test_replication_is_drained_when_every_replicator_is_at_the_end(run: Run) -> None:
    rows = make_observation(run, *sound()).find_replication_drains()
    assert [(way.sender, way.receiver, way.drained) for way in rows] == [(EU, US, True), (US, EU, True)]


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        # The stats' own backlog, an estimate, may say 0 while the cursor is behind.
        ({"internalStats": inside("5:9", repl_us="5:8"), "stats": stats(replicating={US: 0})}, "at 5:8 of 5:9"),
        ({"internalStats": inside("6:0", repl_us="5:9"), "stats": stats(replicating={US: 0})}, "at 5:9 of 6:0"),
        ({"internalStats": inside("5:9"), "stats": stats(replicating={})}, "has no replicator"),
        ({"internalStats": inside("5:9", repl_us="5:9"), "stats": stats(replicating={US: 4})}, "backlog 4"),
        ({}, "was refused with 404"),
    ],
)
def test_replication_that_is_not_shown_to_be_drained_is_not(run: Run, answers: dict[str, Any], why: str) -> None:
    _, us = sound()
    eu_us, us_eu = make_observation(run, Rest(**answers), us).find_replication_drains()
    assert (eu_us.drained, us_eu.drained) == (False, True)
    assert why in eu_us.why


def test_each_subscription_is_asked_of_its_own_cluster(run: Run) -> None:
    eu, us = sound()
    us.answers["stats"] = stats(replicating={EU: 0}, backlog=3)
    rows = make_observation(run, eu, us).find_subscription_drains()
    assert [(drain.cluster, drain.subscription, drain.drained) for drain in rows] == [
        (EU, "audit", True),
        (US, "audit", False),
    ]


def test_a_cluster_that_does_not_answer_is_not_drained_and_hides_nothing_of_the_other(run: Run) -> None:
    observation = make_observation(run, Rest(), sound()[1])
    eu, us = observation.find_subscription_drains()
    assert (eu.drained, us.drained) == (False, True)
    assert "404" in eu.why
    unread, log = observation.find_logs()
    assert (unread.cluster, unread.end) == (EU, None)
    assert "404" in (unread.why or "")
    assert log == TopicLog(cluster=US, partition=-1, end=Position(8, 8))


@pytest.mark.parametrize(
    ("markers", "end"),
    [
        ((), Position(8, 3)),
        (("8:2",), Position(8, 2)),
        # Into the ledger before, past an empty one.
        (("8:0", "8:1", "8:2", "5:9"), Position(5, 9)),
        ((*[f"8:{entry}" for entry in range(3)], *[f"5:{entry}" for entry in range(10)]), None),
    ],
)
def test_a_log_ends_with_its_last_message_and_not_with_a_subscriptions_state(
    tmp_path: Path, markers: tuple[str, ...], end: Position | None
) -> None:
    ledgers = [{"ledgerId": 5, "entries": 10}, {"ledgerId": 7, "entries": 0}, {"ledgerId": 8, "entries": 0}]
    us = Rest(internalStats={**inside("8:2"), "ledgers": ledgers}, markers=markers)
    observation = make_observation(run_of(tmp_path, "geo_replicated_subscription"), Rest(), us)
    log = observation.find_logs()[1]
    assert (log.end, log.why) == (end, None)


def test_one_cluster_is_asked_for_its_logs_without_the_other(run: Run) -> None:
    """A streaming query asks once a second, and the other cluster may be gone."""
    observation = make_observation(run, Rest(), sound()[1])
    assert observation.find_logs(US) == [TopicLog(cluster=US, partition=-1, end=Position(8, 8))]


def test_an_entry_that_was_not_asked_for_ends_no_log(tmp_path: Path) -> None:
    us = Rest(internalStats=inside("8:2"), entry="8:1")
    log = make_observation(run_of(tmp_path, "geo_replicated_subscription"), Rest(), us).find_logs()[1]
    assert (log.end, "entry 8:2" in (log.why or "")) == (None, True)


def test_a_log_with_an_entry_is_not_empty(run: Run) -> None:
    """Whatever the last confirmed entry says, which never is before an entry (`ManagedLedgerImpl`)."""
    ledgers = [{"ledgerId": 5, "entries": 10}, {"ledgerId": 8, "entries": 0}]
    observation = make_observation(run, Rest(internalStats={**inside("8:-1"), "ledgers": ledgers}), sound()[1])
    assert observation.find_logs()[0].end == Position(5, 10)


def test_a_subscription_that_moves_has_to_drain_where_it_goes(tmp_path: Path) -> None:
    eu, us = sound()
    for rest in (eu, us):
        rest.answers["stats"]["subscriptions"] = {"mover": {"msgBacklog": 2, "msgOutCounter": 1, "consumers": []}}
    observation = make_observation(run_of(tmp_path, "geo_replicated_subscription"), eu, us)
    assert [(drain.cluster, drain.subscription, drain.drained) for drain in observation.find_subscription_drains()] == [
        (US, "mover", False)
    ]


def test_a_topic_that_stores_no_messages_has_no_log_and_nothing_to_drain(tmp_path: Path) -> None:
    scenario, topology = load_scenario(ROOT / "dags/scenarios/semantics_unstored.yaml", ROOT / "topologies")
    run = Run.create(
        str(tmp_path / "run"), run_id="r", scenario=scenario, topology=topology, addresses=assign_addresses(topology, 0)
    )
    observation = PulsarObservation(run)
    (cluster,) = observation.clusters.values()
    names = [each.name for each in scenario.workload.subscriptions]
    here = {"msgBacklog": 0, "msgOutCounter": 1, "consumers": []}
    # Such a topic has no internal stats of a log.
    cluster.__dict__["brokers"] = Rest(stats={**stats(replicating={}), "subscriptions": dict.fromkeys(names[1:], here)})
    assert cluster.topic == "non-persistent://mytenant/eu/orders"
    assert cluster.partitions == [(-1, "/admin/v2/non-persistent/mytenant/eu/orders")]
    assert (observation.find_logs(), observation.find_copies()) == ([], [])
    drains = {each.subscription: each for each in observation.find_subscription_drains()}
    assert [drains[name].drained for name in names] == [False, True, True, True]
    assert drains[names[0]].why == "the subscription is not there"
    assert {each.end for each in drains.values()} == {None}


def test_topics_of_earlier_runs_are_deleted_whether_they_store_messages_or_not() -> None:
    stored, unstored = "persistent://earlier-1/eu/orders", "non-persistent://earlier-1/eu/orders"
    nothing = {f"{scheme}/earlier-1/eu/partitioned": [] for scheme in ("persistent", "non-persistent")}
    rest = Rest(**{**nothing, "v2/persistent/earlier-1/eu": [stored], "v2/non-persistent/earlier-1/eu": [unstored]})
    assert leftovers._remove_topics(rest, "earlier-1/eu") == 2  # type: ignore[arg-type]
    assert rest.changed == [
        "DELETE /admin/v2/persistent/earlier-1/eu/orders?force=true",
        "DELETE /admin/v2/non-persistent/earlier-1/eu/orders?force=true",
    ]


def test_what_was_replicated_to_a_cluster_was_not_published_there(run: Run) -> None:
    assert make_observation(run, *sound()).count_published() == 2 * (100 - 40)


def test_acknowledged_positions_are_those_of_the_cluster_asked(run: Run) -> None:
    observation = make_observation(run, *sound())
    assert observation.find_acknowledged(EU, "audit") == {-1: Position(5, 5)}
    assert observation.find_acknowledged(US, "audit") == {-1: Position(8, 8)}


def test_samples_say_which_cluster_they_are_of(run: Run) -> None:
    samplers = make_observation(run, *sound()).samplers()
    rows = {(sample.source, sample.metric): sample.value for sample in samplers[f"{US}/topic"]()}
    source = "topic:persistent://world/global/orders@cluster-us"
    assert rows[source, "backlog:audit"] == "0"
    assert rows[source, "replication_backlog:cluster-us>cluster-eu"] == "0"
    assert rows[source, "replication_delay_s:cluster-us>cluster-eu"] == "3"


def test_the_consumers_of_a_subscription_are_sampled_with_their_connections(run: Run) -> None:
    eu, us = sound()
    first = {"consumerName": "c0", "address": "/10.0.0.7:40312", "connectedSince": "2026-11-30T20:40:00.123Z"}
    second = {**first, "consumerName": "c1"}
    anew = {**first, "address": "/10.0.0.7:40313", "connectedSince": "2026-11-30T20:40:07.5+01:00"}
    audit = eu.answers["stats"]["subscriptions"]["audit"]
    sampler = make_observation(run, eu, us).samplers()[f"{EU}/topic"]

    def sample(**answer: Any) -> str | None:
        audit.update(answer)
        (value,) = (sample.value for sample in sampler() if sample.metric == "consumers:audit")
        return value

    assert sample() == "[]"
    both = sample(consumers=[second, first], activeConsumerName="c1")
    assert both == (
        '["c0 at /10.0.0.7:40312 since 2026-11-30T20:40:00.123Z", '
        '"c1 at /10.0.0.7:40312 since 2026-11-30T20:40:00.123Z, active"]'
    )
    assert sample(consumers=[first, second]) == both
    # A consumer that connects anew, another active consumer, and a consumer that has gone are changes.
    changes = [sample(consumers=[anew, second]), sample(consumers=[first, second], activeConsumerName="c0")]
    changes.append(sample(consumers=[first]))
    assert len({both, *changes}) == 4


def change_workload(run: Run, **values: Any) -> None:
    workload = run.scenario.workload.model_copy(update=values)
    run.__dict__["scenario"] = run.scenario.model_copy(update={"workload": workload})


def test_the_consumers_of_each_partition_are_sampled(run: Run) -> None:
    change_workload(run, partitions=2)
    eu, us = sound()
    metrics = {sample.metric for sample in make_observation(run, eu, us).samplers()[f"{EU}/topic"]()}
    assert {"consumers:audit/0", "consumers:audit/1"} <= metrics


def sample_owners(run: Run, partitions: int, owners: dict[int, str]) -> list[dict[str, str | None]]:
    """The rows of two rounds, where the lookup service names the brokers of these partitions."""
    change_workload(run, partitions=partitions)
    eu, us = sound()
    for number, broker in owners.items():
        host = run.facts.addresses.get(broker, broker)
        eu.answers[f"orders-partition-{number}" if partitions else "orders"] = {"brokerUrl": f"pulsar://{host}:6650"}
    sampler = make_observation(run, eu, us).samplers()[f"{EU}/owner"]
    return [{sample.metric: sample.value for sample in sampler()} for _ in range(2)]


def test_the_owner_of_every_partition_is_sampled_and_no_answer_is_no_owner(run: Run) -> None:
    owners = {0: "broker-eu-1", 2: "broker-eu-2", 3: "10.9.9.9"}
    # No broker answers about the second one, and the owner of the last one is no node of the run.
    found = {"owner:0": "broker-eu-1", "owner:1": None, "owner:2": "broker-eu-2", "owner:3": None}
    assert sample_owners(run, 4, owners) == [found, found]


def test_a_topic_without_partitions_has_one_owner(run: Run) -> None:
    assert sample_owners(run, 0, {0: "broker-eu-2"}) == [{"owner": "broker-eu-2"}] * 2


def test_the_owners_of_many_partitions_are_asked_for_in_turns(run: Run) -> None:
    first, second = sample_owners(run, 12, dict.fromkeys(range(12), "broker-eu-1"))
    assert [len(first), len(second)] == [8, 8]
    assert {*first, *second} == {f"owner:{number}" for number in range(12)}


def test_only_the_topic_of_the_cluster_named_is_closed(run: Run) -> None:
    eu, us = sound()
    administration = PulsarAdministration(run)
    for name, rest in ((EU, eu), (US, us)):
        administration.clusters[name].__dict__["brokers"] = rest
    administration.unload(US)
    assert (eu.changed, us.changed) == ([], [f"PUT {TOPIC}/unload"])


@pytest.mark.parametrize(("method", "change"), [("reassign", "unload"), ("split", "split?unload=true")])
def test_each_bundle_that_holds_partitions_is_changed_once(run: Run, method: str, change: str) -> None:
    administration = PulsarAdministration(run)
    cluster = administration.clusters[EU]
    low, high = "0x00000000_0x40000000", "0x40000000_0x80000000"
    bundles = {f"orders-partition-{number}/bundle": bundle for number, bundle in enumerate((high, low, high))}
    rest = Rest(**bundles)
    cluster.__dict__["brokers"] = rest
    change_workload(run, partitions=3)
    assert administration.find_groups() == [low, high]
    getattr(administration, method)()
    at = "/admin/v2/namespaces/world/global"
    assert rest.changed == [f"PUT {at}/{bundle}/{change}" for bundle in (low, high)]


GROWN_TOPIC = "/admin/v2/persistent/mytenant/eu/orders"


@pytest.fixture
def growing(tmp_path: Path) -> Run:
    """A topic of four partitions that gets four more."""
    return run_of(tmp_path, "partitions_added")


def make_growing(run: Run, *, partitions: int = 8, served: int = 8) -> tuple[PulsarAdministration, Rest]:
    """Brokers that name a number of partitions, and serve the first ones of them."""
    administration = PulsarAdministration(run)
    stats_of = {f"orders-partition-{number}/stats": stats(replicating={}) for number in range(served)}
    rest = Rest(partitions={"partitions": partitions}, **stats_of)
    administration.clusters["mycluster"].__dict__["brokers"] = rest
    return administration, rest


def test_a_topic_is_given_the_number_of_its_partitions(growing: Run) -> None:
    administration, rest = make_growing(growing)
    administration.grow()
    assert rest.changed == [f"POST {GROWN_TOPIC}/partitions"]
    # No refusal counts as success.
    assert rest.bodies == [(8, ())]


def test_a_topic_grows_in_each_cluster_that_is_published_to(run: Run) -> None:
    change_workload(run, partitions=1, grows_to=2, produce_on=[EU, US])
    eu, us = (Rest(partitions={"partitions": number}, stats=stats(replicating={})) for number in (2, 1))
    administration = PulsarAdministration(run)
    for name, rest in ((EU, eu), (US, us)):
        administration.clusters[name].__dict__["brokers"] = rest
    administration.grow()
    assert eu.changed == us.changed == [f"POST {TOPIC}/partitions"]
    assert not administration.has_grown()
    us.answers["partitions"] = {"partitions": 2}
    assert administration.has_grown()


def test_a_topic_has_grown_when_a_broker_serves_each_of_its_partitions(growing: Run) -> None:
    assert make_growing(growing)[0].has_grown()
    assert not make_growing(growing, partitions=4)[0].has_grown()
    with pytest.raises(AdminError, match="orders-partition-7/stats was refused"):
        make_growing(growing, served=7)[0].has_grown()


def test_a_topic_has_not_grown_before_its_subscriptions_are_in_each_partition(growing: Run) -> None:
    administration, rest = make_growing(growing)
    rest.answers["orders-partition-7/stats"] = {**stats(replicating={}), "subscriptions": {}}
    assert not administration.has_grown()
    # Without a subscription in the first partition, the others need none.
    rest.answers["orders-partition-0/stats"] = rest.answers["orders-partition-7/stats"]
    assert administration.has_grown()


def test_the_partitions_that_a_fault_adds_are_asked_for_after_its_effect(growing: Run) -> None:
    observation = PulsarObservation(growing)
    owner = {"brokerUrl": f"pulsar://{growing.facts.addresses['broker-eu-1']}:6650"}
    lookups = {f"orders-partition-{number}": owner for number in range(8)}
    rest = Rest(internalStats=inside("5:9", audit="5:9"), stats=stats(replicating={}), **lookups)
    observation.clusters["mycluster"].__dict__["brokers"] = rest
    sample_topic, sample_owners = (observation.samplers()[name] for name in ("topic", "owner"))

    def list_asked() -> dict[str, list[int]]:
        topic, owners = ([each.metric for each in sample()] for sample in (sample_topic, sample_owners))
        return {
            "drains": [each.partition for each in observation.find_subscription_drains()],
            "logs": [each.partition for each in observation.find_logs()],
            "acknowledged": list(observation.find_acknowledged("mycluster", "audit")),
            "consumers": [int(metric.rpartition("/")[2]) for metric in topic if metric.startswith("consumers:")],
            "owners": sorted(int(metric.partition(":")[2]) for metric in owners),
        }

    assert all(numbers == [0, 1, 2, 3] for numbers in list_asked().values())
    assert observation.count_published() == 4 * 100
    write_record(growing, FaultEffective(fault="grown", at=0))
    assert all(numbers == list(range(8)) for numbers in list_asked().values())
    assert observation.count_published() == 8 * 100


def test_the_partitions_that_a_fault_added_are_closed_too(growing: Run) -> None:
    administration, rest = make_growing(growing)
    administration.unload("mycluster")
    assert len(rest.changed) == 4
    write_record(growing, FaultEffective(fault="grown", at=0))
    administration.unload("mycluster")
    assert rest.changed[4:] == [f"PUT {GROWN_TOPIC}-partition-{number}/unload" for number in range(8)]


def layout(topology_name: str) -> nodes.Layout:
    topology = load_topology(topology_name, ROOT / "topologies")
    return nodes.Layout(
        software=ImageSoftware("image", "/pulsar", lambda image, path: ""),
        addressing=Addressing(topology=topology, addresses=assign_addresses(topology, 0), views={}),
    )


def test_in_a_shared_store_each_cluster_has_its_chroot_and_the_root_is_for_both() -> None:
    geo = layout("geo_replication")
    store = f"{geo.addresses['metadata-1']}:2181"
    assert [geo.metadata_url(name) for name in (EU, US)] == [f"{store}/{EU}", f"{store}/{US}"]
    assert [geo.configuration_url(name) for name in (EU, US)] == [store, store]


def test_a_cluster_with_a_store_of_its_own_has_no_chroot() -> None:
    stretched = layout("sync_active_passive")
    assert stretched.metadata_url("mycluster") == stretched.configuration_url("mycluster")
    assert "/" not in stretched.metadata_url("mycluster")


def test_clients_are_given_their_own_clusters_brokers_only() -> None:
    geo = layout("geo_replication")
    eu = geo.service_url(geo.topology.clusters[EU])
    assert all(geo.addresses[f"broker-eu-{number}"] in eu for number in (1, 2))
    assert not any(geo.addresses[f"broker-us-{number}"] in eu for number in (1, 2))


def test_a_cluster_registered_elsewhere_is_named() -> None:
    topology = load_topology("geo_replication", ROOT / "topologies")
    registrations = {EU: {"serviceUrl": "http://eu"}, US: {"serviceUrl": "http://us"}}
    rest = Rest()
    configuration.register(rest, registrations)  # type: ignore[arg-type]
    # One that registered itself is known already, in another's words.
    assert rest.changed == [f"{method} /admin/v2/clusters/{name}" for name in (EU, US) for method in ("PUT", "POST")]

    class Answers:
        def get(self, path: str, expected: TypeAdapter[Any]) -> Any:
            return {"serviceUrl": "http://eu"} if "/clusters/" in path else {}

    with pytest.raises(AdminError, match="serviceUrl of cluster-us is 'http://eu', not 'http://us'"):
        configuration.check(
            Answers(),  # type: ignore[arg-type]
            EU,
            topology,
            assign_addresses(topology, 0),
            load_scenario(ROOT / "dags/scenarios/geo_nominal.yaml", ROOT / "topologies")[0].workload,
            registrations,
        )


def silent(run: Run, **sessions: list[str]) -> PulsarObservation:
    """What no broker and no bookie answers, beside a metadata store with these sessions."""
    observation = PulsarObservation(run)
    dump = {"error": None, "session_id_to_ephemeral_paths": sessions}
    for cluster in observation.clusters.values():
        cluster.__dict__ |= {"brokers": Rest(), "bookies": Rest(), "metadata_store": Rest(dump=dump)}
    return observation


def test_where_no_node_answers_the_metadata_store_says_who_lives(run: Run) -> None:
    at = run.facts.addresses
    observation = silent(
        run,
        broker=[f"/{EU}/loadbalance/brokers/{at['broker-eu-1']}:8080", f"/{EU}/loadbalance/leader"],
        other=[f"/{US}/loadbalance/brokers/{at['broker-us-1']}:8080"],
        bookie=[f"/{EU}/ledgers/available/{at['bookie-eu-2']}:3181"],
        full=[f"/{EU}/ledgers/available/readonly/{at['bookie-eu-1']}:3181"],
    )
    eu = observation.clusters[EU]
    assert (eu.list_alive_brokers(), eu.list_alive_bookies()) == (["broker-eu-1"], ["bookie-eu-2"])
    assert observation.list_alive() == {"broker": ["broker-eu-1", "broker-us-1"], "bookie": ["bookie-eu-2"]}


def test_a_metadata_store_of_one_cluster_has_no_chroot(tmp_path: Path) -> None:
    run = run_of(tmp_path, "sync_nominal")
    address = run.facts.addresses["broker-us-1"]
    observation = silent(run, broker=[f"/loadbalance/brokers/{address}:8080"])
    assert observation.list_alive() == {"broker": ["broker-us-1"], "bookie": []}


def test_what_is_no_node_in_the_metadata_store_is_not_listed_as_one(run: Run) -> None:
    observation = silent(run, broker=[f"/{EU}/loadbalance/brokers/leader"])
    with pytest.raises(AdminError, match=r"holds something else than nodes: Input should be a node `HOST:PORT`"):
        observation.clusters[EU].list_alive_brokers()


def test_where_nobody_answers_nobody_is_reported_dead(run: Run) -> None:
    observation = silent(run)
    observation.clusters[EU].__dict__["metadata_store"] = Rest()
    with pytest.raises(AdminError):
        observation.list_alive()
