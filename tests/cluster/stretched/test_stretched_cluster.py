"""What `sync_active_passive_wan` promises, read from the cluster itself."""

from __future__ import annotations

import time
from pathlib import Path

import httpx
import psutil
import pulsar
import pyarrow as pa
import pytest
import read_back
from brokerproof import lifecycle
from brokerproof.clock import wait_until
from brokerproof.errors import AdminError
from brokerproof.experiment.fault import Fault, Targets
from brokerproof.faults.kind import Surroundings
from brokerproof.faults.registry import FAULT_KINDS
from brokerproof.kept_clusters import list_differences
from brokerproof.network import Condition
from brokerproof.run.directory import Run
from brokerproof.run.records import FaultsUndone, LogRead, read_record, write_record
from brokerproof.systems.clients import Settled
from brokerproof.systems.pulsar.addressing import BOOKIE_HTTP_PORT
from brokerproof.systems.pulsar.answers import LEDGERS, SETTINGS
from brokerproof.systems.pulsar.leftovers import remove_ledgers
from brokerproof.systems.pulsar.metadata_store import UNDER_REPLICATION
from brokerproof.systems.pulsar.observation import PulsarObservation
from brokerproof.systems.pulsar.roles import Role
from brokerproof.systems.pulsar.system import PULSAR, PulsarAdministration
from brokerproof.systems.registry import make_clients, name_topic
from kazoo.client import KazooClient

from .. import conftest
from ..conftest import ConfiguredRun


def publish(stretched: ConfiguredRun, count: int) -> list[Settled]:
    """By a producer of its own."""
    return conftest.publish(stretched.run, "mycluster", f"test-{count}-{time.monotonic_ns()}", count)


def test_a_version_is_fetched_once(stretched: ConfiguredRun) -> None:
    said: list[str] = []
    lifecycle.prepare(stretched.run.scenario, stretched.run.topology, said.append)
    assert said == []


def test_bookies_find_what_they_would_race_for(stretched: ConfiguredRun) -> None:
    """Of bookies that start side by side on an empty store, Pulsar lets all but the first die; see provisioning.py."""
    store = KazooClient(
        stretched.provisioning.layout.metadata_url("mycluster", stretched.run.facts.addresses), read_only=True
    )
    store.start(timeout=10)
    try:
        made = store.exists(UNDER_REPLICATION).czxid
        # The first thing that a new bookie writes, in the store's own order.
        cookies = [store.exists(f"/ledgers/cookies/{name}").czxid for name in store.get_children("/ledgers/cookies")]
    finally:
        store.stop()
        store.close()
    assert len(cookies) == len(stretched.run.topology.clusters["mycluster"].names(role=Role.BOOKIE))
    assert made < min(cookies)


def configure_other(stretched: ConfiguredRun, directory: Path, number: int) -> Run:
    """Configure the cluster for another run, and return this run."""
    facts = stretched.run.facts
    scenario, topology = PULSAR.separate(stretched.run.scenario, stretched.run.topology, number)
    run = Run.create(
        str(directory / "other"),
        run_id="other",
        scenario=scenario,
        topology=topology,
        addresses=facts.addresses,
        views=facts.views,
    )
    PulsarAdministration(run).configure()
    return run


def list_ledgers(stretched: ConfiguredRun, name: str) -> set[int]:
    """Those whose metadata has the name."""
    bookies = stretched.administration.clusters["mycluster"].bookies
    listed = bookies.get("/api/v1/ledger/list/", LEDGERS, print_metadata="true")
    return {ledger for ledger, metadata in listed.items() if name in metadata}


def test_nothing_of_an_earlier_run_is_left_on_the_bookies(stretched: ConfiguredRun, tmp_path: Path) -> None:
    earlier = configure_other(stretched, tmp_path, 2)
    assert len(conftest.publish(earlier, "mycluster", "p", 20)) == 20
    # A check of a broker's health leaves a topic.
    spec = stretched.provisioning.specs()["broker-eu-1"]
    assert stretched.provisioning.is_healthy(spec)
    for name in ("mytenant-2/", "/healthcheck"):
        assert list_ledgers(stretched, name)
    stretched.administration.remove_other_topics()
    for name in ("mytenant-2/", "/healthcheck"):
        assert not list_ledgers(stretched, name)
    # The run's own topic is still there, and a cluster without other topics stays as it is.
    assert publish(stretched, 1)
    own = list_ledgers(stretched, "mytenant/")
    assert own
    stretched.administration.remove_other_topics()
    assert list_ledgers(stretched, "mytenant/") >= own
    assert stretched.provisioning.is_healthy(spec)


def test_a_ledger_that_pulsar_does_not_delete_is_deleted(stretched: ConfiguredRun, tmp_path: Path) -> None:
    configure_other(stretched, tmp_path, 3)
    cluster, schema = stretched.administration.clusters["mycluster"], "/admin/v2/schemas/mytenant-3/eu/noticed/schema"
    cluster.brokers.change("POST", schema, {"type": "STRING", "schema": "", "properties": {}})
    noticed = list_ledgers(stretched, "/noticed")
    assert noticed
    remove_ledgers(cluster, ["mytenant-4/eu"])
    assert list_ledgers(stretched, "/noticed") == noticed
    remove_ledgers(cluster, ["mytenant-3/eu"])
    assert not list_ledgers(stretched, "mytenant-3/eu/")
    # Nothing can be read of the schema, and the namespace with it can still be removed.
    stretched.administration.remove_other_topics()


def test_the_nodes_listen_on_their_own_loopback_addresses_only(stretched: ConfiguredRun) -> None:
    addresses = stretched.run.facts.addresses
    for name, pid in stretched.runtime.pids().items():
        listening = {
            connection.laddr.ip
            for connection in psutil.Process(pid).net_connections("inet")
            if connection.status == psutil.CONN_LISTEN
        }
        assert listening == {addresses[name]}, name


def test_every_ledger_has_one_copy_in_each_region(stretched: ConfiguredRun) -> None:
    for _ in range(4):
        assert {answer.outcome for answer in publish(stretched, 20)} == {"acked"}
        stretched.administration.unload("mycluster")  # the next one opens another ledger
    found = stretched.observation.find_copies()
    assert len({each.segment for each in found}) >= 4
    nodes = stretched.run.topology.nodes
    assert {tuple(sorted(nodes[name].region for name in each.in_sync)) for each in found} == {("eu", "us")}
    assert {tuple(each.regions_required) for each in found} == {("eu", "us")}


def test_the_topic_is_owned_where_the_isolation_policy_says(stretched: ConfiguredRun) -> None:
    publish(stretched, 1)
    owner = stretched.observation.find_owner()
    assert owner in stretched.run.topology.clusters["mycluster"].names(role=Role.BROKER, region="eu")


def test_a_topic_that_is_taken_from_its_owner_gets_one_where_the_policy_says(stretched: ConfiguredRun) -> None:
    publish(stretched, 1)
    eu = stretched.run.topology.clusters["mycluster"].names(role=Role.BROKER, region="eu")
    before = len(stretched.observation.find_copies())
    stretched.administration.reassign()
    publish(stretched, 1)
    assert stretched.observation.find_owner() in eu
    # It was closed and opened again.
    assert len(stretched.observation.find_copies()) > before


def test_the_holders_of_the_open_ledger_are_one_of_each_region(stretched: ConfiguredRun) -> None:
    publish(stretched, 1)
    assert sorted(stretched.run.topology.nodes[name].region for name in stretched.observation.find_holders()) == [
        "eu",
        "us",
    ]


def test_what_was_published_counts_where_it_was_acked(stretched: ConfiguredRun) -> None:
    publish(stretched, 1)
    before = stretched.observation.count_published()
    publish(stretched, 10)
    assert stretched.observation.count_published() - before == 10


def test_all_nodes_are_listed_alive_and_nothing_is_under_replicated(stretched: ConfiguredRun) -> None:
    alive = stretched.observation.list_alive()
    assert alive[Role.BROKER] == sorted(stretched.observation.home.names(role=Role.BROKER))
    assert alive[Role.BOOKIE] == sorted(stretched.observation.home.names(role=Role.BOOKIE))
    assert stretched.observation.count_under_replicated() == 0


def test_a_read_only_bookie_and_a_slow_link_are_differences_from_a_new_cluster(stretched: ConfiguredRun) -> None:
    assert list(list_differences(stretched.reserved)) == []
    bookie = f"http://{stretched.run.facts.addresses['bookie-us-1']}:{BOOKIE_HTTP_PORT}/api/v1/bookie/state/readonly"
    link = stretched.runtime.network()
    link.add(Condition(id="slow", senders=["broker-eu-1"], receivers=["bookie-us-1"], both_ways=True, delay_ms=1))
    try:
        httpx.put(bookie, json={"readOnly": True}, timeout=10).raise_for_status()
        found = wait_until(
            lambda: each if len(each := list(list_differences(stretched.reserved))) == 2 else None,
            timeout_s=30,
            what="both differences",
        )
    finally:
        httpx.put(bookie, json={"readOnly": False}, timeout=10).raise_for_status()
        link.remove("slow")
    writable = [name for name in stretched.observation.home.names(role=Role.BOOKIE) if name != "bookie-us-1"]
    assert found == [
        f"the cluster lists as bookie: {', '.join(sorted(writable))}",
        "the link has the condition slow",
    ]
    wait_until(lambda: not list(list_differences(stretched.reserved)), timeout_s=30, what="no difference")


def test_a_setting_changed_behind_its_back_is_named(stretched: ConfiguredRun) -> None:
    stretched.administration.check_configuration()
    path = "/admin/v2/namespaces/mytenant/eu/retention"
    kept = stretched.observation.home.brokers.get(path, SETTINGS)
    stretched.observation.home.brokers.change("POST", path, {"retentionTimeInMinutes": 1, "retentionSizeInMB": 1})
    try:
        with pytest.raises(AdminError, match="retention of mytenant/eu"):
            stretched.administration.check_configuration()
    finally:
        stretched.observation.home.brokers.change("POST", path, kept)
    stretched.administration.check_configuration()


def test_a_killed_broker_is_seen_dead_and_comes_back(stretched: ConfiguredRun) -> None:
    kind, name = FAULT_KINDS["kill"], "broker-us-2"
    around = Surroundings(
        provisioning=stretched.provisioning,
        administration=stretched.administration,
        observation=stretched.observation,
        runtime=stretched.runtime,
        specs=stretched.provisioning.specs(),
        roles=PULSAR.roles,
        link=None,
        fault=Fault(name="killed", kind=kind.name, targets=Targets(nodes=[name])),
    )
    assert kind.find_evidence(around, [name]) is None
    kind.inject(around, [name])
    evidence = wait_until(lambda: kind.find_evidence(around, [name]), timeout_s=10, what="the effect")
    assert "refuses connections" in evidence
    assert kind.find_recovery(around, [name]) is None
    kind.heal(around, [name])
    assert "health" in wait_until(lambda: kind.find_recovery(around, [name]), timeout_s=90, what="its health")


def test_the_samplers_say_what_the_cluster_says(stretched: ConfiguredRun) -> None:
    publish(stretched, 1)
    samples = {
        (sample.source, sample.metric): sample.value
        for sampler in stretched.observation.samplers().values()
        for sample in sampler()
    }
    topic = f"topic:{name_topic(stretched.run)}"
    assert samples[topic, "owner"].startswith("broker-eu-")
    assert int(samples[topic, "published"]) > 0
    assert samples["cluster:mycluster", "under_replicated"] == "0"
    for bookie in stretched.observation.home.names(role=Role.BOOKIE):
        assert int(samples[f"node:{bookie}", "bytes_written"]) > 0


def test_a_message_too_big_is_failed_for_certain(stretched: ConfiguredRun) -> None:
    answers: list[Settled] = []
    clients = make_clients(stretched.run, "mycluster")
    try:
        clients.producer("too-big").send(0, "k0", b"x" * 6_000_000, answers.append)
        wait_until(lambda: bool(answers), timeout_s=30, what="the answer")
    finally:
        clients.close()
    assert (answers[0].outcome, answers[0].error) == (
        "failed",
        str(pulsar.Result.MessageTooBig).removeprefix("Result."),
    )


def test_a_reader_begins_with_the_entry_that_it_is_given(stretched: ConfiguredRun) -> None:
    acks = [publish(stretched, 1)[0] for _ in range(3)]
    clients = make_clients(stretched.run, "mycluster")
    try:
        for number, ack in enumerate(acks):
            reader = clients.reader(ack.partition, ack.position)
            found = clients.describe([reader.read(30.0) for _ in acks[number:]])
            columns = [pa.array(found[name]).to_pylist() for name in ("segment", "offset", "batch_index")]
            assert list(zip(*columns, strict=True)) == [each.position for each in acks[number:]]
            assert reader.at_end()
            reader.close()
    finally:
        clients.close()


def test_a_ledger_that_is_gone_is_an_unreadable_part_and_reading_goes_on_behind_it(
    stretched: ConfiguredRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = stretched.run.scenario.workload.model_copy(update={"topic": "unreadable"})
    run = Run.create(
        str(tmp_path / "run"),
        run_id="unreadable",
        scenario=stretched.run.scenario.model_copy(update={"workload": workload}),
        topology=stretched.run.topology,
        addresses=stretched.run.facts.addresses,
    )
    write_record(run, FaultsUndone(undone=True, problems=(), at=0))
    administration, observation = PulsarAdministration(run), PulsarObservation(run)
    acked = []
    for producer in ("first", "second", "third"):
        acked.append([settled.position for settled in conftest.publish(run, "mycluster", producer, 5)])
        # The next messages are written to another ledger.
        administration.unload("mycluster")
    (log,) = observation.find_logs()
    gone = acked[1][0].segment
    bookie = stretched.run.facts.addresses["bookie-eu-1"]
    httpx.delete(f"http://{bookie}:{BOOKIE_HTTP_PORT}/api/v1/ledger/delete/?ledger_id={gone}").raise_for_status()
    administration.unload("mycluster")

    monkeypatch.setattr(read_back, "_STALLED_S", 8.0)
    task = read_back.ReadTask(number=0, log=log)
    rows = [row for batch in read_back.read_log(run, task) for row in batch.to_pylist()]

    record = read_record(run, LogRead, 0)
    assert record is not None
    assert len(record.unreadable) == 1, record
    (part,) = record.unreadable
    assert [position.segment for position in acked[1] if part.start <= position[:2] < part.end] == [gone] * 5
    assert {(row["segment"], row["offset"]) for row in rows} == {each[:2] for each in acked[0] + acked[2]}
    assert (record.read_to_end, record.passed, record.messages) == (False, log.end[:2], 10)
