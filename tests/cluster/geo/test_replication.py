"""Two real clusters that replicate to each other: what arrives, what proves it, and what the proof is worth."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest
from brokerproof.clock import wait_until
from brokerproof.errors import AdminError
from brokerproof.experiment.workload import Subscription
from brokerproof.results.run_outcome import compose_outcome
from brokerproof.run.directory import Run
from brokerproof.run.records import LogsRead, read_record, write_record
from brokerproof.run.seals import seal_tables
from brokerproof.run.tables import join_columns
from brokerproof.systems.pulsar.answers import NAMES, SETTINGS
from brokerproof.systems.pulsar.observation import PulsarObservation
from brokerproof.systems.pulsar.roles import Role
from brokerproof.systems.pulsar.system import PULSAR, PulsarAdministration
from brokerproof.systems.registry import make_clients
from builders import ROOT

from .. import conftest
from ..conftest import ConfiguredRun
from .conftest import EU, US, submit


def publish(geo: ConfiguredRun, cluster: str, count: int) -> None:
    answers = conftest.publish(geo.run, cluster, f"{cluster}-p0", count)
    assert {answer.outcome for answer in answers} == {"acked"}


def read(geo: ConfiguredRun, cluster: str) -> list[dict[str, Any]]:
    """The rows of the table `stored` for all messages of a cluster's log."""
    clients = make_clients(geo.run, cluster)
    try:
        reader = clients.reader(-1)
        found = []
        while not reader.at_end():
            if (message := reader.read(5)) is not None:
                found.append(message)
        constant = {"run_id": "r", "cluster": cluster, "topic": "t"}
        return join_columns("stored", clients.describe(found), constant).to_pylist()
    finally:
        clients.close()


def drain(observation: PulsarObservation) -> None:
    wait_until(
        lambda: all(way.drained for way in observation.find_replication_drains()),
        timeout_s=60,
        what="replication to drain",
    )


def test_what_is_published_on_either_reaches_both_and_says_where_it_came_from(geo: ConfiguredRun) -> None:
    for cluster in (EU, US):
        publish(geo, cluster, 50)
    drain(geo.observation)
    assert Counter((one["producer"], one["replicated_from"]) for one in read(geo, EU)) == {
        ("cluster-eu-p0", None): 50,
        ("cluster-us-p0", US): 50,
    }
    assert Counter((one["producer"], one["replicated_from"]) for one in read(geo, US)) == {
        ("cluster-eu-p0", EU): 50,
        ("cluster-us-p0", None): 50,
    }


@pytest.mark.parametrize("partitions", [0, 2])
def test_topics_of_other_runs_are_removed_from_both_clusters_and_the_runs_own_stay(
    geo: ConfiguredRun, tmp_path: Path, partitions: int
) -> None:
    use = 2 + partitions
    scenario, topology = PULSAR.separate(geo.run.scenario, geo.run.topology, use)
    workload = scenario.workload.model_copy(update={"partitions": partitions})
    other = Run.create(
        str(tmp_path / "other"),
        run_id="other",
        scenario=scenario.model_copy(update={"workload": workload}),
        topology=topology,
        addresses=geo.run.facts.addresses,
    )
    PulsarAdministration(other).configure()
    publish(geo, EU, 1)
    for cluster in (EU, US):
        conftest.publish(other, cluster, f"{cluster}-p0", 20)
    drain(PulsarObservation(other))
    drain(geo.observation)
    own = {cluster: len(read(geo, cluster)) for cluster in (EU, US)}

    def list_topics() -> set[str]:
        found = set[str]()
        for cluster in geo.administration.clusters.values():
            for kind in ("", "/partitioned"):
                path = f"/admin/v2/persistent/{workload.namespace}{kind}"
                found.update(name.rpartition("/")[2] for name in cluster.brokers.get(path, NAMES))
        return found

    parts = {f"tests-partition-{number}" for number in range(partitions)}
    assert list_topics() == (parts | {"tests"} if partitions else {"tests"})
    geo.administration.remove_other_topics()
    assert list_topics() == set()
    assert {cluster: len(read(geo, cluster)) for cluster in (EU, US)} == own


def test_what_a_message_says_of_its_origin_is_what_the_broker_says(geo: ConfiguredRun) -> None:
    publish(geo, EU, 5)
    drain(geo.observation)
    cluster = geo.observation.clusters[US]
    address = geo.run.facts.addresses[cluster.find_owner()]
    for one in read(geo, US)[-5:]:
        path = f"{cluster.partitions[0][1]}/ledger/{one['segment']}/entry/{one['offset']}"
        answer = httpx.get(f"http://{address}:8080{path}", trust_env=False, timeout=60)
        assert answer.headers.get("X-Pulsar-replicated-from") == one["replicated_from"] == EU


def test_both_clusters_know_each_other_and_a_changed_address_is_named(geo: ConfiguredRun) -> None:
    geo.administration.check_configuration()
    brokers, path = geo.observation.clusters[EU].brokers, f"/admin/v2/clusters/{US}"
    kept = brokers.get(path, SETTINGS)
    assert kept is not None
    brokers.change("POST", path, {**kept, "brokerServiceUrl": "pulsar://127.9.9.9:6650"})
    try:
        with pytest.raises(AdminError, match="brokerServiceUrl of cluster-us"):
            geo.administration.check_configuration()
    finally:
        brokers.change("POST", path, kept)
    geo.administration.check_configuration()


def test_every_message_reaches_both_clusters_and_their_subscriptions(judged: Run) -> None:
    result = compose_outcome(judged).model_dump(mode="json")
    assert result["verdict"] == "passed", result["why"]
    counts = result["counts"]
    assert counts["stored"] == counts["deliveries"] == 2 * counts["acked"]
    stored = pq.read_table(judged.table("stored"), columns=["cluster", "replicated_from"]).to_pylist()
    places = Counter((row["cluster"], row["replicated_from"]) for row in stored)
    assert set(places) == {(EU, None), (EU, US), (US, None), (US, EU)}
    assert len(set(places.values())) == 1


def test_clients_stayed_on_their_own_cluster(judged: Run) -> None:
    rows = pq.read_table(judged.table("publishes"), columns=["cluster", "producer", "key"]).to_pylist()
    assert {row["producer"].rsplit("-", 1)[0] for row in rows if row["cluster"] == EU} == {EU}
    keys = {(row["key"], row["producer"]) for row in rows}
    assert len(keys) == len({key for key, _ in keys}), "a key has two producers"


def test_messages_that_are_missing_afterwards_are_found(judged: Run, tmp_path: Path) -> None:
    """The same tables without what us stored of one message, and without another one everywhere."""
    run = Run(str(tmp_path / "damaged"))
    shutil.copytree(judged.directory, run.directory, ignore=shutil.ignore_patterns("nodes", "report"))
    stored = pq.read_table(judged.table("stored")).to_pylist()
    unreplicated, lost = [(row["producer"], row["seq"]) for row in stored if row["replicated_from"] == EU][:2]
    missing = {(US, *unreplicated), (US, *lost), (EU, *lost)}
    shutil.rmtree(run.table("stored"))
    run.append("stored", [row for row in stored if (row["cluster"], row["producer"], row["seq"]) not in missing])
    # As if the readers had never seen them; a table that differs from its seal or from their counts accuses nobody.
    seal_tables(run, "stored")
    read = read_record(run, LogsRead)
    assert read is not None
    gone = Counter(cluster for cluster, *_ in missing)
    logs = [log.model_copy(update={"messages": (log.messages or 0) - gone[log.cluster]}) for log in read.logs]
    write_record(run, read.model_copy(update={"logs": tuple(logs)}))
    submit(run, "verify", "--expectations", str(ROOT / "expectations"))
    result = compose_outcome(run).model_dump(mode="json")
    assert result["verdict"] == "failed"
    found = {
        (row["anomaly"], row["cluster"], row["producer"], row["seq"])
        for row in pq.read_table(run.table("anomalies")).to_pylist()
    }
    assert found == {("not_replicated", US, *unreplicated), ("not_replicated", US, *lost), ("lost", EU, *lost)}


def test_replication_is_not_drained_while_the_other_cluster_is_down_and_is_after_its_return(geo: ConfiguredRun) -> None:
    us = geo.observation.clusters[US]
    brokers = us.names(role=Role.BROKER)
    for name in brokers:
        geo.runtime.kill(name)
    # Nobody of them is left to say so: the metadata store lists them until their sessions end.
    assert us.list_alive_brokers() == sorted(brokers)
    publish(geo, EU, 20)
    to_us, from_us = geo.observation.find_replication_drains()
    assert (to_us.drained, from_us.drained) == (False, False)
    assert "the replicator of the topic is at" in to_us.why
    assert "no node answers" in from_us.why
    before = len(read(geo, EU))
    wait_until(lambda: us.list_alive_brokers() == [], timeout_s=60, what="the end of their sessions")
    specs = geo.provisioning.specs()
    for name in brokers:
        geo.runtime.start(specs[name])
    wait_until(
        lambda: all(geo.provisioning.is_healthy(specs[name]) for name in brokers), timeout_s=90, what="their health"
    )
    drain(geo.observation)
    assert len(read(geo, US)) == before


@pytest.mark.parametrize("replicated", [True, False])
def test_a_subscription_with_replicated_state_goes_on_elsewhere_where_it_stood(
    geo: ConfiguredRun, tmp_path: Path, replicated: bool
) -> None:
    """What it had acknowledged a second ago it does not get again; without the state it gets everything again.

    The state is kept in the log, which ends with the last message all the same.
    """
    mover = Subscription(name="mover", cluster=EU, replicated=replicated)
    topic = {"topic": f"mover-{replicated}".lower(), "subscriptions": [mover]}
    run = Run.create(
        str(tmp_path / "run"),
        run_id="moved",
        scenario=geo.run.scenario.model_copy(update={"workload": geo.run.scenario.workload.model_copy(update=topic)}),
        topology=geo.run.topology,
        addresses=geo.run.facts.addresses,
    )
    eu, us = make_clients(run, EU), make_clients(run, US)
    try:
        consumer, acknowledged = eu.consumer(mover, "c0"), 0
        # A snapshot of the state is taken once a second, and only while something is published.
        for _ in range(8):
            conftest.publish(run, EU, f"p{acknowledged}", 50)
            for _ in range(50):
                message = consumer.receive(5)
                assert message is not None
                consumer.acknowledge(message)
                acknowledged += 1
            time.sleep(0.5)
        observation = PulsarObservation(run)
        wait_until(
            lambda: all(way.drained for way in observation.find_replication_drains()),
            timeout_s=60,
            what="replication to drain",
        )
        again = 0
        other = us.consumer(mover, "c0")
        while other.receive(3) is not None:
            again += 1
        assert again < acknowledged / 2 if replicated else again == acknowledged
        for cluster, log in zip((EU, US), observation.find_logs(), strict=True):
            reader = (us if cluster == US else eu).reader(-1)
            while not reader.at_end():
                reader.read(5)
            assert (log.cluster, log.end) == (cluster, reader.next_position())
    finally:
        eu.close()
        us.close()
