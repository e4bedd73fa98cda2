"""Random histories, judged by Spark and by the plain reference: both have to find the same rows."""

from __future__ import annotations

import random

import pytest

from ..history import LEDGER, NAMESPACE, REPLICATED, History
from ..judged import Judged
from ..reference import Reference

SEEDS = range(240)
CLOCK_ERROR_US = 150


def mess(history: History, chance: random.Random) -> None:
    """A topic of which anything can have gone wrong, in a space so small that things meet."""
    clusters = list(history.topology.clusters)
    producers, messages = chance.randint(1, 2), chance.randint(1, 7)
    home = {f"p{number}": chance.choice(clusters) for number in range(producers)}
    copies = []
    for seq in range(messages):
        for producer, cluster in home.items():
            partition = -1 if chance.random() < 0.9 else 0
            key = chance.choice(["a", "b", None])
            for epoch in range(chance.choice([1, 1, 1, 2])):
                outcome = chance.choices(["acked", "failed", "unknown", "not_sent"], [16, 2, 2, 1])[0]
                sent = chance.randint(0, 12) * 100
                row = history.publish(
                    **{"producer": producer, "seq": seq, "key": key, "epoch": epoch, "cluster": cluster},
                    **{"partition": partition, "outcome": outcome, "at": sent},
                    settled_at=history_time(sent + chance.choice([-3, *range(1, 9)]) * 100),
                    **(place(chance, seq) if outcome == "acked" and chance.random() < 0.9 else {}),
                )
                if outcome == "not_sent":
                    row.update(sent_at=None, settled_at=None, partition=None)
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
        for each in history.scenario.workload.subscriptions:
            if (each.cluster or "main") != copy["cluster"]:
                continue
            for _ in range(chance.choices([0, 1, 2, 3], [1, 12, 2, 1])[0]):
                received = copy_time(copy) + chance.choice([0, 0, 0, 1, 2, 9]) * 100
                delivery = history.deliver(
                    **{**copy, "subscription": each.name, "consumer": f"c{chance.randint(0, 1)}"},
                    **{
                        "incarnation": chance.randint(0, 1),
                        "at": received,
                        "acked": chance.choice([None, 50, 100, 500]),
                    },
                )
                if chance.random() < 0.02:
                    delivery["payload_hash"] = 1
                if chance.random() < 0.02:
                    delivery["key"] = "c"
                if chance.random() < 0.05:
                    delivery.update(place(chance, copy["seq"] or 0))
    if chance.random() < 0.3:
        parts = [((LEDGER, start), (LEDGER, start + chance.randint(1, 4))) for start in chance.sample(range(8), 2)]
        passed = chance.choice([None, (LEDGER, chance.randint(0, 9)), (LEDGER + 1, 0), (LEDGER + 2, 0)])
        history.not_read_to_end(chance.choice(clusters), passed=passed, unreadable=chance.choice([(), parts]))
    if chance.random() < 0.2:
        history.not_drained("audit")
    if chance.random() < 0.2:
        history.not_replicated("main", "other")
    for drain in (("main", "audit"), ("other", "far"), ("main", "other"), ("other", "main")):
        if chance.random() < 0.2:
            history.drained_to((LEDGER, chance.randint(0, 9)), *drain)


def history_time(at: int) -> int:
    from ..history import START

    return START + at


def copy_time(copy: dict) -> int:
    return (copy["entry_id"] + 1) * 100


def place(chance: random.Random, seq: int) -> dict:
    return {
        "ledger_id": LEDGER if chance.random() < 0.95 else LEDGER + 1,
        "entry_id": max(0, seq + chance.choice([0, 0, 0, 1, -1, 3])),
        "batch_index": chance.choice([None, None, -1, 0, 1]),
    }


def position_of(row: dict) -> dict | None:
    if row.get("ledger_id") is None:
        return None
    return {name: row[name] for name in ("ledger_id", "entry_id", "batch_index")}


@pytest.fixture(scope="module")
def both(spark, tmp_path_factory):
    history = History(
        clusters=("main", "other"),
        subscriptions=[{"name": "audit"}, {"name": "pool", "type": "shared"}, {"name": "far", "cluster": "other"}],
    )
    history.facts["clock_error_us"] = CLOCK_ERROR_US
    for seed in SEEDS:
        history.topic = f"persistent://{NAMESPACE if seed % 2 else REPLICATED}/seed-{seed}"
        mess(history, random.Random(seed))
    judged = Judged(spark, tmp_path_factory.mktemp("differential") / "run", history)
    expected = Reference(history, CLOCK_ERROR_US).judge()
    found = {
        (row["anomaly"], row["cluster"], row["topic"], row["subscription"], (row["producer"], row["seq"]))
        for row in judged.table("anomalies")
    }
    # A message without an identity has none to compare by; its place and anomaly have to do.
    plain = {(*each[:4], each[4][-2:]) for each in expected}
    return found, plain


@pytest.mark.parametrize("seed", SEEDS)
def test_spark_and_the_reference_agree(both, seed):
    found, expected = ({each for each in side if each[2].endswith(f"/seed-{seed}")} for side in both)

    assert found == expected


def test_the_histories_hold_every_anomaly(both):
    from brokerproof.experiment.guarantees import Anomaly

    assert {each[0] for each in both[1]} == set(Anomaly)
