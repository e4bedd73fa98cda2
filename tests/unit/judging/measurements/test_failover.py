"""A subscription that moved from one cluster to another after a fault, with the answers known.

Everything is published on `main` and replicated to `other`. What became of each message:

0 delivered on main; 1 on both; 2 on other; 3 on neither, though other stored it; 4 not replicated and on neither;
5 not replicated, and delivered on main before.
"""

from __future__ import annotations

import pytest

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
