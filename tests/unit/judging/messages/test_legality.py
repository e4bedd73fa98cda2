"""Which anomalies are illegal where, as judging applies the table in guarantees.py."""

from __future__ import annotations

import pyarrow as pa
import pytest
from brokerproof.experiment.guarantees import Anomaly, Guarantee, SubscriptionType, is_illegal
from brokerproof_judging.database import make_small_table, open_database, register_tables, select_rows
from brokerproof_judging.messages.legality import list_destroyed, list_forbidden, list_loosened
from brokerproof_judging.messages.message_columns import IN_LOG, read_query
from brokerproof_judging.messages.message_facts import FINDINGS, PLACES

from ..history import REPLICATED, SECOND, START, History
from ..judged import Judged

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


def illegal_at(history, places, destroyed=(), sent_at=SENT_AT, delivered_at=(), **facts):
    """The anomalies that are illegal at each (cluster, subscription) of `places`, given with the home of the message.

    Every anomaly is found at every place. `delivered_at` has the places of one delivery each. `facts` has other columns
    of all places.
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
            **dict.fromkeys(("deliveries", "copies"), int((cluster, subscription) in delivered_at)),
            **facts,
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
                "destroyed_clusters": make_small_table("name string, effective_at int64, healed_at int64", destroyed),
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
    "output_missing": {"at_most_once"},
    "output_repeated": {"at_least_once"},
}


@pytest.mark.parametrize("anomaly", Anomaly)
def test_the_guarantee_decides_what_is_legal(anomaly):
    legal = {str(guarantee) for guarantee in Guarantee if not is_illegal(anomaly, guarantee)}

    assert legal == LEGAL_UNDER.get(anomaly, set())


@pytest.mark.parametrize("guarantee", Guarantee)
@pytest.mark.parametrize(
    ("kind", "legal"),
    [
        (SubscriptionType.EXCLUSIVE, {Anomaly.KEY_ON_TWO_CONSUMERS}),
        (SubscriptionType.FAILOVER, {Anomaly.KEY_ON_TWO_CONSUMERS}),
        (SubscriptionType.KEY_SHARED, {Anomaly.TWO_ACTIVE_CONSUMERS}),
        (
            SubscriptionType.SHARED,
            {Anomaly.DELIVERED_OUT_OF_ORDER, Anomaly.TWO_ACTIVE_CONSUMERS, Anomaly.KEY_ON_TWO_CONSUMERS},
        ),
    ],
)
def test_only_order_and_turns_depend_on_the_type_of_subscription(guarantee, kind, legal):
    lax = {each for each in Anomaly if not is_illegal(each, guarantee, kind)}

    assert lax - {each for each in Anomaly if not is_illegal(each, guarantee)} == legal


@pytest.mark.parametrize("guarantee", Guarantee)
def test_what_a_scenario_tightens_is_illegal_under_every_guarantee_and_at_every_subscription(guarantee):
    for anomaly in (Anomaly.DELIVERED_TWICE, Anomaly.DELIVERED_OUT_OF_ORDER):
        assert is_illegal(anomaly, guarantee, SubscriptionType.SHARED, tightened=[anomaly])
        assert not is_illegal(anomaly, guarantee, SubscriptionType.SHARED, tightened=[Anomaly.LOST])


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
    with_main_gone = illegal_at(history, logs, destroyed=[("main", SENT_AT + 1, None)])
    sent_on = illegal_at(history, [("other", IN_LOG, "main")], destroyed=[("main", SENT_AT + 1, None)])

    assert missing | in_place <= set.intersection(*everywhere.values())
    # Nothing else is excused.
    assert everywhere["main", IN_LOG] - with_main_gone["main", IN_LOG] == missing | in_place
    assert missing | in_place <= with_main_gone["other", IN_LOG]
    assert Anomaly.NOT_REPLICATED not in sent_on["other", IN_LOG]
    assert in_place <= sent_on["other", IN_LOG]


def test_a_message_that_a_cluster_delivered_had_got_there_before_its_home_was_destroyed():
    history = History(clusters=("main", "other"))
    places = [("main", "audit", "main"), ("other", IN_LOG, "main"), ("other", "audit", "main")]
    destroyed = [("main", SENT_AT + 1, None)]

    elsewhere = illegal_at(history, places, destroyed, delivered_at=[("main", "audit")])
    there = illegal_at(history, places, destroyed, delivered_at=[("other", "audit")])
    there_and_destroyed = illegal_at(
        history, places, [*destroyed, ("other", SENT_AT + 1, None)], delivered_at=[("other", "audit")]
    )

    assert Anomaly.NOT_REPLICATED not in elsewhere["other", IN_LOG]
    assert there["other", IN_LOG] - elsewhere["other", IN_LOG] == {Anomaly.NOT_REPLICATED}
    assert Anomaly.NOT_REPLICATED not in there_and_destroyed["other", IN_LOG]


def test_a_message_whose_time_of_sending_is_not_known_may_have_been_sent_before_its_cluster_was_destroyed():
    # A client that was killed has reserved a message and recorded nothing else about it.
    history, log = History(clusters=("main", "other")), ("main", IN_LOG)
    assert Anomaly.LOST in illegal_at(history, [(*log, "main")], sent_at=None)[log]
    assert Anomaly.LOST not in illegal_at(history, [(*log, "main")], [("main", SENT_AT, None)], sent_at=None)[log]


def test_a_message_that_was_sent_when_its_cluster_was_destroyed_or_later_is_excused_nowhere():
    history = History(clusters=("main", "other"))
    logs = [("main", IN_LOG, "main"), ("other", IN_LOG, "main")]

    illegal = illegal_at(history, logs, destroyed=[("main", SENT_AT, None)])

    assert set.intersection(*illegal.values()) >= {Anomaly.LOST, Anomaly.NOT_REPLICATED}


HEALED_AT = SENT_AT + 10


@pytest.mark.parametrize(
    ("anomaly", "place", "excused", "not_excused"),
    [
        (Anomaly.LOST, ("main", IN_LOG), {"last_acked_at": HEALED_AT}, {"last_acked_at": HEALED_AT + 1}),
        (Anomaly.NOT_REPLICATED, ("other", IN_LOG), {"last_acked_at": HEALED_AT}, {"last_acked_at": HEALED_AT + 1}),
        (
            Anomaly.DELIVERED_FROM_ELSEWHERE,
            ("main", "audit"),
            {"elsewhere_until": HEALED_AT},
            {"elsewhere_until": HEALED_AT + 1},
        ),
        (
            Anomaly.DELIVERED_FROM_TWO_POSITIONS,
            ("main", "audit"),
            {"copies": 2, "elsewhere_from": HEALED_AT, "last_position_at": HEALED_AT + 1},
            {"copies": 2, "elsewhere_from": HEALED_AT, "last_position_at": HEALED_AT},
        ),
        (
            Anomaly.DELIVERED_FROM_TWO_POSITIONS,
            ("main", "audit"),
            {"copies": 2, "elsewhere_from": HEALED_AT, "last_position_at": HEALED_AT + 1},
            {"copies": 2, "elsewhere_from": HEALED_AT + 1, "last_position_at": HEALED_AT + 1},
        ),
    ],
)
def test_what_was_acked_or_delivered_when_the_healing_began_is_of_the_old_log(anomaly, place, excused, not_excused):
    history, destroyed = History(clusters=("main", "other"), guarantee="effectively_once"), [("main", 2_000, HEALED_AT)]

    assert anomaly not in illegal_at(history, [(*place, "main")], destroyed, **excused)[place]
    assert anomaly in illegal_at(history, [(*place, "main")], destroyed, **not_excused)[place]


def test_a_cluster_that_was_not_destroyed_delivers_each_message_from_one_position():
    history, destroyed = History(clusters=("main", "other"), guarantee="effectively_once"), [("main", 2_000, HEALED_AT)]
    facts = {"copies": 2, "elsewhere_from": HEALED_AT, "last_position_at": HEALED_AT + 1}

    illegal = illegal_at(history, [("main", "audit", "main"), ("other", "audit", "main")], destroyed, **facts)

    assert Anomaly.DELIVERED_FROM_TWO_POSITIONS not in illegal["main", "audit"]
    assert Anomaly.DELIVERED_FROM_TWO_POSITIONS in illegal["other", "audit"]


def test_rules_have_the_types_of_their_columns_without_a_subscription():
    history = History(subscriptions=[])
    forbidden = list_forbidden(history.scenario, history.topology)
    assert forbidden.schema.types == [pa.string(), pa.string(), pa.list_(pa.string())]


def list_destroyed_of(directory, *states, clock_error_us=0, **changes):
    history = History(
        clusters=("main", "other"), faults=[DESTROYS], bounds={"rpo_messages": {"max": 0}}, destroyed=["main"]
    )
    history.facts["clock_error_us"] = clock_error_us
    row = {"fault": "gone", "kind": "destroy", "targets": ["bookie-eu-1-main"], **changes}
    history.faults = [{**row, "state": state, "at": START + at} for at, state in enumerate(states)]
    return list_destroyed(history.write(directory / "run"))


def test_a_cluster_is_destroyed_when_its_fault_took_effect(tmp_path):
    assert list_destroyed_of(tmp_path, "injecting", "effective", "healing") == [("main", START + 1, START + 2)]


def test_a_cluster_is_destroyed_by_the_latest_clock(tmp_path):
    destroyed = list_destroyed_of(tmp_path, "injecting", "effective", "healing", clock_error_us=20_000)
    assert destroyed == [("main", START + 1 + 20_000, START + 2 + 20_000)]


def test_a_cluster_that_was_not_healed_stays_destroyed(tmp_path):
    assert list_destroyed_of(tmp_path, "injecting", "effective") == [("main", START + 1, None)]


def list_destroyed_by_two(directory, *rows):
    """What is destroyed by two faults, of which each row is a fault, a state and a time."""
    history = History(
        clusters=("main", "other"),
        faults=[DESTROYS, {**DESTROYS, "name": "again"}, {**DESTROYS, "name": "brokers"}],
        bounds={"rpo_messages": {"max": 0}},
        destroyed=["main"],
    )
    row = {"kind": "destroy", "targets": ["bookie-eu-1-main"]}
    history.faults = [{**row, "fault": fault, "state": state, "at": START + at} for fault, state, at in rows]
    # Brokers store no messages.
    brokers = {"fault": "brokers", "state": "effective", "targets": ["broker-eu-1-main"], "at": START + 3}
    history.faults.append({**row, **brokers})
    return list_destroyed(history.write(directory / "run"))


@pytest.mark.parametrize(("first", "last"), [("gone", "again"), ("again", "gone")])
def test_a_cluster_that_two_faults_destroy_is_destroyed_when_the_last_one_took_effect(tmp_path, first, last):
    rows = [(first, "effective", 1), (last, "effective", 2), (last, "healing", 4), (first, "healing", 9)]
    assert list_destroyed_by_two(tmp_path, *rows) == [("main", START + 2, START + 4)]


def test_two_faults_destroy_a_cluster_at_one_time(tmp_path):
    rows = [("gone", "effective", 1), ("again", "effective", 1), ("again", "healing", 4)]
    ((_, effective_at, _),) = list_destroyed_by_two(tmp_path, *rows)
    assert effective_at == START + 1


@pytest.mark.parametrize(
    ("states", "changes"),
    [
        (["injecting"], {}),
        (["injecting", "effective"], {"targets": ["bookie-eu-1-other"]}),
        (["injecting", "effective"], {"targets": ["broker-eu-1-main", "metadata-main"]}),
        (["injecting", "effective"], {"fault": "killed", "kind": "kill"}),
    ],
)
def test_a_fault_without_effect_of_another_cluster_without_disks_or_of_another_kind_destroys_no_cluster(
    tmp_path, states, changes
):
    assert list_destroyed_of(tmp_path, *states, **changes) == []


# `main` is destroyed at 20 s, and its healing begins at 30 s. By p0's seq:
OLD, IN_FLIGHT, NEW = range(3)
EFFECT, HEALING = 20 * SECOND, 30 * SECOND
OLD_LOG, NEW_LOG = 5, 9
LOST_OLD = ("lost", True, "main", None, OLD)


def rebuild(history):
    """Messages of a topic whose home was rebuilt empty: one of the old log, one in flight, and one of the new log."""
    places = {OLD: (OLD_LOG, 0, 10, 10), IN_FLIGHT: (NEW_LOG, 0, 19.9, 40), NEW: (NEW_LOG, 1, 50, 50)}
    for seq, (segment, entry, sent, acked) in places.items():
        name = {"producer": "p0", "seq": seq, "key": "k"}
        sent, acked = (round(at * SECOND) for at in (sent, acked))
        history.publish(**name, at=sent, settled_at=START + acked, segment=segment, offset=entry)
        if seq != OLD:
            history.store(**name, segment=segment, offset=entry)
        history.store(**name, cluster="other", offset=seq)
        history.deliver(**name, at=acked + 500, segment=segment, offset=entry)


def ack_by_the_old_log(history):
    history.rows("publishes", "p0", IN_FLIGHT)[0].update(settled_at=START + HEALING, segment=OLD_LOG, offset=1)


def take_out_of_main(history):
    for table in ("stored", "deliveries"):
        history.forget(table, "p0", IN_FLIGHT, cluster="main")


def deliver_from(history, seq, at, segment, entry):
    history.deliver(producer="p0", seq=seq, key="k", at=at, segment=segment, offset=entry)


def nothing_else(history):
    return set()


def lost_by_the_old_log(history):
    ack_by_the_old_log(history)
    take_out_of_main(history)
    return {("lost", True, "main", None, IN_FLIGHT)}


def lost_by_the_old_log_though_another_attempt_failed_later(history):
    found = lost_by_the_old_log(history)
    nowhere = dict.fromkeys(("partition", "segment", "offset", "batch_index"))
    later = {"epoch": 1, "outcome": "failed", "settled_at": START + 45 * SECOND, **nowhere}
    history.publishes.append({**history.rows("publishes", "p0", IN_FLIGHT)[0], **later})
    return found


def lost_by_the_new_log_that_acked_it_too(history):
    lost_by_the_old_log(history)
    later = {"epoch": 1, "settled_at": START + 45 * SECOND, "segment": NEW_LOG, "offset": 0}
    history.publishes.append({**history.rows("publishes", "p0", IN_FLIGHT)[0], **later})
    return {("lost", False, "main", None, IN_FLIGHT)}


def lost_by_the_new_log(history):
    take_out_of_main(history)
    return {("lost", False, "main", None, IN_FLIGHT)}


def not_sent_on_by_the_old_log(history):
    ack_by_the_old_log(history)
    history.forget("stored", "p0", IN_FLIGHT)
    history.forget("deliveries", "p0", IN_FLIGHT)
    return {("lost", True, "main", None, IN_FLIGHT), ("not_replicated", True, "other", None, IN_FLIGHT)}


def not_sent_on_by_the_new_log(history):
    history.forget("stored", "p0", IN_FLIGHT, cluster="other")
    return {("not_replicated", False, "other", None, IN_FLIGHT)}


def not_sent_on_by_the_new_log_that_holds_it_without_an_ack(history):
    history.never_answer("p0", IN_FLIGHT)
    history.forget("stored", "p0", IN_FLIGHT, cluster="other")
    return {("not_replicated", False, "other", None, IN_FLIGHT)}


def lost_by_the_new_log_before_it_was_sent_on(history):
    history.forget("stored", "p0", IN_FLIGHT)
    return {("lost", False, "main", None, IN_FLIGHT), ("not_replicated", False, "other", None, IN_FLIGHT)}


def delivered_by_the_old_log_and_by_the_new_log(history):
    deliver_from(history, IN_FLIGHT, EFFECT, OLD_LOG, 1)
    return {
        ("delivered_from_two_positions", True, "main", "audit", IN_FLIGHT),
        ("delivered_from_elsewhere", True, "main", "audit", IN_FLIGHT),
    }


def delivered_from_two_positions_of_the_old_log(history):
    deliver_from(history, OLD, 11 * SECOND, OLD_LOG, 900)
    return {("delivered_from_two_positions", False, "main", "audit", OLD)}


def delivered_from_two_positions_of_the_old_log_and_from_the_new_log(history):
    deliver_from(history, IN_FLIGHT, EFFECT, OLD_LOG, 1)
    deliver_from(history, IN_FLIGHT, EFFECT, OLD_LOG, 2)
    return {
        ("delivered_from_two_positions", False, "main", "audit", IN_FLIGHT),
        ("delivered_from_elsewhere", True, "main", "audit", IN_FLIGHT),
    }


def delivered_by_each_log_from_where_the_new_one_does_not_hold_it(history):
    history.rows("deliveries", "p0", IN_FLIGHT)[0]["offset"] = 900
    deliver_from(history, IN_FLIGHT, EFFECT, OLD_LOG, 1)
    return {
        ("delivered_from_two_positions", True, "main", "audit", IN_FLIGHT),
        ("delivered_from_elsewhere", False, "main", "audit", IN_FLIGHT),
    }


def delivered_by_the_old_log_and_later_from_a_log_that_was_not_read(history):
    deliver_from(history, IN_FLIGHT, EFFECT, OLD_LOG, 1)
    deliver_from(history, IN_FLIGHT, 45 * SECOND, NEW_LOG, 900)
    history.deliveries[-1]["partition"] = 7
    return {
        ("delivered_from_two_positions", False, "main", "audit", IN_FLIGHT),
        ("delivered_from_elsewhere", True, "main", "audit", IN_FLIGHT),
    }


def delivered_again_after_the_healing_from_one_of_two_positions_of_the_old_log(history):
    first = {"segment": OLD_LOG, "offset": 1, "received_at": START + EFFECT}
    history.rows("deliveries", "p0", IN_FLIGHT)[0].update(first)
    deliver_from(history, IN_FLIGHT, EFFECT, OLD_LOG, 2)
    deliver_from(history, IN_FLIGHT, 45 * SECOND, OLD_LOG, 2)
    return {
        ("delivered_from_two_positions", False, "main", "audit", IN_FLIGHT),
        ("delivered_from_elsewhere", False, "main", "audit", IN_FLIGHT),
        ("redelivered_after_ack", True, "main", "audit", IN_FLIGHT),
    }


def delivered_by_the_new_log_from_where_it_does_not_hold_it(history):
    deliver_from(history, IN_FLIGHT, 45 * SECOND, NEW_LOG, 900)
    return {
        ("delivered_from_two_positions", False, "main", "audit", IN_FLIGHT),
        ("delivered_from_elsewhere", False, "main", "audit", IN_FLIGHT),
    }


REBUILT = [
    nothing_else,
    lost_by_the_old_log,
    lost_by_the_old_log_though_another_attempt_failed_later,
    lost_by_the_new_log_that_acked_it_too,
    lost_by_the_new_log,
    not_sent_on_by_the_old_log,
    not_sent_on_by_the_new_log,
    not_sent_on_by_the_new_log_that_holds_it_without_an_ack,
    lost_by_the_new_log_before_it_was_sent_on,
    delivered_by_the_old_log_and_by_the_new_log,
    delivered_from_two_positions_of_the_old_log,
    delivered_from_two_positions_of_the_old_log_and_from_the_new_log,
    delivered_by_each_log_from_where_the_new_one_does_not_hold_it,
    delivered_by_the_old_log_and_later_from_a_log_that_was_not_read,
    delivered_again_after_the_healing_from_one_of_two_positions_of_the_old_log,
    delivered_by_the_new_log_from_where_it_does_not_hold_it,
]


@pytest.fixture(scope="module")
def rebuilt(spark, tmp_path_factory):
    """What is found of each topic of a run, and what has to be found."""
    history = History(
        clusters=("main", "other"),
        guarantee="effectively_once",
        faults=[{**DESTROYS, "permanent": False, "heal_at_s": 30}],
        bounds={"rpo_messages": {"max": 1}},
        destroyed=["main"],
        workload={"namespace": REPLICATED},
    )
    row = {"fault": "gone", "kind": "destroy", "targets": ["bookie-eu-1-main"]}
    for state, at in (("effective", EFFECT), ("healing", HEALING), ("recovered", HEALING + SECOND)):
        history.faults.append({**row, "state": state, "at": START + at})
    expected = {}
    for change in REBUILT:
        history.topic = f"persistent://{REPLICATED}/{change.__name__}"
        rebuild(history)
        expected[change] = change(history) | {LOST_OLD}
    judged = Judged(spark, tmp_path_factory.mktemp("rebuilt") / "run", history)
    found = {
        change: {(*row[:4], row[5]) for row in judged.anomalies(f"persistent://{REPLICATED}/{change.__name__}")}
        for change in REBUILT
    }
    return found, expected


@pytest.mark.parametrize("change", REBUILT, ids=lambda change: change.__name__)
def test_a_destroyed_cluster_excuses_its_old_log_and_not_its_new_one(rebuilt, change):
    found, expected = rebuilt
    assert found[change] == expected[change]


def test_a_log_that_was_not_made_anew_holds_no_message_at_a_second_position():
    history, place = History(guarantee="effectively_once"), ("main", "audit")
    illegal = illegal_at(history, [(*place, "main")], destroyed=[("main", SENT_AT + 1, None)])
    assert Anomaly.DELIVERED_FROM_TWO_POSITIONS in illegal[place]
    assert Anomaly.DELIVERED_FROM_ELSEWHERE not in illegal[place]
