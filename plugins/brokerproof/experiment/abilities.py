"""Abilities: things that some messaging systems can do and others cannot.

Each metric, anomaly and kind of fault names the ability that it needs, if any. `systems/abilities.py` finds the
abilities that follow from a system's methods. The system declares its other abilities.

A metric or anomaly whose ability the system lacks is not measured, and no task waits for it. Reports show it as "not
applicable", never as `passed`. A scenario that names it is refused before the run.
"""

from __future__ import annotations

from enum import StrEnum


class Ability(StrEnum):
    STORAGE = "storage"
    UNSTORED_TOPICS = "unstored_topics"
    POSITIONS = "positions"
    COPIES = "copies"
    COORDINATORS = "coordinators"
    UNDER_REPLICATION = "under_replication"
    REPAIR = "repair"
    READ_COUNTERS = "read_counters"
    REASSIGNMENT = "reassignment"
    SPLITS = "splits"
    GROWTH = "growth"
    CONFIRMED_ACKS = "confirmed_acks"
    INDIVIDUAL_ACKS = "individual_acks"
    CUMULATIVE_ACKS = "cumulative_acks"
    MEMBERSHIP = "membership"
    NEGATIVE_ACKS = "negative_acks"
    REPLICATION = "replication"
    REPLICATED_SUBSCRIPTIONS = "replicated_subscriptions"
    MOVING_SUBSCRIPTIONS = "moving_subscriptions"
    DEDUPLICATION = "deduplication"
    IMAGES = "images"
    LINKS = "links"

    @property
    def meaning(self) -> str:
        """The words that complete the sentence "the system cannot …"."""
        return _MEANINGS[self]

    @property
    def needs_storage(self) -> bool:
        """Whether it is about stored messages, so that a topic that stores none lacks it."""
        return self in _OF_STORED_MESSAGES


_MEANINGS = {
    Ability.STORAGE: "store a topic's messages",
    Ability.UNSTORED_TOPICS: "serve a topic without storing its messages",
    Ability.POSITIONS: "say at which position of the log it stored a message",
    Ability.COPIES: "say which nodes hold the copies of a topic's log",
    Ability.COORDINATORS: "say which of the nodes that coordinate it leads the others",
    Ability.UNDER_REPLICATION: "say how much of its data lacks a copy",
    Ability.REPAIR: "make a lost copy anew by itself",
    Ability.READ_COUNTERS: "count the bytes that each node writes, and reads from its disks",
    Ability.REASSIGNMENT: "take a topic from its owner, so that another node owns it",
    Ability.GROWTH: "give a topic more partitions",
    Ability.SPLITS: "split a group of topics that has one owner",
    Ability.CONFIRMED_ACKS: "say up to which position a subscription has acknowledged",
    Ability.INDIVIDUAL_ACKS: "acknowledge a message without those before it",
    Ability.CUMULATIVE_ACKS: "acknowledge a message together with all those before it",
    Ability.MEMBERSHIP: "say which consumers are connected to a subscription",
    Ability.NEGATIVE_ACKS: "deliver a message again that a consumer answered negatively",
    Ability.REPLICATION: "send what is published in one cluster to another one",
    Ability.REPLICATED_SUBSCRIPTIONS: "make what a subscription acknowledged known to another cluster",
    Ability.MOVING_SUBSCRIPTIONS: "let a subscription go on in another cluster",
    Ability.DEDUPLICATION: "store a message once that its producer sends again",
    Ability.IMAGES: "be started from an image",
    Ability.LINKS: "use links between regions",
}

_OF_STORED_MESSAGES = frozenset(
    {
        Ability.STORAGE,
        Ability.POSITIONS,
        Ability.COPIES,
        Ability.CONFIRMED_ACKS,
        Ability.NEGATIVE_ACKS,
        Ability.REPLICATION,
        Ability.REPLICATED_SUBSCRIPTIONS,
        Ability.MOVING_SUBSCRIPTIONS,
        Ability.DEDUPLICATION,
        Ability.GROWTH,
    }
)
