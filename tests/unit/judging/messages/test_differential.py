"""Random histories, judged by Spark and by the plain reference: both have to find the same rows, legal or not.

`BROKERPROOF_HISTORIES` says how many; `make differential` judges 20,000. What the reference does not judge (facts about
messages, causes, and texts) is compared with what judging wrote when the digests of its columns were written.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from brokerproof.experiment.guarantees import Anomaly, Guarantee, SubscriptionType
from brokerproof.experiment.workload import Commit
from brokerproof.run.directory import Run
from brokerproof.run.observations import SampledMetric, make_topic_source
from brokerproof.run.records import FaultsUndone
from brokerproof.run.tables import FaultState
from brokerproof_judging import table_io
from brokerproof_judging.evidence import Evidence
from brokerproof_judging.messages import message_judging
from brokerproof_judging.messages.message_columns import POSITION
from brokerproof_judging.messages.message_judging import MessageJudging
from pyspark.sql import SparkSession

from ..history import NAMESPACE, REPLICATED, SECOND, SEGMENT, START, History, table
from ..reference import Reference

# The histories of a batch are topics of one run, whose scenario they share.
BATCH = 100
USUAL_HISTORIES = 2000
HISTORIES = int(os.environ.get("BROKERPROOF_HISTORIES", USUAL_HISTORIES))
BATCHES = range(HISTORIES // BATCH)
# What few histories hold says nothing about judging.
needs_many_histories = pytest.mark.skipif(
    HISTORIES < USUAL_HISTORIES, reason=f"{HISTORIES} histories need not hold every anomaly, as {USUAL_HISTORIES} do"
)
# For each batch, a digest of each column of `messages` and `anomalies`. `make expected-rows` writes them again.
DIGESTS = Path(__file__).with_name("expected_rows") / "digests.json"
CLOCK_ERROR_US = 150
GONE = {"name": "gone", "kind": "destroy", "targets": {"cluster": "main"}, "heal_at_s": 1}


@pytest.fixture(scope="module", autouse=True)
def several_tasks() -> Iterator[None]:
    """The parts of these small tables are judged by several tasks, like those of a long run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(message_judging, "MOST_ROWS_TOGETHER", 1)
        yield


def make_history(chance: random.Random) -> History:
    """An empty history whose scenario is chosen at random."""
    clusters = ("main", "other", "third")[: chance.choice([1, 2, 2, 3])]
    last = clusters[-1]
    # Runs with outputs are judged by SQL alone, so most have none.
    commits = [chance.choice([None, *map(str, Commit)]) if chance.random() < 0.8 else None for _ in range(3)]
    commits = commits if chance.random() < 0.3 else [None, None, None]
    types = [chance.choice(list(SubscriptionType)) for _ in range(4)]
    subscriptions: list[dict[str, Any]] = [
        {"name": "audit", "type": str(types[0]), "commit": commits[0]},
        {"name": "pool", "type": str(types[1]), "commit": commits[1]},
        {"name": "far", "type": str(types[2]), "cluster": last, "commit": commits[2]},
    ]
    bounds = {"missing_messages": {"max": 0}, "rpo_messages": {"max": 0}}
    scenario: dict[str, Any] = {"faults": [GONE], "bounds": bounds}
    if len(clusters) > 1:
        moves = {"to": last, "after": "gone"}
        subscriptions.append({"name": "mover", "type": str(types[3]), "cluster": "main", "moves": moves})
        if chance.random() < 0.5:
            scenario["destroyed"] = [chance.choice(clusters)]
    if chance.random() < 0.5:
        # `unproven` is neither legal nor illegal.
        names = [str(anomaly) for anomaly in Anomaly if anomaly is not Anomaly.UNPROVEN]
        tightened = chance.sample(names, 5)
        loosened = {name: choose_messages(chance, clusters, subscriptions) for name in chance.sample(names, 11)}
        scenario["tighten"] = tightened
        scenario["loosen"] = {name: chosen for name, chosen in loosened.items() if chosen or name not in tightened}
    history = History(
        clusters=clusters, guarantee=chance.choice(list(Guarantee)), subscriptions=subscriptions, **scenario
    )
    history.facts["clock_error_us"] = chance.choice([0, CLOCK_ERROR_US])
    if chance.random() < 0.2:
        history.leave(FaultsUndone(undone=False, problems=("it is still frozen",), at=START))
    role = chance.choice(["bookie", "bookie", "bookie", "broker"])
    where = chance.choice([chance.choice(clusters), *3 * scenario.get("destroyed", [])])
    row = {"fault": "gone", "kind": "destroy", "targets": [f"{role}-eu-1-{where}"]}
    times = sorted(history_time(chance.randint(0, 12) * 100) for _ in FaultState)
    history.faults += [{**row, "state": state, "at": at} for state, at in zip(FaultState, times, strict=True)]
    # It may have had no effect, or may not have been healed.
    del history.faults[chance.choice([1, 2, 4, 4, 4]) :]
    return history


def choose_messages(
    chance: random.Random, clusters: tuple[str, ...], subscriptions: list[dict[str, Any]]
) -> dict[str, str]:
    """The messages that an anomaly is loosened for."""
    choices = {
        "outcome": chance.choice(["acked", "failed", "unknown"]),
        "home": chance.choice(clusters),
        "subscription": chance.choice(subscriptions)["name"],
    }
    return {name: value for name, value in choices.items() if chance.random() < 0.3}


def mess(history: History, chance: random.Random) -> None:
    """A topic of which anything can have gone wrong, in a space so small that things meet."""
    clusters = list(history.topology.clusters)
    producers, messages = chance.randint(1, 2), chance.randint(1, 7)
    home = {f"p{number}": chance.choice(clusters) for number in range(producers)}
    # Partitions are added while the load goes on.
    partitions = chance.choice([[-1], [-1], [0], [0, 1], [0, 1, 2]])
    copies = []
    for seq in range(messages):
        for producer, cluster in home.items():
            partition = chance.choice(partitions[: 1 + seq // 2])
            partition = partition if chance.random() < 0.95 else 1
            key = chance.choice(["a", "b", None])
            for epoch in range(chance.choice([1, 1, 1, 2])):
                outcome = chance.choices(["acked", "failed", "unknown", "not_sent"], [16, 2, 2, 1])[0]
                sent = chance.randint(0, 12) * 100
                row = history.publish(
                    **{"producer": producer, "seq": seq, "key": key, "epoch": epoch, "cluster": cluster},
                    **{"partition": partition if chance.random() < 0.95 else 1, "outcome": outcome, "at": sent},
                    settled_at=history_time(sent + chance.choice([-3, *range(1, 9)]) * 100),
                    **(place(chance, seq) if outcome == "acked" and chance.random() < 0.9 else {}),
                )
                if outcome == "not_sent":
                    row.update(sent_at=None, settled_at=None)
                if outcome == "unknown" and chance.random() < 0.2:
                    # As of a client that was killed.
                    row.update(sent_at=None, settled_at=None)
            for other in history.list_reached(cluster):
                for _ in range(chance.choices([0, 1, 2], [1, 8, 1])[0]):
                    named = position_of(history.publishes[-1]) if other == cluster and chance.random() < 0.8 else None
                    where = {"cluster": other, "partition": partition if chance.random() < 0.95 else 1}
                    copies.append(
                        {**where, "producer": producer, "seq": seq, "key": key, **(named or place(chance, seq))}
                    )
    for _ in range(chance.choice([0, 0, 1])):
        stranger = chance.choice([("p0", 50), (None, None), ("p0", None), ("who", 0)])
        where = {"cluster": chance.choice(clusters), "partition": -1, "key": "a"}
        copies.append({**where, "producer": stranger[0], "seq": stranger[1], **place(chance, 3)})
    for copy in copies:
        row = history.store(**copy)
        if chance.random() < 0.03:
            row["payload_hash"] = 1
        if chance.random() < 0.03:
            row["key"] = "c"
        if chance.random() < 0.05:
            history.stored.append(dict(row))
        if chance.random() < 0.05:
            # It may be delivered, and is no longer stored.
            history.stored.remove(row)
        for each in history.scenario.workload.subscriptions:
            if copy["cluster"] in each.list_clusters(history.topology):
                deliver(history, chance, copy, each.name)
    leave_proofs(history, chance)
    observe_consumers(history, chance)
    order_arrivals(history, chance)
    if chance.random() < 0.2:
        last_for_seconds(history)


def order_arrivals(history: History, chance: random.Random) -> None:
    """Have the topic's deliveries arrive in the order of their times, apart from some, whose clock was set back."""
    rows = [row for row in history.deliveries if row["topic"] == history.topic]
    arrivals = [row["arrival"] for row in rows]
    rows.sort(
        key=lambda row: history_time(chance.randint(0, 12) * 100) if chance.random() < 0.1 else row["received_at"]
    )
    for row, arrival in zip(rows, arrivals, strict=True):
        row["arrival"] = arrival


def last_for_seconds(history: History) -> None:
    """Have the topic's clients take seconds instead of a millisecond. Parts compare acks by the second."""
    for row in [*history.publishes, *history.deliveries]:
        if row["topic"] == history.topic:
            for name in ("scheduled_at", "sent_at", "settled_at", "received_at", "acknowledged_at"):
                if row.get(name) is not None:
                    row[name] = START + (row[name] - START) * SECOND // 400


def deliver(history: History, chance: random.Random, copy: dict[str, Any], subscription: str) -> None:
    """Deliver a copy to a subscription, mostly once."""
    for _ in range(chance.choices([0, 1, 2, 3], [1, 12, 2, 1])[0]):
        received = (copy["offset"] + 1) * 100 + chance.choice([0, 0, 0, 1, 2, 9]) * 100
        delivery = history.deliver(
            **{**copy, "subscription": subscription, "consumer": f"c{chance.randint(0, 1)}"},
            **{"incarnation": chance.randint(0, 1), "at": received, "acked": chance.choice([None, 50, 100, 500])},
        )
        if chance.random() < 0.02:
            delivery["payload_hash"] = 1
        if chance.random() < 0.02:
            delivery["key"] = "c"
        if chance.random() < 0.05:
            delivery.update(place(chance, copy["seq"] or 0))
        if subscription in history.writing:
            for _ in range(chance.choices([0, 1, 2], [2, 12, 1])[0]):
                history.write_output(**copy, subscription=subscription, at=received + chance.randint(0, 50))


def leave_proofs(history: History, chance: random.Random) -> None:
    """Logs that were not read, or not to their ends, and what did not drain, or only up to some position."""
    clusters = list(history.topology.clusters)
    if chance.random() < 0.3:
        parts = [((SEGMENT, start), (SEGMENT, start + chance.randint(1, 4))) for start in chance.sample(range(8), 2)]
        passed = chance.choice([None, (SEGMENT, chance.randint(0, 9)), (SEGMENT + 1, 0), (SEGMENT + 2, 0)])
        logs = sorted(history.partitions[history.topic])
        for partition in chance.sample(logs, chance.randint(1, len(logs))):
            where = {"partition": partition, "passed": passed, "unreadable": chance.choice([(), parts])}
            history.not_read_to_end(chance.choice(clusters), **where)
    for each in history.scenario.workload.subscriptions:
        where = each.list_clusters(history.topology)[-1]
        if chance.random() < 0.1:
            history.not_drained(each.name, where)
        if chance.random() < 0.1:
            history.drained_to((SEGMENT, chance.randint(0, 9)), where, each.name)
    for home in clusters:
        for other in clusters:
            if home != other and chance.random() < 0.1:
                history.not_replicated(home, other)
            if home != other and chance.random() < 0.1:
                history.drained_to((SEGMENT, chance.randint(0, 9)), home, other)


def observe_consumers(history: History, chance: random.Random) -> None:
    """Sample the consumers and owners of the topic's partitions. Now and then, one changes or is not known."""
    several = len(history.topology.clusters) > 1
    for cluster in history.topology.clusters:
        source = make_topic_source(history.topic, cluster if several else None)
        for partition in sorted(history.partitions[history.topic]):
            metrics = [
                SampledMetric.CONSUMERS.join_subscription(each.name, partition)
                for each in history.scenario.workload.subscriptions
            ]
            for metric in (SampledMetric.OWNER.join_partition(partition), *metrics):
                first = history_time(chance.choice([-200, -200, -200, 200]))
                for step in range(chance.choice([1, 4, 4, 4])):
                    at = first + step * chance.choice([400, 700, 700, SECOND])
                    value = chance.choices(["same", "other", None], [30, 1, 1 if metric.startswith("owner") else 0])[0]
                    history.observations.append({"source": source, "metric": metric, "at": at, "value": value})


def history_time(at: int) -> int:
    return START + at


def place(chance: random.Random, seq: int) -> dict[str, Any]:
    return {
        "segment": SEGMENT if chance.random() < 0.95 else SEGMENT + 1,
        "offset": max(0, seq + chance.choice([0, 0, 0, 1, -1, 3])),
        "batch_index": chance.choice([None, None, -1, 0, 1]),
    }


def position_of(row: dict[str, Any]) -> dict[str, Any] | None:
    if row.get("segment") is None:
        return None
    return {name: row[name] for name in ("segment", "offset", "batch_index")}


def judge_messages(spark: SparkSession, run: Run) -> Iterator[tuple[Any, ...]]:
    """(anomaly, legal, cluster, topic, subscription, (producer, seq)) of every anomaly; nothing else is judged."""
    replacement = table_io.Replacement(run)
    judging = MessageJudging(spark, run, Evidence.from_run(run), replacement)
    try:
        judging.work_out_facts()
        judging.write_tables()
        replacement.take_place()
    finally:
        replacement.discard()
    for row in table(run, "anomalies"):
        places = (row["anomaly"], row["legal"], row["cluster"], row["topic"], row["subscription"])
        yield (*places, (row["producer"], row["seq"]))


def digest_columns(run: Run) -> dict[str, str]:
    """A digest of each column's values, in the order of messages and places."""
    digests = {}
    for name in ("messages", "anomalies"):
        rows = pq.read_table(run.table(name))
        order = ("topic", "producer", "seq", "cluster", "subscription", "anomaly", *POSITION, "detail")
        rows = rows.sort_by([(each, "ascending") for each in order if each in rows.schema.names])
        for column in rows.schema:
            values = rows[column.name].cast(pa.int64()) if pa.types.is_timestamp(column.type) else rows[column.name]
            digest = hashlib.sha256(repr(values.to_pylist()).encode()).hexdigest()
            digests[f"{name}.{column.name}"] = digest[:12]
    return digests


def compare_digests(batch: int, digests: dict[str, str]) -> None:
    """Fail if a column of a batch is not as expected, or write its digest down."""
    expected = json.loads(DIGESTS.read_text(encoding="utf-8")) if DIGESTS.exists() else {}
    if os.environ.get("BROKERPROOF_WRITE_EXPECTED_ROWS"):
        text = json.dumps({**expected, str(batch): digests}, indent=1)
        DIGESTS.write_text(f"{text}\n", encoding="utf-8")
    elif batch * BATCH < USUAL_HISTORIES:
        assert digests == expected[str(batch)]


@pytest.fixture(scope="module")
def found() -> set[tuple[str, bool]]:
    """Each anomaly that was found, and whether it was legal."""
    return set()


@pytest.fixture(scope="module")
def kinds() -> set[tuple[str, str | None, bool]]:
    """(anomaly, outcome of the message, whether it was found at a subscription) of all that was found."""
    return set()


@pytest.mark.parametrize("batch", BATCHES)
def test_spark_and_the_reference_agree(
    spark: SparkSession,
    tmp_path: Path,
    found: set[tuple[str, bool]],
    kinds: set[tuple[str, str | None, bool]],
    batch: int,
) -> None:
    history = make_history(random.Random(f"scenario {batch}"))
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        history.topic = f"persistent://{NAMESPACE if seed % 2 else REPLICATED}/seed-{seed}"
        mess(history, random.Random(seed))

    run = history.write(tmp_path / "run")
    judged = set(judge_messages(spark, run))

    # A message without an identity has none to compare by; its place and anomaly have to do.
    reference = Reference(history, history.facts["clock_error_us"])
    expected = {(*each[:5], each[5][-2:]) for each in reference.judge()}
    assert judged == expected
    compare_digests(batch, digest_columns(run))
    found |= {each[:2] for each in judged}
    kinds |= reference.kinds


@needs_many_histories
def test_the_histories_hold_every_anomaly_legal_and_illegal(found: set[tuple[str, bool]]) -> None:
    assert {anomaly for anomaly, _ in found} == set(Anomaly)
    # An unproven message is never illegal; the others are both, because scenarios tighten and loosen them.
    assert {anomaly for anomaly, legal in found if legal} == set(Anomaly)
    assert {anomaly for anomaly, legal in found if not legal} == set(Anomaly) - {Anomaly.UNPROVEN}


# `unproven` cannot be loosened.
@needs_many_histories
@pytest.mark.parametrize("anomaly", [each for each in Anomaly if each is not Anomaly.UNPROVEN])
def test_an_anomaly_is_found_with_the_outcomes_and_at_the_places_that_its_facts_name(
    kinds: set[tuple[str, str | None, bool]], anomaly: Anomaly
) -> None:
    """`loosen` refuses all others, because such an entry would match no message."""
    outcomes = {outcome for name, outcome, _ in kinds if name == anomaly}
    assert outcomes & {"acked", "failed", "unknown"} == set(anomaly.facts.outcomes)
    assert any(name == anomaly and at_subscription for name, _, at_subscription in kinds) == (
        anomaly.facts.at_subscriptions
    )
