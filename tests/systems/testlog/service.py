"""What a node answers to clients.

Requests have `type` and `id`, answers the same `id`; answers may come in another order than requests. An answer with
`error` says that nothing was done, but for `unknown` and `bad_request`, which say nothing about that. Errors:
`not_leader` (with `leader`, where it is known), `unknown`, `no_topic`, `no_subscription`, `topic_exists`,
`nobody_in_sync`, `bad_request`.

| type | request | answer |
|---|---|---|
| `ping` | producer, of a connection that publishes | node, role, term, leader, serves |
| `status` | | the same, and member, last_index, commit_index, topics: name → partitions |
| `create_topic` | topic, partitions | |
| `produce` | topic, partition, records; body: payloads | offsets, one a record |
| `fetch` | topic, partition, offset, wait_ms, most_bytes | records, next, end; body: payloads |
| `log_ends` | topic | ends, one a partition |
| `subscribe` | topic, subscription | committed, one a partition |
| `subscription` | topic, subscription | committed, backlog (messages), one a partition each |
| `commit` | topic, subscription, offsets (partition → next offset) | |
| `hand_over` | | to |

`ping` and `status` are answered by every node, everything else by the leader alone. A partition in `status` has end,
messages, taken_in (from producers, since the node leads) and in_sync (names of nodes; null where the node does not
lead). A record is a row of number, producer, seq, key, headers, time of publishing in microseconds, and length of its
payload; see record.py. Ends, `next` and committed offsets are exclusive.
"""

from __future__ import annotations

from testlog.configuration import ServerConfiguration
from testlog.fetches import Fetches
from testlog.leadership import Leadership
from testlog.node import LogNode
from testlog.publishes import Publishes
from testlog.replica import DecisionCallback
from testlog.session import Handler, Request, Session
from testlog.topics import COMMIT, SUBSCRIPTION, TOPIC, LogPartition, Topic, Topics
from testlog.wire import Header


class _RefusalError(Exception):
    """A request that is refused, with an error and facts about it."""

    def __init__(self, error: str, **facts: object) -> None:
        super().__init__(error)
        self.error, self.facts = error, facts


class Service:
    """The clients' side of a node."""

    def __init__(self, configuration: ServerConfiguration) -> None:
        self._topics = Topics()
        self.node = LogNode(configuration, self._topics, self)
        self._publishes = Publishes(configuration, self._propose)
        self._fetches = Fetches(self.node.replica.log.content_at)
        # By producer, the connection that it has published on since the node leads.
        self._producers: dict[str, Session] = {}

    @property
    def handlers(self) -> dict[str, Handler]:
        """What clients ask, by type of request."""
        return {
            "ping": self._ping,
            "status": lambda request: request.answer(self._identity() | self._status()),
            "produce": self._produce,
            "fetch": self._as_leader(self._fetch),
            "log_ends": self._as_leader(self._log_ends),
            "create_topic": self._as_leader(self._create_topic),
            "subscribe": self._as_leader(self._subscribe),
            "subscription": self._as_leader(self._subscription),
            "commit": self._as_leader(self._commit),
            "hand_over": self._as_leader(self._hand_over),
        }

    def tick(self) -> None:
        """Do what is due; called some twenty times a second."""
        self.node.tick()
        self._publishes.write_overdue()
        self.entries_committed()

    def leadership_won(self) -> None:
        """Count what is taken in anew."""
        self._publishes.count_anew()
        self._refuse_producers()

    def leadership_lost(self) -> None:
        """Answer everybody who waits."""
        self._publishes.give_up()
        self._refuse_producers()
        for request in self._fetches.give_up():
            self._refuse_as_follower(request)

    def entries_committed(self) -> None:
        """Answer whoever waits for messages that are there now."""
        if self._leadership() is not None:
            self._fetches.answer()

    def _ping(self, request: Request) -> None:
        producer = request.header.get("producer")
        if producer is not None and self._leadership() is not None:
            # What is still unread of its connection before came first, and must not come behind what follows now.
            before = self._producers.get(producer)
            if before is not None and before is not request.session:
                before.refuses_messages = True
            self._producers[producer] = request.session
        request.answer(self._identity())

    def _refuse_producers(self) -> None:
        """Messages that a connection sent for one leadership are none of another, before which others may have led."""
        for session in self._producers.values():
            session.refuses_messages = True
        self._producers.clear()

    def _identity(self) -> Header:
        node = self.node
        return {
            "node": node.name,
            "role": node.role,
            "term": node.term,
            "leader": node.leader,
            "serves": self._leadership() is not None,
        }

    def _status(self) -> Header:
        node = self.node
        in_sync = None if node.leadership is None else node.leadership.in_sync()

        def status(name: str, number: int, partition: LogPartition) -> Header:
            return {
                "end": partition.end,
                "messages": partition.messages,
                "taken_in": self._publishes.taken_in((name, number)),
                "in_sync": in_sync,
            }

        return {
            "member": node.ballot.member,
            "last_index": node.replica.log.last_index,
            "commit_index": node.replica.commit_index,
            "topics": {
                name: [status(name, number, partition) for number, partition in enumerate(topic.partitions)]
                for name, topic in self._topics.by_name.items()
            },
        }

    def _as_leader(self, handler: Handler) -> Handler:
        """The handler of a request that only a leader answers."""

        def handle(request: Request) -> None:
            if self._leadership() is None:
                self._refuse_as_follower(request)
                return
            try:
                handler(request)
            except _RefusalError as refusal:
                request.refuse(refusal.error, **refusal.facts)

        return handle

    def _refuse_as_follower(self, request: Request) -> None:
        leader = self.node.leader
        request.refuse("not_leader", leader=None if leader == self.node.name else leader)

    def _produce(self, request: Request) -> None:
        # A message behind a refused one would stand before it in the log, and so would one of a connection that its
        # producer has given up for another one.
        if request.session.refuses_messages or self._leadership() is None:
            request.session.refuses_messages = True
            self._refuse_as_follower(request)
            return
        topic, partition = request.header["topic"], request.header["partition"]
        if topic not in self._topics.by_name or partition >= len(self._topics.by_name[topic].partitions):
            request.refuse("no_topic", detail=f"{topic}, partition {partition}")
            return
        self._publishes.take(request, (topic, partition))

    def _fetch(self, request: Request) -> None:
        self._fetches.take(request, self._topic(request).partitions[request.header["partition"]])

    def _log_ends(self, request: Request) -> None:
        request.answer({"ends": [partition.end for partition in self._topic(request).partitions]})

    def _create_topic(self, request: Request) -> None:
        count = int(request.header["partitions"])
        if count < 1:
            raise ValueError(f"a topic of {count} partitions")
        self._order(request, {"kind": TOPIC, "topic": request.header["topic"], "partitions": count})

    def _subscribe(self, request: Request) -> None:
        topic, name = self._topic(request), request.header["subscription"]

        def decided(result: Header | None) -> None:
            if result is None:
                request.refuse("unknown")
            else:
                request.answer({"committed": topic.subscriptions[name]})

        entry = {"kind": SUBSCRIPTION, "topic": request.header["topic"], "subscription": name}
        self._propose(entry, b"", decided)

    def _subscription(self, request: Request) -> None:
        topic = self._topic(request)
        committed = self._committed(request, topic)
        backlog = [
            partition.messages_from(offset) for partition, offset in zip(topic.partitions, committed, strict=True)
        ]
        request.answer({"committed": committed, "backlog": backlog})

    def _commit(self, request: Request) -> None:
        topic = self._topic(request)
        self._committed(request, topic)
        offsets = {str(int(partition)): int(offset) for partition, offset in request.header["offsets"].items()}
        for partition, offset in offsets.items():
            if not 0 <= offset <= topic.partitions[int(partition)].end:
                raise ValueError(f"offset {offset} of partition {partition} does not exist")
        entry = {
            "kind": COMMIT,
            "topic": request.header["topic"],
            "subscription": request.header["subscription"],
            "offsets": offsets,
        }
        self._order(request, entry)

    def _hand_over(self, request: Request) -> None:
        leadership = self._leadership()
        to = None if leadership is None else leadership.hand_over()
        if to is None:
            raise _RefusalError("nobody_in_sync")
        request.answer({"to": to})

    def _order(self, request: Request, entry: Header) -> None:
        """Append an entry, and answer with what applying it returned."""

        def decided(result: Header | None) -> None:
            request.answer({"error": "unknown"} if result is None else result)

        self._propose(entry, b"", decided)

    def _propose(self, entry: Header, body: bytes, decided: DecisionCallback) -> None:
        leadership = self.node.leadership
        if leadership is None:
            decided(None)
        else:
            leadership.propose(entry, body, decided)

    def _leadership(self) -> Leadership | None:
        """The node's leadership, where it leads for certain."""
        leadership = self.node.leadership
        return leadership if leadership is not None and leadership.serves else None

    def _topic(self, request: Request) -> Topic:
        topic = self._topics.by_name.get(request.header["topic"])
        if topic is None:
            raise _RefusalError("no_topic", detail=request.header["topic"])
        return topic

    def _committed(self, request: Request, topic: Topic) -> list[int]:
        committed = topic.subscriptions.get(request.header["subscription"])
        if committed is None:
            raise _RefusalError("no_subscription", detail=request.header["subscription"])
        return committed
