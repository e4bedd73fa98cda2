"""What a node does while it leads: it replicates its log, commits what a majority has written, and hands over.

A leader serves for as long as it has a lease: as a majority answered requests that it sent so lately that nobody else
can have been elected. A leader that was frozen finds its lease ended, and neither acknowledges nor shows its old log.
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

# Shorter than the time for which nodes are loyal to a leader that they heard of, in node.py.
_LEASE_S = 0.9
_WITHOUT_MAJORITY_S = 2.0
_HEARTBEAT_S = 0.15
_HANDOVER_S = 1.0
_IN_SYNC_S = 1.0
# Entries that are proposed within this time are sent together.
_LINGER_S = 0.003
_APPEND_BYTES = 1024 * 1024


class _Follower:
    """What the leader knows of another node. Times are those at which requests were sent."""

    def __init__(self, peer: Peer, next_index: int, heard_at: float) -> None:
        self.peer = peer
        # What to send next.
        self.next_index = next_index
        self.busy = False
        self.sent_at = -math.inf
        # The newest request that it answered, and the newest one by which it held everything that was committed then.
        self.heard_at = heard_at
        self.caught_up_at = -math.inf
        self._match_index = 0
        self._connections = peer.connections

    @property
    def match_index(self) -> int:
        """Up to where it holds the leader's log; nothing is known of one that may have come back with empty disks."""
        return self._match_index if self.peer.connected and self._connections == self.peer.connections else 0

    @property
    def in_sync(self) -> bool:
        """Whether it held a moment ago what was committed then."""
        return self.peer.connected and time.monotonic() - self.caught_up_at < _IN_SYNC_S

    def ready(self) -> bool:
        """Whether it can be sent something: one request at a time."""
        if self._connections != self.peer.connections:
            self._connections = self.peer.connections
            self._match_index, self.busy = 0, False
        return self.peer.connected and not self.busy

    def matches(self, index: int) -> None:
        """It holds the leader's log up to this index."""
        self._match_index, self.next_index = index, index + 1

    def lacks(self, after: int) -> None:
        """It does not hold what the leader believed, and should be tried behind `after`."""
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
        """`votes` came from these nodes, which were asked at `asked_at`.

        `end` is called with a term when the leadership is over.
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
        """Whether the node leads for certain, knows everything that was committed, and does not hand over."""
        return self.has_lease() and self._replica.commit_index >= self._term_start and self._handover is None

    def has_lease(self) -> bool:
        """Whether nobody else can have been elected meanwhile."""
        return not self._over and time.monotonic() - self._majority_heard_at() < _LEASE_S

    def in_sync(self) -> list[str]:
        """The nodes that held a moment ago what was committed then."""
        return sorted([self._name, *(follower.peer.name for follower in self._followers if follower.in_sync)])

    def start(self) -> None:
        """Begin the term with an entry of its own, by which entries of earlier terms are committed."""
        self._replica.propose(Entry.with_content(self._term, pack({"kind": TERM_START})), lambda _: None)
        self._replicate()

    def propose(self, header: Header, body: bytes, decided: DecisionCallback) -> None:
        """Append an entry; `decided` is called when it is committed."""
        self._replica.propose(Entry.with_content(self._term, pack(header, body)), decided)
        self._schedule_replication()

    def tick(self) -> None:
        """Send what is due, and end the leadership that no majority knows of any more."""
        now = time.monotonic()
        if now - self._majority_heard_at() > _WITHOUT_MAJORITY_S:
            self._end(self._term)
            return
        for follower in self._followers:
            if now - follower.sent_at >= _HEARTBEAT_S:
                self._replicate_to(follower)
        self._continue_handover()

    def hand_over(self) -> str | None:
        """Begin to give the leadership to another node. Returns its name, None where no other is in sync."""
        followers = [follower for follower in self._followers if follower.in_sync]
        if not followers:
            return None
        to = max(followers, key=lambda follower: follower.match_index)
        self._handover = _Handover(to, time.monotonic() + _HANDOVER_S)
        self._continue_handover()
        return to.peer.name

    def stop(self) -> None:
        """Answers that still come mean nothing any more."""
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
        """Send what the node lacks, or nothing but the leader's word."""
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
        """When the newest requests were sent that a majority, this node among it, has answered."""
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
        """Have the chosen node stand when it holds everything; nothing new is taken in meanwhile."""
        if self._handover is None:
            return
        to, until, asked = self._handover
        if time.monotonic() > until:
            # The lease is not taken up again: the other node may still stand.
            self._end(self._term)
        elif not asked and to.match_index == self._replica.commit_index == self._replica.log.last_index:
            self._handover = _Handover(to, until, asked=True)
            to.peer.request({"type": "campaign", "term": self._term}, b"", lambda _: None)
