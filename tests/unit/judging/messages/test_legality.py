"""Which anomalies are illegal where, as judging applies the table in guarantees.py."""

from __future__ import annotations

import pyarrow as pa
import pytest
from brokerproof.experiment.guarantees import Anomaly, Guarantee, SubscriptionType, is_illegal
from brokerproof_judging.database import make_small_table, open_database, register_tables, select_rows
from brokerproof_judging.messages.legality import list_destroyed, list_forbidden, list_loosened
from brokerproof_judging.messages.message_columns import IN_LOG
from brokerproof_judging.messages.message_facts import FINDINGS, PLACES
from brokerproof_judging.messages.sql_files import read_query

from ..history import START, History

PLACES_OF_SCENARIO = {
    ("main", IN_LOG): None,
    ("main", "audit"): SubscriptionType.FAILOVER,
    ("main", "pool"): SubscriptionType.SHARED,
    ("other", "audit"): SubscriptionType.SHARED,
    # Not in the scenario: judged as strictly as the log.
    ("other", "curious"): None,
}


SENT_AT = 1_000
DESTROYS = {"name": "gone", "kind": "destroy", "targets": {"cluster": "main"}, "permanent": True}


def illegal_at(history, places, destroyed=(), sent_at=SENT_AT):
    """The anomalies that are illegal at each (cluster, subscription) of `places`, given with the home of the message.

    Every anomaly is found at every place.
    """
    messages = [
        {
            "who": "p0",
            "number": 0,
            "topic": "t",
            "cluster": cluster,
            "subscription": subscription,
            "home": home,
            "sent_at": sent_at,
            "outcome": "acked",
        }
        for cluster, subscription, home in places
    ]
    findings = [
        {**message, "anomaly": str(anomaly), "cause": "planted", "detail": "planted"}
        for message in messages
        for anomaly in Anomaly
    ]
    with open_database() as connection:
        register_tables(
            connection,
            {
                "places": pa.Table.from_pylist(messages, schema=PLACES),
                "fact_findings": pa.Table.from_pylist(findings, schema=FINDINGS),
                "rows": FINDINGS.empty_table(),
                "forbidden": list_forbidden(history.scenario, history.topology),
                "loosened": list_loosened(history.scenario),
                "destroyed_clusters": make_small_table("name string, effective_at int64", destroyed),
            },
        )
        connection.execute(read_query("findings"))
        rows = select_rows(connection, "SELECT cluster, subscription, anomaly, legal FROM findings")
    illegal: dict[tuple[str, str], set[str]] = {(cluster, subscription): set() for cluster, subscription, _ in places}
    for row in rows:
        if not row["legal"]:
            illegal[row["cluster"], row["subscription"]].add(row["anomaly"])
    assert len(rows) == len(findings)
    return illegal


# The guarantees under which an anomaly is legal; the others are illegal under all of them.
LEGAL_UNDER = {
    "lost": {"at_most_once"},
    "not_replicated": {"at_most_once"},
    "undelivered": {"at_most_once"},
    "unreadable": {"at_most_once"},
    "unproven": {"at_most_once", "at_least_once", "effectively_once"},
    "stored_twice": {"at_least_once"},
    "delivered_twice": {"at_most_once", "at_least_once", "effectively_once"},
    "redelivered_after_ack": {"at_most_once", "at_least_once", "effectively_once"},
    "delivered_from_two_positions": {"at_most_once", "at_least_once"},
}


@pytest.mark.parametrize("anomaly", Anomaly)
def test_the_guarantee_decides_what_is_legal(anomaly):
    legal = {str(guarantee) for guarantee in Guarantee if not is_illegal(anomaly, guarantee)}

    assert legal == LEGAL_UNDER.get(anomaly, set())


@pytest.mark.parametrize("guarantee", Guarantee)
def test_only_order_of_delivery_depends_on_the_type_of_subscription(guarantee):
    lax = {each for each in Anomaly if not is_illegal(each, guarantee, SubscriptionType.SHARED)}

    assert lax - {each for each in Anomaly if not is_illegal(each, guarantee)} == {Anomaly.DELIVERED_OUT_OF_ORDER}


@pytest.mark.parametrize("guarantee", Guarantee)
def test_it_is_what_the_guarantee_says_of_every_place(guarantee):
    tightened, loosened = [Anomaly.DELIVERED_TWICE], [Anomaly.PHANTOM, Anomaly.POSITION_CONFLICT]
    history = History(
        clusters=("main", "other"),
        guarantee=guarantee,
        tighten=tightened,
        loosen=loosened,
        bounds={"missing_messages": {"max": 0}},
        subscriptions=[
            {"name": "audit"},
            {"name": "pool", "type": "shared"},
            {"name": "audit", "type": "shared", "cluster": "other"},
        ],
    )

    assert illegal_at(history, [(*place, place[0]) for place in PLACES_OF_SCENARIO]) == {
        place: {
            anomaly
            for anomaly in Anomaly
            if is_illegal(anomaly, guarantee, type_, tightened=tightened) and anomaly not in loosened
        }
        for place, type_ in PLACES_OF_SCENARIO.items()
    }


@pytest.mark.parametrize("messages", [{"outcome": "unknown"}, {"home": "other"}, {"subscription": "pool"}])
def test_what_is_legal_of_some_messages_stays_illegal_of_the_others(messages):
    history = History(clusters=("main", "other"), loosen={"undelivered": messages})
    assert Anomaly.UNDELIVERED in illegal_at(history, [("main", "audit", "main")])["main", "audit"]


@pytest.mark.parametrize(
    "messages",
    [{"outcome": "acked"}, {"home": "main"}, {"subscription": "audit"}, {"outcome": "acked", "home": "main"}],
)
def test_what_is_legal_of_some_messages_is_legal_of_these(messages):
    history = History(clusters=("main", "other"), loosen={"undelivered": messages})
    assert Anomaly.UNDELIVERED not in illegal_at(history, [("main", "audit", "main")])["main", "audit"]
    assert Anomaly.LOST in illegal_at(history, [("main", "audit", "main")])["main", "audit"]


def test_what_a_destroyed_cluster_lost_or_had_not_sent_on_is_legal():
    history = History(clusters=("main", "other"))
    missing = {Anomaly.LOST, Anomaly.NOT_REPLICATED}
    # The client sends a message again that had no ack, so the new log holds it at another position.
    in_place = {Anomaly.UNREADABLE, Anomaly.DELIVERED_FROM_ELSEWHERE}
    logs = [("main", IN_LOG, "main"), ("other", IN_LOG, "other")]
    everywhere = illegal_at(history, logs)
    with_main_gone = illegal_at(history, logs, destroyed=[("main", SENT_AT + 1)])
    sent_on = illegal_at(history, [("other", IN_LOG, "main")], destroyed=[("main", SENT_AT + 1)])

    assert all(missing | in_place <= illegal for illegal in everywhere.values())
    # Nothing else is excused.
    assert everywhere["main", IN_LOG] - with_main_gone["main", IN_LOG] == missing | in_place
    assert missing | in_place <= with_main_gone["other", IN_LOG]
    assert missing.isdisjoint(sent_on["other", IN_LOG])
    assert in_place <= sent_on["other", IN_LOG]


def test_a_message_whose_time_of_sending_is_not_known_may_have_been_sent_before_its_cluster_was_destroyed():
    # A client that was killed has reserved a message and recorded nothing else about it.
    history, log = History(clusters=("main", "other")), ("main", IN_LOG)
    assert Anomaly.LOST in illegal_at(history, [(*log, "main")], sent_at=None)[log]
    assert Anomaly.LOST not in illegal_at(history, [(*log, "main")], [("main", SENT_AT)], sent_at=None)[log]


def test_a_message_that_was_sent_when_its_cluster_was_destroyed_or_later_is_excused_nowhere():
    history = History(clusters=("main", "other"))
    logs = [("main", IN_LOG, "main"), ("other", IN_LOG, "main")]

    illegal = illegal_at(history, logs, destroyed=[("main", SENT_AT)])

    assert all({Anomaly.LOST, Anomaly.NOT_REPLICATED} <= found for found in illegal.values())


def list_destroyed_of(directory, *states, **changes):
    history = History(
        clusters=("main", "other"), faults=[DESTROYS], bounds={"rpo_messages": {"max": 0}}, destroyed=["main"]
    )
    row = {"fault": "gone", "kind": "destroy", "targets": ["bookie-eu-1-main"], **changes}
    history.faults = [{**row, "state": state, "at": START + at} for at, state in enumerate(states)]
    return list_destroyed(history.write(directory / "run"))


def test_a_cluster_is_destroyed_when_its_fault_took_effect(tmp_path):
    assert list_destroyed_of(tmp_path, "injecting", "effective", "healing") == [("main", START + 1)]


@pytest.mark.parametrize("order", [("gone", "again"), ("again", "gone")])
def test_a_cluster_that_two_faults_destroy_is_destroyed_when_the_last_one_took_effect(tmp_path, order):
    history = History(
        clusters=("main", "other"),
        faults=[DESTROYS, {**DESTROYS, "name": "again"}],
        bounds={"rpo_messages": {"max": 0}},
        destroyed=["main"],
    )
    row = {"kind": "destroy", "targets": ["bookie-eu-1-main"], "state": "effective"}
    history.faults = [{**row, "fault": fault, "at": START + at} for at, fault in enumerate(order, start=1)]
    assert list_destroyed(history.write(tmp_path / "run")) == [("main", START + 2)]


@pytest.mark.parametrize(
    ("states", "changes"),
    [
        (["injecting"], {}),
        (["injecting", "effective"], {"targets": ["bookie-eu-1-other"]}),
        (["injecting", "effective"], {"fault": "killed", "kind": "kill"}),
    ],
)
def test_a_fault_without_effect_of_another_cluster_or_of_another_kind_destroys_no_cluster(tmp_path, states, changes):
    assert list_destroyed_of(tmp_path, *states, **changes) == []
