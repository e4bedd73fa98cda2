"""Every anomaly planted once, and what looks like one and is none. Each plant has a topic of its own in one run."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from brokerproof.run.judgement import TOTALS

from ..history import NAMESPACE, REPLICATED, SEGMENT, START, History
from ..judged import Found, Judged

# What a plant has to be found as, with the cause and the sentence that say so.
Findings = dict[Found, tuple[str, str]]
Plant = Callable[[History], Findings]
PLANTS: dict[str, tuple[str, Plant]] = {}


def planted(namespace: str = NAMESPACE) -> Callable[[Plant], Plant]:
    """A plant changes a clean history of its topic and returns exactly what has to be found there."""

    def register(plant: Plant) -> Plant:
        name = plant.__name__.replace("_", "-")
        PLANTS[name] = (f"persistent://{namespace}/{name}", plant)
        return plant

    return register


@pytest.fixture(scope="module")
def judged(spark, tmp_path_factory):
    history = History(
        clusters=("main", "other"),
        guarantee="at_least_once",
        subscriptions=[
            {"name": "audit", "type": "failover", "consumers": 2},
            {"name": "pool", "type": "shared", "consumers": 2},
            {"name": "far", "type": "failover", "cluster": "other"},
        ],
    )
    expected = {}
    for name, (topic, plant) in PLANTS.items():
        history.topic = topic
        history.clean()
        expected[name] = plant(history)
    result = Judged(spark, tmp_path_factory.mktemp("gallery") / "run", history)
    return result, expected


def hold_back(history: History, producer: str, seq: int, epoch: int = 0) -> None:
    """Have a message not sent, because a full max_pending held it back until the end of the load."""
    (row,) = history.rows("publishes", producer, seq, epoch=epoch)
    gone = ("partition", "sent_at", "settled_at", "segment", "offset")
    row.update(outcome="not_sent", **dict.fromkeys(gone))


# What is wrong -------------------------------------------------------------------------------------------------------


@planted()
def nothing(history):
    return {}


@planted(REPLICATED)
def nothing_in_two_clusters(history):
    return {}


@planted()
def lost(history):
    history.forget("stored", "p0", 3)
    history.forget("deliveries", "p0", 3)
    return {
        ("lost", False, "main", None, "p0", 3): (
            "acked_at_position",
            "acked at 2023-11-14 22:13:20.0064 UTC in main, and not in the log of main, which was read to its end",
        )
    }


@planted()
def lost_after_it_was_delivered(history):
    history.forget("stored", "p0", 3)
    return {
        ("lost", False, "main", None, "p0", 3): (
            "delivered_and_gone",
            "acked at 2023-11-14 22:13:20.0064 UTC in main, delivered to audit in main, "
            "and not in the log of main, which was read to its end",
        )
    }


@planted()
def lost_after_an_unknown_outcome_because_it_was_delivered(history):
    history.never_answer("p0", 3)
    history.forget("stored", "p0", 3)
    return {
        ("lost", False, "main", None, "p0", 3): (
            "delivered_and_gone",
            "delivered to audit in main, and not in the log of main, which was read to its end",
        )
    }


@planted(REPLICATED)
def lost_after_an_unknown_outcome_because_it_was_replicated(history):
    history.never_answer("p0", 3)
    history.forget("stored", "p0", 3, cluster="main")
    history.forget("deliveries", "p0", 3)
    return {
        ("lost", False, "main", None, "p0", 3): (
            "replicated_and_gone",
            "stored in other, and not in the log of main, which was read to its end",
        ),
        ("undelivered", False, "other", "far", "p0", 3): (
            "never_delivered",
            "stored at 5:106:-1 and never delivered to far, which drained",
        ),
    }


@planted()
def unproven_after_an_unknown_outcome(history):
    history.never_answer("p0", 3)
    history.forget("stored", "p0", 3)
    history.not_read_to_end()
    return {
        ("unproven", True, "main", None, "p0", 3): (
            "log_not_read_to_end",
            "delivered to audit in main, and not found in main, "
            "but its log was not read to its end: the reader stopped",
        )
    }


@planted()
def unproven_where_one_of_two_partitions_that_acked_a_message_was_not_read(history):
    # Partitions were added between the two attempts of a repeated task.
    history.rows("publishes", "p0", 3)[0].update(partition=0)
    history.publish(producer="p0", seq=3, epoch=1, at=900, partition=1, offset=50)
    history.forget("stored", "p0", 3)
    history.forget("deliveries", "p0", 3)
    history.partitions[history.topic].add(0)
    history.not_read_to_end(partition=1)
    return {
        ("unproven", True, "main", None, "p0", 3): (
            "log_not_read_to_end",
            "acked at 2023-11-14 22:13:20.0013 UTC in main, and not found in main, "
            "but its log was not read to its end: the reader stopped",
        )
    }


@planted(REPLICATED)
def not_replicated_after_an_unknown_outcome(history):
    history.never_answer("p1", 2)
    history.forget("stored", "p1", 2, cluster="other")
    history.forget("deliveries", "p1", 2)
    return {
        ("not_replicated", False, "other", None, "p1", 2): (
            "missing_in_replica",
            "stored in main, and not in the log of other, which was read to its end after replication had drained",
        ),
        **{
            ("undelivered", False, "main", subscription, "p1", 2): (
                "never_delivered",
                f"stored at 5:5:-1 and never delivered to {subscription}, which drained",
            )
            for subscription in ("audit", "pool")
        },
    }


@planted()
def lost_though_one_of_two_attempts_failed(history):
    history.publish(producer="p0", seq=3, epoch=1, outcome="failed", at=900)
    history.forget("stored", "p0", 3)
    history.forget("deliveries", "p0", 3)
    return {
        ("lost", False, "main", None, "p0", 3): (
            "acked_at_position",
            "acked at 2023-11-14 22:13:20.0064 UTC in main, and not in the log of main, which was read to its end",
        )
    }


@planted()
def lost_after_an_ack_without_a_position(history):
    # As a deduplicated retry is acked.
    history.rows("publishes", "p0", 3)[0].update(segment=-1, offset=-1)
    history.forget("stored", "p0", 3)
    history.forget("deliveries", "p0", 3)
    return {
        ("lost", False, "main", None, "p0", 3): (
            "acked_without_position",
            "acked at 2023-11-14 22:13:20.0064 UTC in main, and not in the log of main, which was read to its end",
        )
    }


@planted(REPLICATED)
def not_replicated(history):
    history.forget("stored", "p1", 2, cluster="other")
    history.forget("deliveries", "p1", 2, cluster="other")
    return {
        ("not_replicated", False, "other", None, "p1", 2): (
            "missing_in_replica",
            "acked at 2023-11-14 22:13:20.0054 UTC in main, delivered to audit in main, stored in main, "
            "and not in the log of other, "
            "which was read to its end after replication had drained",
        )
    }


@planted()
def undelivered(history):
    history.forget("deliveries", "p1", 4, subscription="pool")
    return {
        ("undelivered", False, "main", "pool", "p1", 4): (
            "never_delivered",
            "stored at 5:9:-1 and never delivered to pool, which drained",
        )
    }


@planted(REPLICATED)
def undelivered_in_the_other_cluster(history):
    history.forget("deliveries", "p1", 4, cluster="other")
    return {
        ("undelivered", False, "other", "far", "p1", 4): (
            "never_delivered",
            "stored at 5:109:-1 and never delivered to far, which drained",
        )
    }


@planted()
def undelivered_though_unknown(history):
    # It turned up, so it has to reach the subscriptions like any other.
    history.never_answer("p0", 1)
    history.forget("deliveries", "p0", 1, subscription="audit")
    return {
        ("undelivered", False, "main", "audit", "p0", 1): (
            "never_delivered",
            "stored at 5:2:-1 and never delivered to audit, which drained",
        )
    }


@planted()
def unproven_log_not_read_to_its_end(history):
    history.not_read_to_end()
    history.forget("stored", "p0", 3)
    history.forget("deliveries", "p0", 3)
    return {
        ("unproven", True, "main", None, "p0", 3): (
            "log_not_read_to_end",
            "acked at 2023-11-14 22:13:20.0064 UTC in main, and not found in main, "
            "but its log was not read to its end: the reader stopped",
        )
    }


GONE = "acked at 2023-11-14 22:13:20.0064 UTC in main"
# Where p0/3 is stored in its home.
PLACE, BEHIND = (SEGMENT, 6), (SEGMENT, 7)


def forget_everywhere(history, producer="p0", seq=3, **values):
    for table in ("stored", "deliveries"):
        history.forget(table, producer, seq, **values)


@planted()
def lost_in_a_log_that_was_read_past_its_acks(history):
    history.not_read_to_end(passed=BEHIND)
    forget_everywhere(history)
    return {
        ("lost", False, "main", None, "p0", 3): (
            "acked_at_position",
            f"{GONE}, and not in the log of main, which was read past all positions that its acks named",
        )
    }


UNREAD = f"{GONE}, and not found in main, but its log was not read to its end: the reader stopped"


@planted()
def unproven_where_the_reader_did_not_pass_the_ack(history):
    history.not_read_to_end(passed=PLACE)
    forget_everywhere(history)
    return {("unproven", True, "main", None, "p0", 3): ("log_not_read_to_end", UNREAD)}


@planted()
def lost_where_one_partition_was_read_to_its_end_and_another_one_past_the_ack(history):
    # Partitions were added between the two attempts of a repeated task.
    history.rows("publishes", "p0", 3)[0].update(partition=0)
    history.publish(producer="p0", seq=3, epoch=1, at=900, partition=1, segment=SEGMENT, offset=50)
    history.partitions[history.topic].add(0)
    history.not_read_to_end(partition=1, passed=(SEGMENT, 51))
    forget_everywhere(history)
    return {
        ("lost", False, "main", None, "p0", 3): (
            "acked_at_position",
            "acked at 2023-11-14 22:13:20.0013 UTC in main, and not in the log of main, "
            "which was read past all positions that its acks named",
        )
    }


@planted()
def unproven_where_the_reader_passed_one_of_two_acks(history):
    history.not_read_to_end(passed=BEHIND)
    history.publish(producer="p0", seq=3, epoch=1, at=50_000, segment=SEGMENT, offset=50)
    forget_everywhere(history)
    return {("unproven", True, "main", None, "p0", 3): ("log_not_read_to_end", UNREAD)}


@planted()
def unproven_where_one_of_two_acks_named_no_position(history):
    history.not_read_to_end(passed=(SEGMENT, 99))
    history.publish(producer="p0", seq=3, epoch=1, at=6_000)
    forget_everywhere(history)
    return {("unproven", True, "main", None, "p0", 3): ("log_not_read_to_end", UNREAD)}


@planted()
def unproven_where_no_ack_named_a_position(history):
    history.not_read_to_end(passed=(SEGMENT, 99))
    history.rows("publishes", "p0", 3)[0].update(segment=None, offset=None)
    forget_everywhere(history)
    return {("unproven", True, "main", None, "p0", 3): ("log_not_read_to_end", UNREAD)}


@planted()
def unreadable(history):
    history.not_read_to_end(passed=(SEGMENT, 99), unreadable=[(PLACE, BEHIND)])
    for place in (("p0", 3), ("p1", 3), ("p1", 2)):
        forget_everywhere(history, *place)
    return {
        ("unreadable", False, "main", None, "p0", 3): (
            "part_cannot_be_read",
            f"{GONE}, in a part of its log that cannot be read",
        ),
        # They were acked just before and just behind the part.
        **{
            ("lost", False, "main", None, "p1", seq): (
                "acked_at_position",
                f"acked at 2023-11-14 22:13:20.0{at} UTC in main, and not in the log of main, "
                "which was read past all positions that its acks named",
            )
            for seq, at in ((2, "054"), (3, "074"))
        },
    }


@planted(REPLICATED)
def unreadable_at_home_and_missing_in_another_cluster(history):
    history.not_read_to_end(passed=(SEGMENT, 99), unreadable=[(PLACE, BEHIND)])
    forget_everywhere(history)
    return {
        ("unreadable", False, "main", None, "p0", 3): (
            "part_cannot_be_read",
            f"{GONE}, in a part of its log that cannot be read",
        ),
        ("not_replicated", False, "other", None, "p0", 3): (
            "missing_in_replica",
            f"{GONE}, and not in the log of other, which was read to its end after replication had drained",
        ),
    }


@planted()
def stored_elsewhere_in_a_log_that_was_read_past_its_acks(history):
    entry = history.next_entry()
    for table in ("stored", "deliveries"):
        for row in history.rows(table, "p1", 5):
            row["offset"] = entry
    history.not_read_to_end(passed=(SEGMENT, entry))
    return {
        ("position_mismatch", False, "main", None, "p1", 5): (
            "stored_elsewhere",
            f"stored at 5:{entry}:-1, which is none of the 1 position(s) that its acks named",
        )
    }


@planted()
def undelivered_before_the_end_that_the_drain_saw(history):
    history.drained_to(BEHIND, "main", "audit")
    history.forget("deliveries", "p0", 3, subscription="audit")
    return {
        ("undelivered", False, "main", "audit", "p0", 3): (
            "never_delivered",
            "stored at 5:6:-1 and never delivered to audit, which drained",
        )
    }


@planted()
def unproven_behind_the_end_that_the_drain_saw(history):
    history.drained_to(PLACE, "main", "audit")
    history.forget("deliveries", "p0", 3, subscription="audit")
    return {
        ("unproven", True, "main", "audit", "p0", 3): (
            "subscription_not_drained",
            "stored at 5:6:-1 and not delivered to audit, but it did not drain: it drained up to 5:6 only",
        )
    }


@planted()
def unproven_where_only_another_partition_drained(history):
    # The ack named a partition that drained, and another one stores it.
    for table in ("stored", "deliveries"):
        for row in history.rows(table, "p0", 3):
            row["partition"] = 7
    history.forget("deliveries", "p0", 3, subscription="audit")
    return {
        ("position_mismatch", False, "main", None, "p0", 3): (
            "stored_elsewhere",
            "stored at 5:6:-1, which is none of the 1 position(s) that its acks named",
        ),
        ("unproven", True, "main", "audit", "p0", 3): (
            "subscription_not_drained",
            "stored at 5:6:-1 and not delivered to audit, but it did not drain: no step left a record of it",
        ),
    }


SEEN = f"{GONE}, delivered to audit in main, stored in main"


def unproven_in_other(known, why):
    """The finding of p0/3 in the cluster `other`, to which replication did not drain."""
    detail = f"{known}, and not found in other, but replication did not drain: {why}"
    return {("unproven", True, "other", None, "p0", 3): ("replication_not_drained", detail)}


@planted(REPLICATED)
def not_replicated_before_the_end_that_the_drain_saw(history):
    history.drained_to(BEHIND, "main", "other")
    forget_everywhere(history, cluster="other")
    return {
        ("not_replicated", False, "other", None, "p0", 3): (
            "missing_in_replica",
            f"{SEEN}, and not in the log of other, which was read to its end after replication had drained",
        )
    }


@planted(REPLICATED)
def unproven_behind_the_end_of_the_home_that_the_drain_saw(history):
    history.drained_to(PLACE, "main", "other")
    forget_everywhere(history, cluster="other")
    return unproven_in_other(SEEN, "it drained up to 5:6 only")


def drain_with_an_unread_home(history, end):
    """The home was not read, and holds no known copy of a message that was acked at `PLACE`."""
    history.not_read_to_end()
    history.drained_to(end, "main", "other")
    for table in ("stored", "deliveries"):
        history.forget(table, "p0", 3, cluster="main")
        history.forget(table, "p0", 3, cluster="other")
    return {
        ("unproven", True, "main", None, "p0", 3): (
            "log_not_read_to_end",
            f"{GONE}, and not found in main, but its log was not read to its end: the reader stopped",
        )
    }


@planted(REPLICATED)
def not_replicated_from_an_unread_home_before_the_end_that_the_drain_saw(history):
    return drain_with_an_unread_home(history, BEHIND) | {
        ("not_replicated", False, "other", None, "p0", 3): (
            "missing_in_replica",
            f"{GONE}, and not in the log of other, which was read to its end after replication had drained",
        )
    }


@planted(REPLICATED)
def unproven_from_an_unread_home_behind_the_end_that_the_drain_saw(history):
    return drain_with_an_unread_home(history, PLACE) | unproven_in_other(GONE, "it drained up to 5:6 only")


@planted(REPLICATED)
def unproven_from_an_unread_home_without_an_acked_position(history):
    expected = drain_with_an_unread_home(history, BEHIND)
    history.rows("publishes", "p0", 3)[0].update(segment=None, offset=None, batch_index=None)
    return expected | unproven_in_other(GONE, "it drained up to 5:7 only")


@planted(REPLICATED)
def unproven_from_a_home_whose_reading_left_no_record(history):
    drain_with_an_unread_home(history, BEHIND)
    history.rows("publishes", "p0", 3)[0].update(segment=None, offset=None, batch_index=None)
    history.not_recorded("main")
    return {
        ("unproven", True, "main", None, "p0", 3): (
            "log_not_read_to_end",
            f"{GONE}, and not found in main, but its log was not read to its end: no step left a record of it",
        ),
        **unproven_in_other(GONE, "it drained up to 5:7 only"),
    }


@planted(REPLICATED)
def unproven_in_a_cluster_whose_reading_left_no_record(history):
    history.not_recorded("other")
    forget_everywhere(history, cluster="other")
    return {
        ("unproven", True, "other", None, "p0", 3): (
            "log_not_read_to_end",
            f"{SEEN}, and not found in other, but its log was not read to its end: no step left a record of it",
        )
    }


@planted(REPLICATED)
def unproven_in_a_cluster_that_delivered_it_from_a_log_without_a_record(history):
    # Only of a log that was read to its end is it known that it had the message, and has it no more.
    history.not_replicated()
    history.forget("stored", "p0", 3, cluster="other")
    (row,) = history.rows("deliveries", "p0", 3, cluster="other")
    row["partition"] = 7
    return unproven_in_other(SEEN, "12 behind")


@planted(REPLICATED)
def unproven_in_a_cluster_to_which_no_step_recorded_replication(history):
    history.not_recorded("main", "other")
    forget_everywhere(history, cluster="other")
    return unproven_in_other(SEEN, "no step left a record of it")


@planted()
def unproven_in_a_home_that_is_no_cluster_of_the_topology(history):
    history.rows("publishes", "p0", 3)[0].update(cluster="nowhere")
    return {
        ("unproven", True, "nowhere", None, "p0", 3): (
            "log_not_read_to_end",
            "acked at 2023-11-14 22:13:20.0064 UTC in nowhere, delivered to audit in main, stored in main, "
            "and not found in nowhere, but its log was not read to its end: no step left a record of it",
        )
    }


@planted()
def unproven_not_drained(history):
    history.not_drained("audit")
    history.forget("deliveries", "p0", 3, subscription="audit")
    history.forget("deliveries", "p0", 2, subscription="pool")
    return {
        ("unproven", True, "main", "audit", "p0", 3): (
            "subscription_not_drained",
            "stored at 5:6:-1 and not delivered to audit, but it did not drain: a backlog of 3",
        ),
        ("undelivered", False, "main", "pool", "p0", 2): (
            "never_delivered",
            "stored at 5:4:-1 and never delivered to pool, which drained",
        ),
    }


@planted(REPLICATED)
def unproven_replication_not_drained(history):
    history.not_replicated()
    history.forget("stored", "p0", 3, cluster="other")
    history.forget("deliveries", "p0", 3, cluster="other")
    return unproven_in_other(SEEN, "12 behind")


@planted(REPLICATED)
def not_replicated_though_replication_did_not_drain_because_it_was_delivered_there(history):
    history.not_replicated()
    history.forget("stored", "p0", 3, cluster="other")
    return {
        ("not_replicated", False, "other", None, "p0", 3): (
            "delivered_and_gone",
            "acked at 2023-11-14 22:13:20.0064 UTC in main, delivered to audit in main, stored in main, "
            "and not in the log of other, which was read to its end and had delivered it",
        )
    }


@planted(REPLICATED)
def unproven_where_it_was_delivered_from_a_log_that_was_not_read(history):
    history.not_replicated()
    history.forget("stored", "p0", 3, cluster="other")
    history.rows("deliveries", "p0", 3, cluster="other")[0]["partition"] = 1
    history.partitions[history.topic].add(1)
    history.not_read_to_end("other", partition=1)
    return unproven_in_other(SEEN, "12 behind")


@planted()
def phantom_stored(history):
    history.store(producer="stranger", seq=0, key="k", offset=history.next_entry())
    return {
        ("phantom", False, "main", None, "stranger", 0): (
            "never_published",
            "stored at 5:12:-1 though nobody published it to this topic",
        )
    }


@planted()
def phantom_delivered(history):
    history.deliver(producer="p0", seq=77, key="k", offset=77, at=9000)
    return {
        ("phantom", False, "main", "audit", "p0", 77): (
            "never_published",
            "delivered to consumer-0 though nobody published it to this topic",
        )
    }


@planted()
def phantom_without_identity(history):
    # Two of them in the log, one of which is delivered: each is its own message.
    first, second = history.next_entry(), history.next_entry()
    history.store(producer=None, seq=None, offset=first)
    history.store(producer="p0", seq=None, offset=second)
    history.deliver(producer=None, seq=None, offset=first, at=9000)
    return {
        ("phantom", False, "main", None, None, None): (
            "no_identity",
            "stored at 5:12:-1 though nobody published it to this topic",
        ),
        ("phantom", False, "main", None, "p0", None): (
            "no_identity",
            "stored at 5:13:-1 though nobody published it to this topic",
        ),
        ("phantom", False, "main", "audit", None, None): (
            "no_identity",
            "delivered to consumer-0 though nobody published it to this topic",
        ),
    }


@planted()
def phantom_without_a_producer(history):
    entry = history.next_entry()
    history.store(producer=None, seq=5, offset=entry)
    return {
        ("phantom", False, "main", None, None, 5): (
            "no_identity",
            "stored at 5:12:-1 though nobody published it to this topic",
        )
    }


@planted()
def phantom_does_not_disturb_order(history):
    entry = history.next_entry()
    history.store(producer="p0", seq=99, key="p0-key-0", offset=entry, segment=1)
    return {
        ("phantom", False, "main", None, "p0", 99): (
            "never_published",
            "stored at 1:12:-1 though nobody published it to this topic",
        )
    }


@planted()
def failed_but_stored(history):
    history.never_answer("p1", 0, "failed")
    return {
        ("failed_but_stored", False, "main", None, "p1", 0): (
            "failed_for_certain",
            "its 1 attempt(s) failed for certain, and it is stored at 5:1:-1",
        ),
        **{
            ("failed_but_delivered", False, "main", subscription, "p1", 0): (
                "failed_for_certain",
                "its 1 attempt(s) failed for certain, and it was delivered to consumer-0",
            )
            for subscription in ("audit", "pool")
        },
    }


@planted()
def failed_but_delivered(history):
    # It is not in the log, and a message that failed for certain is never lost.
    history.never_answer("p1", 0, "failed")
    history.forget("stored", "p1", 0)
    history.forget("deliveries", "p1", 0, subscription="pool")
    return {
        ("failed_but_delivered", False, "main", "audit", "p1", 0): (
            "failed_for_certain",
            "its 1 attempt(s) failed for certain, and it was delivered to consumer-0",
        )
    }


@planted()
def not_sent_but_stored(history):
    hold_back(history, "p1", 0)
    return {
        ("failed_but_stored", False, "main", None, "p1", 0): (
            "not_sent",
            "it was never sent, and it is stored at 5:1:-1",
        ),
        **{
            ("failed_but_delivered", False, "main", subscription, "p1", 0): (
                "not_sent",
                "it was never sent, and it was delivered to consumer-0",
            )
            for subscription in ("audit", "pool")
        },
    }


@planted()
def not_sent_but_delivered(history):
    # It is not in the log, and a message that was not sent is never lost.
    hold_back(history, "p1", 0)
    history.forget("stored", "p1", 0)
    history.forget("deliveries", "p1", 0, subscription="pool")
    return {
        ("failed_but_delivered", False, "main", "audit", "p1", 0): (
            "not_sent",
            "it was never sent, and it was delivered to consumer-0",
        )
    }


@planted()
def failed_and_not_sent_by_a_later_process_but_stored(history):
    history.forget("deliveries", "p1", 0)
    history.never_answer("p1", 0, "failed")
    history.publish(at=9000, producer="p1", seq=0, epoch=1)
    hold_back(history, "p1", 0, epoch=1)
    return {
        ("failed_but_stored", False, "main", None, "p1", 0): (
            "failed_for_certain",
            "its 1 attempt(s) failed for certain, and it is stored at 5:1:-1",
        ),
        **{
            ("undelivered", False, "main", subscription, "p1", 0): (
                "never_delivered",
                f"stored at 5:1:-1 and never delivered to {subscription}, which drained",
            )
            for subscription in ("audit", "pool")
        },
    }


def deliver_from(history, segment, offset):
    history.rows("deliveries", "p1", 5, subscription="audit")[0].update(segment=segment, offset=offset)
    return {
        ("delivered_from_elsewhere", False, "main", "audit", "p1", 5): (
            "stored_elsewhere",
            f"delivered from {segment}:{offset}:-1, where the log of main does not hold it; "
            "it is first stored at 5:11:-1",
        )
    }


@planted()
def delivered_from_elsewhere(history):
    return deliver_from(history, 5, 999)


@planted()
def delivered_from_segment_zero(history):
    return deliver_from(history, 0, 11)


@planted()
def stored_in_segment_zero(history):
    for table in ("publishes", "stored", "deliveries"):
        for row in history.rows(table, "p0", 0):
            row["segment"] = 0
    return {}


@planted()
def lost_from_segment_zero(history):
    history.rows("publishes", "p0", 0)[0]["segment"] = 0
    history.forget("stored", "p0", 0)
    history.forget("deliveries", "p0", 0)
    return {
        ("lost", False, "main", None, "p0", 0): (
            "acked_at_position",
            "acked at 2023-11-14 22:13:20.0004 UTC in main, and not in the log of main, which was read to its end",
        )
    }


@planted()
def delivered_from_the_position_of_another_message(history):
    history.rows("deliveries", "p1", 5, subscription="audit")[0]["offset"] = 10
    return {
        ("delivered_from_elsewhere", False, "main", "audit", "p1", 5): (
            "stored_elsewhere",
            "delivered from 5:10:-1, where the log of main does not hold it; it is first stored at 5:11:-1",
        ),
        ("position_conflict", False, "main", "audit", "p1", 5): (
            "shared_position",
            "shares the position 5:10:-1 with message p0/5",
        ),
        ("position_conflict", False, "main", None, "p0", 5): (
            "shared_position",
            "shares the position 5:10:-1 with message p1/5",
        ),
    }


@planted()
def delivered_from_two_positions(history):
    entry = history.next_entry()
    history.store(producer="p1", seq=5, offset=entry)
    history.deliver(producer="p1", seq=5, offset=entry, at=60_000)
    return {
        ("stored_twice", True, "main", None, "p1", 5): (
            "attempted_once",
            "stored at 2 positions, first at 5:11:-1, from 1 attempt(s)",
        ),
        ("delivered_from_two_positions", True, "main", "audit", "p1", 5): (
            "attempted_once",
            "delivered from 2 positions, after 1 attempt(s)",
        ),
    }


@planted()
def corrupted_in_the_log(history):
    history.rows("stored", "p1", 0)[0].update(payload_hash=1)
    return {
        ("corrupted", False, "main", None, "p1", 0): (
            "stored_payload",
            "stored at 5:1:-1 with another payload than was published",
        )
    }


@planted()
def corrupted_in_one_of_two_reads_of_a_position(history):
    history.stored.append({**history.rows("stored", "p1", 0)[0], "payload_hash": 1 << 62})
    return {
        ("corrupted", False, "main", None, "p1", 0): (
            "stored_payload",
            "stored at 5:1:-1 with another payload than was published",
        )
    }


@planted()
def corrupted_on_the_way(history):
    history.rows("deliveries", "p1", 0, subscription="pool")[0].update(payload_hash=1)
    return {
        ("corrupted", False, "main", "pool", "p1", 0): (
            "delivered_payload",
            "delivered to consumer-0 with another payload than was published",
        )
    }


@planted()
def another_key_in_the_log(history):
    history.rows("stored", "p1", 0)[0]["key"] = None
    return {
        ("corrupted", False, "main", None, "p1", 0): ("key", "stored at 5:1:-1 with another key than was published")
    }


@planted()
def each_of_two_keys_under_which_a_message_was_published(history):
    """The load's record contradicts itself, which is reported; the system may not be accused of either key."""
    first = history.rows("publishes", "p1", 0)[0]
    history.publishes.append({**first, "epoch": 1, "key": "z", "outcome": "unknown", "partition": None})
    history.rows("stored", "p1", 0)[0]["key"] = "z"
    return {}


@planted()
def another_key_on_the_way(history):
    history.rows("deliveries", "p1", 0, subscription="pool")[0]["key"] = "p0-key-0"
    return {
        ("corrupted", False, "main", "pool", "p1", 0): (
            "key",
            "delivered to consumer-0 with another key than was published",
        )
    }


@planted()
def stored_twice(history):
    entry = history.next_entry()
    history.store(producer="p1", seq=5, key="p1-key-1", offset=entry)
    return {
        ("stored_twice", True, "main", None, "p1", 5): (
            "attempted_once",
            "stored at 2 positions, first at 5:11:-1, from 1 attempt(s)",
        )
    }


@planted()
def stored_twice_by_a_second_attempt(history):
    entry = history.next_entry()
    history.publish(producer="p1", seq=5, epoch=1, at=50_000, segment=SEGMENT, offset=entry)
    history.store(producer="p1", seq=5, key="p1-key-1", offset=entry)
    return {
        ("stored_twice", True, "main", None, "p1", 5): (
            "attempted_again",
            "stored at 2 positions, first at 5:11:-1, from 2 attempt(s)",
        )
    }


@planted()
def stored_twice_in_two_partitions(history):
    history.store(producer="p1", seq=5, key="p1-key-1", offset=0, partition=7)
    return {
        ("stored_twice", True, "main", None, "p1", 5): (
            "attempted_once",
            "stored at 2 positions, first at 5:11:-1, from 1 attempt(s)",
        )
    }


@planted()
def delivered_twice(history):
    first = history.rows("deliveries", "p0", 5, subscription="audit")[0]
    first["acknowledged_at"] = None
    history.deliver(
        **{"producer": "p0", "seq": 5, "key": first["key"], "offset": first["offset"]},
        **{"consumer": "consumer-1", "incarnation": 0, "at": 30_000},
    )
    return {
        ("delivered_twice", True, "main", "audit", "p0", 5): (
            "ack_not_confirmed",
            "delivered again 1 time(s) before an ack of it was confirmed",
        )
    }


@planted()
def delivered_twice_by_a_late_ack(history):
    # The ack of the first was confirmed only after the second came.
    first = history.rows("deliveries", "p0", 5, subscription="audit")[0]
    first["acknowledged_at"] = START + 400_000
    history.deliver(producer="p0", seq=5, key=first["key"], offset=first["offset"], at=399_999, incarnation=1)
    return {
        ("delivered_twice", True, "main", "audit", "p0", 5): (
            "ack_not_confirmed",
            "delivered again 1 time(s) before an ack of it was confirmed",
        )
    }


@planted()
def redelivered_after_ack(history):
    first = history.rows("deliveries", "p0", 5, subscription="audit")[0]
    history.deliver(producer="p0", seq=5, key=first["key"], offset=first["offset"], at=900_000, incarnation=1)
    return {
        ("redelivered_after_ack", True, "main", "audit", "p0", 5): (
            "ack_confirmed",
            "delivered again 1 time(s) after an ack of it was confirmed",
        )
    }


@planted()
def delivered_twice_in_order_while_the_clock_is_set_back(history):
    # The delivery that arrived first is the first one, and it came before those of 3 and 5.
    first = history.rows("deliveries", "p0", 1, subscription="audit")[0]
    first["acknowledged_at"] = None
    again = {"producer": "p0", "seq": 1, "key": first["key"], "offset": first["offset"]}
    history.deliver(**again, at=-2_000_000, acked=None)
    return {
        ("delivered_twice", True, "main", "audit", "p0", 1): (
            "ack_not_confirmed",
            "delivered again 1 time(s) before an ack of it was confirmed",
        )
    }


@planted()
def redelivered_before_and_after_ack(history):
    first = history.rows("deliveries", "p0", 5, subscription="audit")[0]
    first["acknowledged_at"] = None
    again = {"producer": "p0", "seq": 5, "key": first["key"], "offset": first["offset"]}
    history.deliver(**again, at=900_000, incarnation=1)
    history.deliver(**again, at=950_000, incarnation=2)
    return {
        ("delivered_twice", True, "main", "audit", "p0", 5): (
            "ack_not_confirmed",
            "delivered again 1 time(s) before an ack of it was confirmed",
        ),
        ("redelivered_after_ack", True, "main", "audit", "p0", 5): (
            "ack_confirmed",
            "delivered again 1 time(s) after an ack of it was confirmed",
        ),
    }


@planted()
def position_conflict(history):
    # p0/5 and p1/5 are the last two; the broker named the same place for both.
    entry = history.rows("stored", "p0", 5)[0]["offset"]
    for table in ("publishes", "stored", "deliveries"):
        for row in history.rows(table, "p1", 5):
            row["offset"] = entry
    # Both were in flight together, so that the log did not go back.
    history.rows("publishes", "p1", 5)[0]["sent_at"] = history.rows("publishes", "p0", 5)[0]["sent_at"]
    return {
        ("position_conflict", False, "main", None, "p0", 5): (
            "shared_position",
            "shares the position 5:10:-1 with message p1/5",
        ),
        ("position_conflict", False, "main", None, "p1", 5): (
            "shared_position",
            "shares the position 5:10:-1 with message p0/5",
        ),
    }


@planted()
def position_conflict_with_a_message_without_identity(history):
    entry = history.rows("stored", "p0", 5)[0]["offset"]
    history.store(producer=None, seq=None, offset=entry)
    return {
        ("position_conflict", False, "main", None, "p0", 5): (
            "shared_position",
            "shares the position 5:10:-1 with message  -1:5:10:-1 /-1",
        ),
        ("position_conflict", False, "main", None, None, None): (
            "shared_position",
            "shares the position 5:10:-1 with message p0/5",
        ),
        ("phantom", False, "main", None, None, None): (
            "no_identity",
            "stored at 5:10:-1 though nobody published it to this topic",
        ),
    }


@planted()
def a_delivery_without_a_position_is_no_second_position(history):
    history.deliver(producer="p0", seq=5, segment=None, offset=None, at=900_000)
    return {}


@planted()
def two_messages_from_one_position_of_a_log_that_was_not_read(history):
    for producer in ("p0", "p1"):
        history.deliver(producer=producer, seq=5, offset=900, partition=7, at=900_000)
    two_positions = ("attempted_once", "delivered from 2 positions, after 1 attempt(s)")
    return {
        ("delivered_from_two_positions", True, "main", "audit", "p0", 5): two_positions,
        ("delivered_from_two_positions", True, "main", "audit", "p1", 5): two_positions,
        ("position_conflict", False, "main", "audit", "p0", 5): (
            "shared_position",
            "shares the position 5:900:-1 with message p1/5",
        ),
        ("position_conflict", False, "main", "audit", "p1", 5): (
            "shared_position",
            "shares the position 5:900:-1 with message p0/5",
        ),
    }


@planted()
def position_mismatch(history):
    entry = history.next_entry()
    for table in ("stored", "deliveries"):
        for row in history.rows(table, "p1", 5):
            row["offset"] = entry
    return {
        ("position_mismatch", False, "main", None, "p1", 5): (
            "stored_elsewhere",
            "stored at 5:12:-1, which is none of the 1 position(s) that its acks named",
        )
    }


@planted()
def position_mismatch_of_null_and_zero(history):
    # A message outside a batch is not the first one of a batch.
    for table in ("stored", "deliveries"):
        for row in history.rows(table, "p1", 5):
            row["batch_index"] = 0
    return {
        ("position_mismatch", False, "main", None, "p1", 5): (
            "stored_elsewhere",
            "stored at 5:11:0, which is none of the 1 position(s) that its acks named",
        )
    }


@planted()
def stored_out_of_order(history):
    # 1 and 3 have the same key; they swap their places everywhere but in what is delivered first.
    one, three = history.rows("publishes", "p0", 1)[0], history.rows("publishes", "p0", 3)[0]
    entries = {1: three["offset"], 3: one["offset"]}
    times = [START + 500_000, START + 500_100]
    for seq in (1, 3):
        for table in ("publishes", "stored", "deliveries"):
            for row in history.rows(table, "p0", seq):
                row["offset"] = entries[seq]
    # They were in flight together, so that the log did not go back.
    three["sent_at"], one["settled_at"] = one["sent_at"], three["settled_at"]
    one["settled_at"], three["settled_at"] = START + 490_000, START + 490_000
    for seq, at in ((3, times[0]), (1, times[1])):
        for row in history.rows("deliveries", "p0", seq):
            row.update(received_at=at, acknowledged_at=at + 1)
    # What comes later of the key comes later still.
    for row in history.rows("deliveries", "p0", 5):
        row.update(received_at=START + 500_200, acknowledged_at=None)
    # Everything else was sent before, and none of it was acked at a higher place.
    for row in history.publishes:
        if row["topic"] == history.topic and row not in (one, three):
            row["settled_at"] = START + 490_001
    for row in history.rows("publishes", "p0", 5):
        row["sent_at"] = one["sent_at"]
    return {
        ("stored_out_of_order", False, "main", None, "p0", 1): (
            "behind_higher_seq",
            "first stored at 5:6:-1, behind seq 3 of its producer and key",
        )
    }


def swap_first_copies(history, unreadable):
    """Have p0/3 (5:6) stored behind p0/5 (5:10), and a part of the log unreadable."""
    entry = history.next_entry()
    for table in ("publishes", "stored", "deliveries"):
        for row in history.rows(table, "p0", 3):
            row["offset"] = entry
    history.rows("publishes", "p0", 3)[0]["settled_at"] = START + 20_000
    history.not_read_to_end(passed=(SEGMENT, 99), unreadable=[unreadable])


@planted()
def stored_out_of_order_before_a_part_that_cannot_be_read(history):
    swap_first_copies(history, ((SEGMENT, 13), (SEGMENT, 14)))
    return {
        ("stored_out_of_order", False, "main", None, "p0", 3): (
            "behind_higher_seq",
            "first stored at 5:12:-1, behind seq 5 of its producer and key",
        )
    }


@planted()
def stored_behind_a_part_that_may_hold_an_earlier_copy(history):
    swap_first_copies(history, ((SEGMENT, 6), (SEGMENT, 7)))
    return {}


@planted()
def delivered_out_of_order(history):
    for row in history.rows("deliveries", "p0", 1):
        row.update(received_at=START + 700_000, arrival=1_000_000, acknowledged_at=None)
    return {
        ("delivered_out_of_order", False, "main", "audit", "p0", 1): (
            "after_higher_seq",
            "stored at 5:2:-1 and first delivered to consumer-0 after a message stored behind it, up to seq 5",
        ),
        # Not applicable to a shared subscription: counted, not illegal.
        ("delivered_out_of_order", True, "main", "pool", "p0", 1): (
            "after_higher_seq",
            "stored at 5:2:-1 and first delivered to consumer-0 after a message stored behind it, up to seq 5",
        ),
    }


@planted()
def delivered_out_of_order_at_one_time(history):
    # Of two deliveries to one incarnation at the same microsecond the arrival tells the order.
    three, five = (history.rows("deliveries", "p0", seq, subscription="audit")[0] for seq in (3, 5))
    three.update(received_at=five["received_at"], arrival=five["arrival"] + 1, acknowledged_at=None)
    return {
        ("delivered_out_of_order", False, "main", "audit", "p0", 3): (
            "after_higher_seq",
            "stored at 5:6:-1 and first delivered to consumer-0 after a message stored behind it, up to seq 5",
        )
    }


@planted()
def position_regressed(history):
    # Acked at a place in an older segment than what was acked before it was sent.
    for table in ("publishes", "stored", "deliveries"):
        for row in history.rows(table, "p1", 5):
            row["segment"] = SEGMENT - 1
            row["key"] = "a-key-of-its-own"
    return {
        ("position_regressed", False, "main", None, "p1", 5): (
            "lower_position",
            "acked at 4:11:-1 though the ack for 5:10:-1 was settled before it was sent",
        )
    }


@planted()
def position_regressed_to_the_same_position(history):
    # The broker named the place of p0/5, which it had acked before p1/5 was sent.
    entry = history.rows("stored", "p0", 5)[0]["offset"]
    for table in ("publishes", "stored", "deliveries"):
        for row in history.rows(table, "p1", 5):
            row["offset"] = entry
    return {
        ("position_regressed", False, "main", None, "p1", 5): (
            "same_position",
            "acked at 5:10:-1 though the ack for 5:10:-1 was settled before it was sent",
        ),
        ("position_conflict", False, "main", None, "p0", 5): (
            "shared_position",
            "shares the position 5:10:-1 with message p1/5",
        ),
        ("position_conflict", False, "main", None, "p1", 5): (
            "shared_position",
            "shares the position 5:10:-1 with message p0/5",
        ),
    }


# What is not --------------------------------------------------------------------------------------------------------


@planted(REPLICATED)
def not_sent(history):
    # No place has it that it would have had to reach.
    for seq in (4, 5):
        hold_back(history, "p1", seq)
        history.forget("stored", "p1", seq)
        history.forget("deliveries", "p1", seq)
    return {}


@planted()
def not_sent_by_a_later_process(history):
    # The first process had no answer, so that the message may be there and is no surprise.
    history.never_answer("p0", 3)
    history.publish(at=9000, producer="p0", seq=3, epoch=1)
    hold_back(history, "p0", 3, epoch=1)
    return {}


@planted()
def unknown_that_turns_up(history):
    history.never_answer("p0", 3)["settled_at"] = None
    return {}


@planted()
def unknown_that_does_not_turn_up(history):
    history.never_answer("p0", 3)
    history.forget("stored", "p0", 3)
    history.forget("deliveries", "p0", 3)
    return {}


@planted()
def failed_and_not_stored(history):
    history.never_answer("p0", 3, "failed")
    history.forget("stored", "p0", 3)
    history.forget("deliveries", "p0", 3)
    return {}


@planted()
def deduplicated_retry_without_a_position(history):
    history.never_answer("p0", 3)
    history.publish(producer="p0", seq=3, epoch=1, at=20_000, segment=None, offset=None)
    history.rows("publishes", "p1", 1)[0].update(segment=-1, offset=-1)
    return {}


@planted()
def the_same_position_read_twice(history):
    # A reader that connects again reads on from where it was, at worst from the same entry.
    history.stored.append(dict(history.rows("stored", "p0", 3)[0]))
    return {}


@planted()
def one_of_two_acks_names_the_place(history):
    history.publish(producer="p0", seq=5, epoch=1, at=50_000, segment=SEGMENT + 1, offset=0)
    return {}


@planted()
def batch_mates(history):
    entry = history.next_entry()
    for index, seq in enumerate((6, 7, 8)):
        place = {"producer": "p0", "seq": seq, "key": "p0-key-0", "offset": entry, "batch_index": index}
        history.publish(**place, segment=SEGMENT, at=40_000)
        history.store(**place)
        for subscription in ("audit", "pool"):
            history.deliver(**place, subscription=subscription, at=41_000)
    return {}


@planted()
def a_batch_index_of_minus_one(history):
    history.rows("stored", "p0", 3)[0]["batch_index"] = -1
    return {}


@planted()
def acked_at_the_same_time_as_the_next_was_sent(history):
    # Neither is before the other, so the lower position proves nothing.
    four, five = history.rows("publishes", "p0", 4)[0], history.rows("publishes", "p0", 5)[0]
    for table in ("publishes", "stored", "deliveries"):
        for seq, entry in ((4, five["offset"]), (5, four["offset"])):
            for row in history.rows(table, "p0", seq):
                row["moved_to"] = entry
    for table in ("publishes", "stored", "deliveries"):
        for seq in (4, 5):
            for row in history.rows(table, "p0", seq):
                row["offset"] = row.pop("moved_to")
    for row in history.publishes:
        if row["topic"] == history.topic and row["seq"] >= 4:
            row.update(sent_at=four["sent_at"], settled_at=four["settled_at"])
    five["sent_at"] = four["settled_at"]
    return {}


@planted()
def a_clock_that_is_set_back_while_a_consumer_receives(history):
    # Within an incarnation the order is the arrival.
    for row in history.rows("deliveries", "p0", 3):
        row.update(received_at=row["received_at"] - 2_000_000, acknowledged_at=None)
    return {}


@planted()
def a_clock_that_is_set_back_while_an_attempt_is_under_way(history):
    # Its own ack seems to have been settled before it was sent.
    row = history.rows("publishes", "p0", 5)[0]
    row["settled_at"] = row["sent_at"] - 2_000_000
    return {}


@planted()
def a_message_without_a_key(history):
    for table in ("publishes", "stored", "deliveries"):
        history.rows(table, "p0", 3)[0]["key"] = None
    for row in history.rows("deliveries", "p0", 3):
        row["key"] = None
    return {}


@planted()
def messages_without_positions(history):
    for seq in (2, 3):
        for table in ("publishes", "stored", "deliveries"):
            for row in history.rows(table, "p0", seq):
                row.update(segment=None, offset=None, batch_index=None)
    return {}


@planted()
def delivered_before_a_lower_seq_and_stored_without_a_position(history):
    # Nothing says that it is stored behind the other one.
    for table in ("publishes", "stored", "deliveries"):
        for row in history.rows(table, "p0", 3):
            row.update(segment=None, offset=None, batch_index=None)
    for subscription in ("audit", "pool"):
        one, three = (history.rows("deliveries", "p0", seq, subscription=subscription)[0] for seq in (1, 3))
        for name in ("arrival", "received_at", "acknowledged_at"):
            one[name], three[name] = three[name], one[name]
    return {}


@planted()
def delivered_from_where_an_unread_log_may_hold_it(history):
    history.rows("deliveries", "p1", 5, subscription="audit")[0]["offset"] = 999
    history.not_read_to_end()
    return {}


@planted()
def stored_elsewhere_in_a_log_that_was_not_read_to_its_end(history):
    # The log may hold it at the position that the ack named, too.
    entry = history.next_entry()
    for table in ("stored", "deliveries"):
        for row in history.rows(table, "p1", 5):
            row["offset"] = entry
    history.not_read_to_end()
    return {}


@planted()
def messages_of_two_keys_cross(history):
    # 2 and 3 have different keys; nothing is promised between them.
    for row in history.rows("deliveries", "p0", 2):
        row.update(received_at=history.rows("deliveries", "p0", 3)[0]["received_at"] + 10, acknowledged_at=None)
    return {}


@planted()
def a_subscription_that_the_scenario_does_not_know(history):
    row = history.rows("stored", "p0", 3)[0]
    history.deliver(producer="p0", seq=3, key=row["key"], offset=row["offset"], subscription="curious", at=9_000)
    return {}


@planted()
def stored_where_it_did_not_have_to_be(history):
    # It was published, so it is no phantom, and `far` has to get what is stored in its cluster.
    history.store(producer="p0", seq=3, cluster="other", offset=0)
    return {
        ("undelivered", False, "other", "far", "p0", 3): (
            "never_delivered",
            "stored at 5:0:-1 and never delivered to far, which drained",
        )
    }


@pytest.mark.parametrize("name", PLANTS)
def test_exactly_what_was_planted_is_found(judged, name):
    result, expected = judged

    assert result.findings(PLANTS[name][0]) == expected[name]


def test_every_row_names_its_run(judged):
    result, _ = judged

    assert {row["run_id"] for row in result.table("anomalies")} == {"r1"}


def test_every_anomaly_is_planted(judged):
    from brokerproof.experiment.guarantees import Anomaly

    _, expected = judged

    # test_outputs.py plants those of outputs, and test_turns.py those of consumers that take turns.
    assert {each[0] for found in expected.values() for each in found} == {
        anomaly for anomaly in Anomaly if not anomaly.facts.of_outputs and anomaly.facts.only_at is None
    }


def test_an_unknown_message_that_turned_up_is_recovered_in_its_log_only(judged):
    result, _ = judged
    topic = PLANTS["unknown-that-turns-up"][0]

    rows = [row for row in result.table("messages") if row["topic"] == topic and row["recovered"]]

    assert [(row["subscription"], row["producer"], row["seq"]) for row in rows] == [(None, "p0", 3)]


@pytest.mark.parametrize(
    ("name", "seq", "sent_at"),
    [
        ("one-of-two-acks-names-the-place", 5, 50_000),
        ("deduplicated-retry-without-a-position", 3, 20_000),
        # Its other attempt failed, so that it proves nothing.
        ("lost-though-one-of-two-attempts-failed", 3, 6_000),
    ],
)
def test_a_message_must_exist_from_the_sending_of_the_last_attempt_that_was_acked(judged, name, seq, sent_at):
    result, _ = judged

    rows = [row for row in result.table("messages") if row["topic"] == PLANTS[name][0]]

    assert {row["sent_at"] for row in rows if (row["producer"], row["seq"]) == ("p0", seq)} == {sent_at}


def test_there_is_one_row_for_every_message_and_place(judged):
    result, _ = judged
    topic = PLANTS["nothing-in-two-clusters"][0]

    rows = [row for row in result.table("messages") if row["topic"] == topic]

    places = [(row["producer"], row["seq"], row["cluster"], row["subscription"]) for row in rows]
    expected = {
        (f"p{number}", seq, *place)
        for number in range(2)
        for seq in range(6)
        for place in (("main", None), ("main", "audit"), ("main", "pool"), ("other", None), ("other", "far"))
    }
    assert len(places) == len(set(places))
    assert set(places) == expected
    assert {(row["copies"], row["home"], row["outcome"]) for row in rows} == {(1, "main", "acked")}


def test_counts_agree_with_the_tables(judged):
    result, _ = judged
    counts, anomalies = result.judgement["counts"], result.table("anomalies")

    assert counts["illegal"]["lost"] == sum(row["anomaly"] == "lost" for row in anomalies)
    assert counts["legal"]["stored_twice"] == sum(row["anomaly"] == "stored_twice" for row in anomalies)
    home = [row for row in result.table("messages") if row["subscription"] is None and row["cluster"] == row["home"]]
    not_sent = [row for row in home if row["outcome"] == "not_sent"]
    assert counts["messages"] == len(home) - len(not_sent)
    assert counts["not_sent"] == len(not_sent) == 4
    assert {(row["attempts"], row["sent_at"]) for row in not_sent} == {(0, None)}
    attempts = [row for row in result.table("publishes") if row["outcome"] != "not_sent"]
    assert counts["publishes"] == len(attempts) == sum(row["attempts"] for row in home)
    assert counts["recovered"] == sum(row["recovered"] for row in home)
    assert counts["acked"] + counts["failed"] + counts["unknown"] == counts["messages"]


def test_a_run_without_messages_has_counts_of_zero(spark, tmp_path):
    counts = Judged(spark, tmp_path / "run", History()).judgement["counts"]

    assert {name: count for name, count in counts.items() if name not in ("legal", "illegal")} == dict.fromkeys(
        (*TOTALS, "not_sent"), 0
    )


def test_what_a_subscription_got_before_it_moved_has_no_order_where_it_moved_to(spark, tmp_path):
    history = History(
        clusters=("main", "other"),
        faults=[{"name": "gone", "kind": "kill", "targets": {"cluster": "main"}, "heal_at_s": 30}],
        workload={"namespace": REPLICATED},
        subscriptions=[
            {"name": "mover", "cluster": "main", "replicated": True, "moves": {"to": "other", "after": "gone"}}
        ],
    )
    history.topic = f"persistent://{REPLICATED}/orders"
    history.clean(producers=1, key="k")
    for seq in (4, 5):
        history.forget("deliveries", "p0", seq)
    # It got 0 to 3 before, and gets 2 and 3 again. It gets 4 first after 5, which is stored behind it.
    for number, seq in enumerate((2, 5, 3, 4)):
        (copy,) = history.rows("stored", "p0", seq, cluster="other")
        place = {name: copy[name] for name in ("cluster", "segment", "offset")}
        at = 50_000 + number
        history.deliver(producer="p0", seq=seq, key="k", subscription="mover", incarnation=1, at=at, **place)

    judged = Judged(spark, tmp_path / "run", history)

    assert judged.anomalies(history.topic) == {("delivered_out_of_order", False, "other", "mover", "p0", 4)}


def test_a_message_that_names_a_negative_seq_is_shown_with_it(spark, tmp_path):
    history = History().clean()
    history.store(producer="p9", seq=-3, offset=history.next_entry())
    found = Judged(spark, tmp_path / "run", history).anomalies(history.topic)
    assert found == {("phantom", False, "main", None, "p9", -3)}


@pytest.mark.parametrize("seq", [None, 0, 5])
def test_a_message_without_a_producer_is_shown_with_its_seq(spark, tmp_path, seq):
    history = History().clean()
    history.store(producer=None, seq=seq, offset=history.next_entry())
    found = Judged(spark, tmp_path / "run", history).anomalies(history.topic)
    assert found == {("phantom", False, "main", None, None, seq)}


def test_a_subscription_drains_in_its_own_cluster_and_not_in_another_one_of_its_name(spark, tmp_path):
    subscriptions = [{"name": "twin"}, {"name": "twin", "cluster": "other"}]
    history = History(clusters=("main", "other"), subscriptions=subscriptions)
    history.topic = f"persistent://tenant/{REPLICATED}/twins"
    history.clean()
    history.forget("deliveries", "p0", 3)
    history.not_drained("twin", "other")
    found = Judged(spark, tmp_path / "run", history).anomalies(history.topic)
    assert found == {
        ("undelivered", False, "main", "twin", "p0", 3),
        ("unproven", True, "other", "twin", "p0", 3),
    }
