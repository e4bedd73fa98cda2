"""A node's answers to clients.

A request has `type` and `id`, and its answer has the same `id`. Answers may come in another order than requests. After
the errors `unknown` and `bad_request`, the request may or may not have been done. After all other errors, it was not
done: `not_leader` (with `leader`, if it is known), `no_topic`, `no_subscription`, `topic_exists`, `nobody_in_sync`.

| type | request | answer |
|---|---|---|
| `ping` | producer, if the connection publishes | node, role, term, leader, serves |
| `status` | | the same, and member, last_index, commit_index, topics: name → partitions |
| `create_topic` | topic, partitions | |
| `produce` | topic, partition, records; body: payloads | offsets, one per record |
| `fetch` | topic, partition, offset, wait_ms, most_bytes | records, next, end; body: payloads |
| `log_ends` | topic | ends, one per partition |
| `subscribe` | topic, subscription | committed, one per partition |
| `subscription` | topic, subscription | committed and backlog (messages), one each per partition |
| `commit` | topic, subscription, offsets (partition → next offset) | |
| `hand_over` | | to |

Every node answers `ping` and `status`; only the leader answers the other requests. A partition in `status` has end,
messages, taken_in (from producers, since the leadership began) and in_sync (names of nodes; null if the node does not
lead). A record is a row of number, producer, seq, key, headers, time of publishing in microseconds, and length of the
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
    """A request is refused. `error` and `facts` become the answer."""

    def __init__(self, error: str, **facts: object) -> None:
        super().__init__(error)
        self.error, self.facts = error, facts


class Service:
    """A node's part that answers clients."""

    def __init__(self, configuration: ServerConfiguration) -> None:
        self._topics = Topics()
        self.node = LogNode(configuration, self._topics, self)
        self._publishes = Publishes(configuration, self._propose)
        self._fetches = Fetches(self.node.replica.log.content_at)
        # {producer: the connection on which it has published since the leadership began}
        self._producers: dict[str, Session] = {}

    @property
    def handlers(self) -> dict[str, Handler]:
        """The handlers of clients' requests, by type of request."""
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
        """Do due work. It is called about twenty times a second."""
        self.node.tick()
        self._publishes.write_overdue()
        self.entries_committed()

    def leadership_won(self) -> None:
        self._publishes.count_anew()
        self._refuse_producers()

    def leadership_lost(self) -> None:
        """Answer all waiting requests."""
        self._publishes.give_up()
        self._refuse_producers()
        for request in self._fetches.give_up():
            self._refuse_as_follower(request)

    def entries_committed(self) -> None:
        """Answer the fetches for which there are messages now."""
        if self._leadership() is not None:
            self._fetches.answer()

    def _ping(self, request: Request) -> None:
        producer = request.header.get("producer")
        if producer is not None and self._leadership() is not None:
            # Unread messages on the producer's earlier connection were sent first. They must not be written after
            # messages of the new connection.
            before = self._producers.get(producer)
            if before is not None and before is not request.session:
                before.refuses_messages = True
            self._producers[producer] = request.session
        request.answer(self._identity())

    def _refuse_producers(self) -> None:
        """Refuse messages that connections sent to an earlier leadership, because other nodes may have led since."""
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
        """Return the handler, which refuses the request if this node does not lead."""

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
        # A producer sends a refused message again. A later message of the same connection would come before it in the
        # log. So would a message of a connection that its producer has replaced.
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
        """Append an entry, and answer with the result of applying it."""

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
        """Return the node's leadership if it serves, otherwise None."""
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
