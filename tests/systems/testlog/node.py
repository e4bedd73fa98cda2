"""Terms and elections as in Raft (Ongaro and Ousterhout 2014), without the parts that tests do not need.

One log is replicated for all topics. Three rules go beyond the paper's core:
* A node begins a term only if a majority would elect it. So a node that was cut off or frozen disturbs no leader.
* A node that heard from a leader votes for no other node within `_LOYALTY_S`. This gives the leader its lease.
* A node with empty disks votes only after a leader has sent it all entries, or if all other nodes are empty too.
"""

from __future__ import annotations

import logging
import math
import random
import time
from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import Protocol

from testlog.ballot import Ballot
from testlog.configuration import ServerConfiguration
from testlog.leadership import Leadership
from testlog.log import split_entries
from testlog.peer import Peer
from testlog.replica import Replica
from testlog.session import Handler, Request
from testlog.topics import Topics
from testlog.wire import Content

# How long a node votes for no other node after it heard from a leader.
_LOYALTY_S = 1.0
# Seconds until a node campaigns: after a leader's last request, after the very first start, and after a lost election.
_ELECTION_S = (1.0, 1.5)
_FIRST_ELECTION_S = (0.02, 0.25)
_NEXT_ELECTION_S = (0.2, 0.5)

log = logging.getLogger(__name__)


class RaftRole(StrEnum):
    """The role of a node in its term."""

    FOLLOWER = "follower"
    CANDIDATE = "candidate"
    LEADER = "leader"


class Observer(Protocol):
    """Gets a call when the node's leadership or its topics change."""

    def leadership_won(self) -> None:
        """The node has become the leader."""

    def leadership_lost(self) -> None:
        """The node is no longer the leader."""

    def entries_committed(self) -> None:
        """The topics have changed."""


class LogNode:
    def __init__(self, configuration: ServerConfiguration, topics: Topics, observer: Observer) -> None:
        self.name = configuration.name
        self.peers = [Peer(name, address) for name, address in configuration.peers.items()]
        self._observer = observer
        configuration.data.mkdir(parents=True, exist_ok=True)
        self.replica = Replica(configuration.data, topics, observer.entries_committed)
        self._ballot_file = configuration.data / "ballot.json"
        self.ballot = Ballot.load(self._ballot_file)
        self.role = RaftRole.FOLLOWER
        self.leader: str | None = None
        self.leadership: Leadership | None = None
        now = time.monotonic()
        # A node that has just started may have confirmed a leader's lease shortly before it ended.
        self._heard_at = now if self.ballot.member else -math.inf
        self._election_at = now + random.uniform(*_ELECTION_S)
        # The number of the present campaign. Answers to earlier campaigns are ignored.
        self._campaign = 0
        self._empty_peers: set[str] = set()

    @property
    def handlers(self) -> dict[str, Handler]:
        """The handlers of other nodes' requests, by type of request."""
        return {
            "last_index": lambda request: request.answer({"last_index": self.replica.log.last_index}),
            "vote": self._handle_vote,
            "campaign": self._handle_campaign,
            "append": self._handle_append,
        }

    @property
    def term(self) -> int:
        """The newest term that the node knows."""
        return self.ballot.term

    def tick(self) -> None:
        """Do due work. It is called about twenty times a second."""
        if self.leadership is not None:
            self.leadership.tick()
        elif not self.ballot.member:
            self._ask_to_join()
        elif time.monotonic() >= self._election_at:
            self._stand(trial=True)

    def _ask_to_join(self) -> None:
        """Become a member at once if all nodes are empty, because then there are no entries to receive first."""
        if self.replica.log.last_index == 0 and len(self._empty_peers) == len(self.peers):
            self._save_ballot(replace(self.ballot, member=True))
            self._election_at = time.monotonic() + random.uniform(*_FIRST_ELECTION_S)
            return

        def answered(peer: Peer, content: Content) -> None:
            if content.header["last_index"] == 0:
                self._empty_peers.add(peer.name)
            else:
                self._empty_peers.discard(peer.name)

        for peer in self.peers:
            peer.request({"type": "last_index"}, b"", partial(answered, peer))

    def _stand(self, *, trial: bool, handover: bool = False) -> None:
        """Ask for votes in a new term. On trial, first ask whether a majority would vote for this node."""
        now = time.monotonic()
        self._election_at = now + random.uniform(*_NEXT_ELECTION_S)
        self._campaign += 1
        campaign = self._campaign
        self.leader = None
        if not trial:
            self.role = RaftRole.CANDIDATE
            self._save_ballot(replace(self.ballot, term=self.term + 1, vote=self.name))
        votes = {self.name}

        def count() -> None:
            if 2 * len(votes) <= len(self.peers) + 1:
                return
            if trial:
                self._stand(trial=False)
            else:
                self._lead(votes, now)

        def answered(peer: Peer, content: Content) -> None:
            if content.header["term"] > self.term:
                self._follow(content.header["term"], None)
            elif campaign == self._campaign and content.header["granted"]:
                votes.add(peer.name)
                count()

        request = {
            "type": "vote",
            "term": self.term + 1 if trial else self.term,
            "candidate": self.name,
            "last_index": self.replica.log.last_index,
            "last_term": self.replica.log.last_term,
            "trial": trial,
            "handover": handover,
        }
        for peer in self.peers:
            peer.request(request, b"", partial(answered, peer))
        count()

    def _handle_vote(self, request: Request) -> None:
        header, own = request.header, self.replica.log
        loyal = time.monotonic() - self._heard_at < _LOYALTY_S or self._has_lease()
        granted = False
        if self.ballot.member and (header["handover"] or not loyal):
            # A candidate that lacks entries would remove them from other nodes.
            complete = (header["last_term"], header["last_index"]) >= (own.last_term, own.last_index)
            if header["trial"]:
                granted = complete and header["term"] > self.term
            else:
                if header["term"] > self.term:
                    self._follow(header["term"], None)
                if complete and header["term"] == self.term and self.ballot.vote in (None, header["candidate"]):
                    granted = True
                    self._save_ballot(replace(self.ballot, vote=header["candidate"]))
                    # This vote begins the candidate's lease.
                    self._hear()
        request.answer({"term": self.term, "granted": granted})

    def _handle_campaign(self, request: Request) -> None:
        """Campaign at once, because the leader hands over."""
        if request.header["term"] == self.term and self.ballot.member and self.role is RaftRole.FOLLOWER:
            self._stand(trial=False, handover=True)
        request.answer({"term": self.term})

    def _handle_append(self, request: Request) -> None:
        """Follow the leader, and write the entries that it sends."""
        header, own = request.header, self.replica
        if header["term"] < self.term:
            request.answer({"term": self.term, "match": None, "after": own.log.last_index})
            return
        if header["term"] > self.term or header["leader"] != self.leader:
            self._follow(header["term"], header["leader"])
        self._hear()
        previous = header["previous"]
        after = own.find_gap(previous, header["previous_term"])
        if after is not None:
            request.answer({"term": self.term, "match": None, "after": after})
            return
        entries = split_entries(request.body)
        own.write(previous + 1, entries)
        match = previous + len(entries)
        own.commit_to(min(header["commit"], match))
        # A leader knows which entries are committed only after the first entry of its term is committed.
        if not self.ballot.member and match >= header["commit"] >= header["term_start"]:
            log.info("%s holds everything that is committed, and may vote", self.name)
            self._save_ballot(replace(self.ballot, vote=header["leader"], member=True))
        request.answer({"term": self.term, "match": match})

    def _hear(self) -> None:
        self._heard_at = time.monotonic()
        self._election_at = self._heard_at + random.uniform(*_ELECTION_S)

    def _has_lease(self) -> bool:
        return self.leadership is not None and self.leadership.has_lease()

    def _lead(self, votes: set[str], asked_at: float) -> None:
        log.info("%s leads in term %d", self.name, self.term)
        self._campaign += 1
        self.role, self.leader = RaftRole.LEADER, self.name
        self.leadership = Leadership(
            name=self.name,
            term=self.term,
            replica=self.replica,
            peers=self.peers,
            votes=votes,
            asked_at=asked_at,
            end=lambda term: self._follow(term, None),
        )
        self._observer.leadership_won()
        self.leadership.start()

    def _follow(self, term: int, leader: str | None) -> None:
        """Become a follower in this term, of `leader` if it is known."""
        self._campaign += 1
        self.role, self.leader = RaftRole.FOLLOWER, leader
        if term > self.term:
            self._save_ballot(replace(self.ballot, term=term, vote=None))
        if leader is not None:
            log.info("%s follows %s in term %d", self.name, leader, term)
        leadership, self.leadership = self.leadership, None
        if leadership is not None:
            log.info("%s leads no more", self.name)
            self._election_at = time.monotonic() + random.uniform(*_ELECTION_S)
            leadership.stop()
            self._observer.leadership_lost()

    def _save_ballot(self, ballot: Ballot) -> None:
        ballot.save(self._ballot_file)
        self.ballot = ballot
