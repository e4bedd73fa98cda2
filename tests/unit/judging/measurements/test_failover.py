"""A subscription that moved from one cluster to another after a fault, with the answers known.

Everything is published on `main` and replicated to `other`. What became of each message:

0 delivered on main; 1 on both; 2 on other; 3 on neither, though other stored it; 4 not replicated and on neither;
5 not replicated, and delivered on main before.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from brokerproof.run.tables import SCHEMAS
from brokerproof_judging.database import open_database
from brokerproof_judging.measurements.failover import measure_failover

from ..history import REPLICATED, SEGMENT, History
from ..judged import Judged

TOPIC = f"persistent://{REPLICATED}/orders"
DELIVERED = {"main": {0, 1, 5}, "other": {1, 2}}
NOT_REPLICATED = {4, 5}
AFTER = 100  # positions of the other cluster


def planted() -> History:
    history = History(
        clusters=("main", "other"),
        workload={"namespace": REPLICATED},
        subscriptions=[
            {"name": "stays"},
            {"name": "mover", "replicated": True, "moves": {"to": "other", "after": "gone"}},
        ],
        faults=[{"name": "gone", "kind": "kill", "targets": {"cluster": "main"}}],
    )
    history.topic = TOPIC
    for seq in range(6):
        name = {"producer": "p0", "seq": seq, "key": f"k{seq}"}
        history.publish(**name, at=seq * 1000, segment=SEGMENT, offset=seq)
        history.store(**name, offset=seq)
        history.deliver(**name, offset=seq, subscription="stays", consumer="stayer", at=seq * 1000 + 500)
        if seq not in NOT_REPLICATED:
            history.store(**name, cluster="other", offset=AFTER + seq, replicated_from="main")
        for incarnation, (cluster, delivered) in enumerate(DELIVERED.items()):
            if seq in delivered:
                place = {"cluster": cluster, "offset": incarnation * AFTER + seq, "incarnation": incarnation}
                at = (incarnation * 100 + seq) * 1000 + 500
                history.deliver(**name, **place, subscription="mover", at=at)
    return history


@pytest.fixture(scope="module")
def judged(spark, tmp_path_factory):
    return Judged(spark, tmp_path_factory.mktemp("moved") / "run", planted())


def test_what_it_got_twice_and_never_is_counted(judged):
    assert judged.measured("repeated_by_move", "mover")["value"] == 1
    assert judged.measured("missed_by_move", "mover")["value"] == 2


def test_only_what_it_had_not_got_before_is_undelivered_where_it_went(judged):
    assert judged.anomalies(TOPIC) == {
        ("undelivered", False, "other", "mover", "p0", 3),
        ("not_replicated", False, "other", None, "p0", 4),
        ("not_replicated", False, "other", None, "p0", 5),
    }


def test_that_it_did_not_drain_on_the_cluster_that_it_left_says_nothing(judged):
    assert judged.judgement["problems"] == []


@pytest.mark.parametrize("lacking", ["drain", "replication"])
def test_what_it_missed_is_not_known_without_proof(spark, tmp_path, lacking):
    history = planted()
    if lacking == "drain":
        history.not_drained("mover", "other")
    else:
        history.not_replicated()
    judged = Judged(spark, tmp_path / "run", history)
    assert judged.measured("missed_by_move", "mover")["value"] is None
    assert judged.measured("repeated_by_move", "mover")["value"] == 1
    assert judged.judgement["verdict"] != "passed"


LOG, OF_ANOTHER = None, "stays"


def count_moved(tmp_path: Path, *places: tuple[str | None, str, int, str], outcome: str | None = "acked") -> list[Any]:
    """Return what `mover` got twice and missed, of one message.

    A place of the message is a subscription or a log, its cluster, the number of deliveries, and an anomaly or nothing.
    """
    rows = [
        {
            **{"topic": TOPIC, "producer": "p0", "seq": 0, "outcome": outcome, "cluster": cluster},
            **{"subscription": subscription, "deliveries": deliveries, "anomalies": [anomaly] if anomaly else []},
        }
        for subscription, cluster, deliveries, anomaly in places
    ]
    run = planted().write(tmp_path / "run")
    with open_database() as connection:
        connection.register("messages", pa.Table.from_pylist(rows, schema=SCHEMAS["messages"]))
        return [(each.estimate.value, each.estimate.evidence) for each in measure_failover(run, connection)]


BEFORE, AFTER_IT = (
    "delivered on main and other, of {} that were delivered before it moved",
    "delivered on neither of main and other",
)


@pytest.mark.parametrize(
    ("places", "outcome", "had", "repeated", "missed"),
    [
        ([("mover", "main", 1, ""), ("mover", "other", 2, "")], "acked", 1, 1, 0),
        ([("mover", "main", 1, ""), ("mover", "other", 0, "")], "acked", 1, 0, 0),
        ([("mover", "main", 0, ""), ("mover", "other", 1, "")], "acked", 0, 0, 0),
        ([("mover", "main", 0, ""), ("mover", "other", 0, "")], "acked", 0, 0, 1),
        ([("mover", "main", 0, ""), ("mover", "other", 0, "")], "unknown", 0, 0, 0),
        # It was never published.
        ([("mover", "main", 0, ""), ("mover", "other", 0, "")], None, 0, 0, 0),
        # It did not have to get there, or was seen there only.
        ([("mover", "main", 0, "")], "acked", 0, 0, 1),
        ([("mover", "main", 1, "")], "acked", 1, 0, 0),
        ([("mover", "other", 0, "")], "acked", 0, 0, 1),
        ([("mover", "other", 1, "")], "acked", 0, 0, 0),
        # Another subscription is another thing.
        ([(OF_ANOTHER, "main", 1, ""), ("mover", "main", 0, ""), ("mover", "other", 1, "")], "acked", 0, 0, 0),
        ([(OF_ANOTHER, "other", 1, ""), ("mover", "main", 1, ""), ("mover", "other", 0, "")], "acked", 1, 0, 0),
    ],
)
def test_a_moved_subscription_repeats_what_it_got_in_both_clusters_and_misses_what_it_got_in_none(
    tmp_path: Path, places: list[Any], outcome: str | None, had: int, repeated: float, missed: float
) -> None:
    found = count_moved(tmp_path, *places, outcome=outcome)
    assert found == [(repeated, BEFORE.format(had)), (missed, AFTER_IT)]


@pytest.mark.parametrize(
    ("unproven", "got", "is_known"),
    [
        (("mover", "other"), (0, 0), False),
        ((LOG, "other"), (0, 0), False),
        # It was delivered, so nothing is missing.
        (("mover", "other"), (1, 0), True),
        ((LOG, "other"), (0, 1), True),
        # Only where it went to, something can be missing.
        ((LOG, "main"), (0, 0), True),
        (("mover", "main"), (0, 0), True),
        ((OF_ANOTHER, "other"), (0, 0), True),
    ],
)
def test_a_message_without_proof_where_the_subscription_went_to_may_be_missed(
    tmp_path: Path, unproven: tuple[str | None, str], got: tuple[int, int], is_known: bool
) -> None:
    deliveries = {("mover", "main"): got[0], ("mover", "other"): got[1], (LOG, "main"): 0, (LOG, "other"): 0}
    deliveries[OF_ANOTHER, "other"] = 0
    places = [(*place, count, "unproven" if place == unproven else "") for place, count in deliveries.items()]
    _, missed = count_moved(tmp_path, *places)
    assert missed == ((0.0 if sum(got) else 1.0, AFTER_IT) if is_known else (None, "1 of them are unproven"))
