"""The work of a leader: it replicates its log, commits entries that a majority has written, and hands over.

A leader serves while it has a lease. It has a lease while a majority has answered requests that it sent less than
`_LEASE_S` ago, because no other node can be elected in this time. After a freeze, a leader's lease is over, so it
neither acknowledges messages nor shows its old log.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from testlog.log import Entry
from testlog.peer import Peer
from testlog.replica import DecisionCallback, Replica
from testlog.topics import TERM_START
from testlog.wire import Content, Header, pack

# The lease is shorter than `_LOYALTY_S` in node.py, so a node that confirmed it cannot vote before it ends.
_LEASE_S = 0.9
_WITHOUT_MAJORITY_S = 2.0
_HEARTBEAT_S = 0.15
_HANDOVER_S = 1.0
_IN_SYNC_S = 1.0
# Entries that are proposed within this time are sent together.
_LINGER_S = 0.003
_APPEND_BYTES = 1024 * 1024


class _Follower:
    """The leader's knowledge about another node. Times are times at which requests were sent."""

    def __init__(self, peer: Peer, next_index: int, heard_at: float) -> None:
        self.peer = peer
        # The index of the first entry to send next.
        self.next_index = next_index
        self.busy = False
        self.sent_at = -math.inf
        # `heard_at`: when the newest answered request was sent. `caught_up_at`: when the newest request was sent whose
        # answer showed that the node held all entries that were committed at that time.
        self.heard_at = heard_at
        self.caught_up_at = -math.inf
        self._match_index = 0
        self._connections = peer.connections

    @property
    def match_index(self) -> int:
        """The index up to which the node holds the leader's log.

        It is 0 without a connection, and after a new one, because the node may have come back with empty disks.
        """
        return self._match_index if self.peer.connected and self._connections == self.peer.connections else 0

    @property
    def in_sync(self) -> bool:
        """Whether the node held all committed entries less than `_IN_SYNC_S` ago."""
        return self.peer.connected and time.monotonic() - self.caught_up_at < _IN_SYNC_S

    def ready(self) -> bool:
        """Whether a request can be sent to the node: it is connected, and no other request is open."""
        if self._connections != self.peer.connections:
            self._connections = self.peer.connections
            self._match_index, self.busy = 0, False
        return self.peer.connected and not self.busy

    def matches(self, index: int) -> None:
        """Note that the node holds the leader's log up to this index."""
        self._match_index, self.next_index = index, index + 1

    def lacks(self, after: int) -> None:
        """Note that the node lacks entries or has others. The next request starts after the index `after`."""
        self._match_index, self.next_index = 0, min(after + 1, self.next_index - 1)


class _Handover(NamedTuple):
    to: _Follower
    until: float
    asked: bool = False


class Leadership:
    """One node's leadership in one term."""

    def __init__(
        self,
        *,
        name: str,
        term: int,
        replica: Replica,
        peers: Sequence[Peer],
        votes: Collection[str],
        asked_at: float,
        end: Callable[[int], None],
    ) -> None:
        """`votes` are the nodes that voted for this one; the monotonic time `asked_at` is when they were asked.

        When the leadership is over, `end` is called with the node's new or present term.
        """
        self._name, self._term, self._replica, self._end = name, term, replica, end
        self._term_start = replica.log.last_index + 1
        self._followers = [
            _Follower(peer, self._term_start, asked_at if peer.name in votes else -math.inf) for peer in peers
        ]
        self._handover: _Handover | None = None
        self._replication: asyncio.TimerHandle | None = None
        self._over = False

    @property
    def serves(self) -> bool:
        """Whether the node has a lease, has applied all entries of earlier terms, and does not hand over."""
        return self.has_lease() and self._replica.commit_index >= self._term_start and self._handover is None

    def has_lease(self) -> bool:
        """Whether it is certain that no other node was elected meanwhile."""
        return not self._over and time.monotonic() - self._majority_heard_at() < _LEASE_S

    def in_sync(self) -> list[str]:
        """Return this node and the nodes that held all committed entries less than `_IN_SYNC_S` ago."""
        return sorted([self._name, *(follower.peer.name for follower in self._followers if follower.in_sync)])

    def start(self) -> None:
        """Begin the term with an entry of this term. When it is committed, all entries of earlier terms are too."""
        self._replica.propose(Entry.with_content(self._term, pack({"kind": TERM_START})), lambda _: None)
        self._replicate()

    def propose(self, header: Header, body: bytes, decided: DecisionCallback) -> None:
        """Append an entry. `decided` is called when it is committed, or when the leadership ends before that."""
        self._replica.propose(Entry.with_content(self._term, pack(header, body)), decided)
        self._schedule_replication()

    def tick(self) -> None:
        """Send due requests. End the leadership if no majority answered within `_WITHOUT_MAJORITY_S`."""
        now = time.monotonic()
        if now - self._majority_heard_at() > _WITHOUT_MAJORITY_S:
            self._end(self._term)
            return
        for follower in self._followers:
            if now - follower.sent_at >= _HEARTBEAT_S:
                self._replicate_to(follower)
        self._continue_handover()

    def hand_over(self) -> str | None:
        """Begin to hand the leadership over. Return the other node's name, or None if no other node is in sync."""
        followers = [follower for follower in self._followers if follower.in_sync]
        if not followers:
            return None
        to = max(followers, key=lambda follower: follower.match_index)
        self._handover = _Handover(to, time.monotonic() + _HANDOVER_S)
        self._continue_handover()
        return to.peer.name

    def stop(self) -> None:
        """End the leadership's work. Later answers to its requests are ignored."""
        self._over = True
        self._replica.give_up_proposals()

    def _schedule_replication(self) -> None:
        if self._replication is None:
            self._replication = asyncio.get_running_loop().call_later(_LINGER_S, self._replicate)

    def _replicate(self) -> None:
        self._replication = None
        if self._over:
            return
        for follower in self._followers:
            self._replicate_to(follower)
        if not self._followers:
            self._advance_commit()

    def _replicate_to(self, follower: _Follower) -> None:
        """Send the entries that the node lacks. Without such entries, the request is only a heartbeat."""
        if not follower.ready():
            return
        log, commit_index, previous = self._replica.log, self._replica.commit_index, follower.next_index - 1
        stored = log.stored_from(follower.next_index, _APPEND_BYTES)
        follower.busy, follower.sent_at = True, time.monotonic()
        sent_at = follower.sent_at

        def answered(content: Content) -> None:
            if self._over:
                return
            if content.header["term"] > self._term:
                self._end(content.header["term"])
                return
            follower.busy, follower.heard_at = False, sent_at
            if content.header["match"] is None:
                follower.lacks(content.header["after"])
                self._replicate_to(follower)
                return
            follower.matches(content.header["match"])
            if follower.match_index >= commit_index:
                follower.caught_up_at = sent_at
            self._advance_commit()
            self._continue_handover()
            if len(stored) > _APPEND_BYTES // 2:
                self._replicate_to(follower)
            elif follower.next_index <= log.last_index:
                self._schedule_replication()

        request = {
            "type": "append",
            "term": self._term,
            "leader": self._name,
            "previous": previous,
            "previous_term": log.term_at(previous),
            "commit": commit_index,
            "term_start": self._term_start,
        }
        follower.peer.request(request, stored, answered)

    def _majority_heard_at(self) -> float:
        """Return the latest time T for which a majority, including this node, answered requests sent at T or later."""
        times = sorted([time.monotonic(), *(follower.heard_at for follower in self._followers)], reverse=True)
        return times[len(times) // 2]

    def _advance_commit(self) -> None:
        if not self.has_lease():
            return
        last = self._replica.log.last_index
        indexes = sorted([last, *(follower.match_index for follower in self._followers)], reverse=True)
        index = indexes[len(indexes) // 2]
        if index >= self._term_start:
            self._replica.commit_to(index)

    def _continue_handover(self) -> None:
        """Ask the chosen node to campaign when it holds all entries. Meanwhile no new messages are taken in."""
        if self._handover is None:
            return
        to, until, asked = self._handover
        if time.monotonic() > until:
            # The leader does not resume its lease, because the other node may still campaign.
            self._end(self._term)
        elif not asked and to.match_index == self._replica.commit_index == self._replica.log.last_index:
            self._handover = _Handover(to, until, asked=True)
            to.peer.request({"type": "campaign", "term": self._term}, b"", lambda _: None)
