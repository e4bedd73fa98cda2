"""The workload of a scenario: the producers of a topic, their rate, and the subscriptions that consume it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter, model_validator

from brokerproof.errors import InputError
from brokerproof.experiment.guarantees import Guarantee, SubscriptionType
from brokerproof.experiment.topology import Topology
from brokerproof.experiment.yaml_models import HYPHENATED, IDENTIFIER, FrozenModel, find_nearest, write_value

# The value of `workload.rate` with which the load finds the highest rate that the topic holds.
MAX_RATE: Literal["max"] = "max"
MOST_RATE = 10_000_000
_NUMBER = TypeAdapter(Annotated[int, Field(ge=1, le=MOST_RATE)])


def _check_rate(value: Any) -> Any:
    if value == MAX_RATE:
        return value
    if isinstance(value, str) and find_nearest(value, [MAX_RATE]):
        raise InputError(f"unknown value `{write_value(value)}`", remedy=f"did you mean `{MAX_RATE}`?")
    # Without this, the union of types below would report two mistakes.
    return _NUMBER.validate_python(value)


# The validator keeps a wrong value one mistake.
Rate = Annotated[int | Literal["max"], BeforeValidator(_check_rate)]


class OnRestart(StrEnum):
    """What a producer that a fault ended does first when it is started again."""

    # It sends each message again that it may have sent and that has neither an ack nor a proven failure: at least once.
    RESEND = "resend"
    # The same, but only of messages behind the last one that the system has stored of this producer.
    CONTINUE = "continue"


class ClientSettings(FrozenModel):
    """The settings that the clients of every messaging system have. A system's own model adds further settings."""

    operation_timeout_s: int = Field(
        30, ge=1, description="the client gives a lookup, a subscribe or the creation of a producer up after this time"
    )
    max_pending: int = Field(
        10_000,
        ge=1,
        description="unanswered messages at which a producer waits; messages that wait until the end are `not_sent`",
    )

    # Null is what producers did before: they go on behind all messages that they may have sent.
    on_restart: OnRestart | None = Field(
        None,
        description="with `resend`, a producer that a fault starts again first sends each message again that has no "
        "answer; with `continue`, only those behind the last one that the system has stored, by its deduplication; "
        "by default it goes on behind these messages",
    )

    @property
    def mixed_keys_remedy(self) -> str | None:
        """Advice to the user on how to keep different keys in different batches.

        None if no batch holds messages of different keys.
        """
        return None


class Client(ClientSettings):
    """The clients' settings as a scenario has them, including fields that only the messaging system knows."""

    # The system reads and checks the other fields.
    model_config = ConfigDict(frozen=True, extra="allow")


class Move(FrozenModel):
    """The move of a subscription's consumers from their cluster to another one after a fault."""

    to: str = Field(description="cluster on which they then subscribe, under the same name")
    after: str = Field(description="name of a fault; they move after its effect")
    after_s: float = Field(5, ge=0, description="seconds from the effect of that fault until they move")


class Commit(StrEnum):
    """When a consumer that writes outputs commits its position: it acknowledges what it received."""

    # The output follows the confirmed ack, so a crash between them loses it: at most once.
    BEFORE = "before"
    # The ack follows the output, so a crash between them repeats it: at least once.
    AFTER = "after"
    # As `after`, and a message's output replaces an earlier one of the same message: exactly once.
    BY_KEY = "by_key"

    @property
    def guarantee(self) -> Guarantee:
        """What a subscription's outputs are promised."""
        return {
            Commit.BEFORE: Guarantee.AT_MOST_ONCE,
            Commit.AFTER: Guarantee.AT_LEAST_ONCE,
            Commit.BY_KEY: Guarantee.EFFECTIVELY_ONCE,
        }[self]


class Acks(StrEnum):
    """How a consumer acknowledges what it has received."""

    INDIVIDUAL = "individual"
    # An ack is also of all messages before it in its partition.
    CUMULATIVE = "cumulative"


class Streaming(StrEnum):
    """When a streaming query that writes outputs commits its position, which only its checkpoint holds.

    After a crash, the query repeats the batch that its checkpoint has begun and not committed.
    """

    # A batch's output follows its commit, so a crash between them loses it: at most once.
    BEFORE = "before"
    # The tasks of a data source write a batch's output before its commit, so a crash repeats it: at least once.
    AFTER = "after"
    # `foreachBatch` writes under names of the batch, so a repeated batch replaces its output: exactly once.
    BY_BATCH = "by_batch"
    # `foreachBatch` writes under new names, so a crash before the commit repeats the batch's output: at least once.
    FOREACH = "foreach"

    @property
    def guarantee(self) -> Guarantee:
        """What a query's outputs are promised."""
        return {
            Streaming.BEFORE: Guarantee.AT_MOST_ONCE,
            Streaming.AFTER: Guarantee.AT_LEAST_ONCE,
            Streaming.BY_BATCH: Guarantee.EFFECTIVELY_ONCE,
            Streaming.FOREACH: Guarantee.AT_LEAST_ONCE,
        }[self]


class Subscription(FrozenModel):
    """A subscription: its type, its consumers, and the clusters on which they subscribe."""

    name: str = Field(pattern=IDENTIFIER)
    type: SubscriptionType = SubscriptionType.FAILOVER
    consumers: int = Field(1, ge=1, le=1_000)
    # Null and not 0, so that runs of before compare with those of today.
    standby: int | None = Field(
        None, ge=1, le=1_000, description="further consumers, which begin when a fault starts them; by default none"
    )
    cluster: str | None = Field(
        None, description="cluster on which it is created; by default the first one of the topology"
    )
    region: str | None = Field(
        None,
        description="region of its consumers, in a topology with links; by default they reach every region directly",
    )
    replicated: bool = Field(
        False, description="its acknowledgements are replicated to the clusters that messages are replicated to"
    )
    moves: Move | None = None
    commit: Commit | None = Field(
        None,
        description="its consumers write an output of each message, and acknowledge the message before it or after it; "
        "`by_key` is after it, with one output for each message; by default they write none",
    )
    acks: Acks | None = Field(
        None,
        description="its consumers acknowledge each message for itself, or each together with all messages before it "
        "in its partition; by default as the system's consumers do, which is `individual` if they can do both",
    )
    streaming: Streaming | None = Field(
        None,
        description="its consumer is a streaming query of Spark, which reads the log by position, commits to its own "
        "checkpoint and has no subscription in the system; the value says how it writes outputs",
    )

    negative_ack_every: int | None = Field(
        None,
        ge=2,
        le=1_000_000,
        description="its consumers answer each message negatively whose number at its producer is divisible by this "
        "one, and get it again later; they acknowledge every message that the system says it had delivered before; "
        "by default they answer none negatively",
    )

    @model_validator(mode="after")
    def _check_exclusive(self) -> Self:
        if self.type is SubscriptionType.EXCLUSIVE and (self.consumers > 1 or self.standby):
            raise InputError(
                "an exclusive subscription takes one consumer",
                field="standby" if self.standby else "consumers",
                remedy="use `failover` or one consumer",
            )
        if self.acks is Acks.CUMULATIVE and self.type in (SubscriptionType.SHARED, SubscriptionType.KEY_SHARED):
            raise InputError(
                f"the consumers of a `{self.type}` subscription each acknowledge their own messages, and a cumulative "
                "ack would be of the others' too",
                field="acks",
                remedy="use `failover` or `exclusive`, or leave it out",
            )
        if self.commit is not None and self.moves is not None:
            raise InputError("a subscription that moves writes no outputs", field="commit", remedy="leave it out")
        if self.streaming is not None:
            plain = Subscription.model_construct(name=self.name)
            for field in (
                "type",
                "consumers",
                "standby",
                "replicated",
                "moves",
                "commit",
                "acks",
                "negative_ack_every",
            ):
                if getattr(self, field) != getattr(plain, field):
                    raise InputError(
                        "a streaming query is one consumer without a subscription in the system",
                        field=field,
                        remedy="leave it out",
                    )
        if self.negative_ack_every is not None:
            for field, refuses in (("type", not self.type.shares_messages), ("commit", self.commit is not None)):
                if refuses:
                    raise InputError(
                        "only a subscription that shares its messages and writes no outputs can answer negatively",
                        field=field,
                        remedy="use `shared` or `key_shared`" if field == "type" else "leave it out",
                    )
        return self

    @property
    def outputs_guarantee(self) -> Guarantee | None:
        """What the outputs of its consumers are promised; None if they write none."""
        way = self.commit or self.streaming
        return None if way is None else way.guarantee

    def find_home(self, topology: Topology) -> str:
        """Return the cluster on which the subscription is created, by default the topology's first cluster."""
        return self.cluster or next(iter(topology.clusters))

    def list_clusters(self, topology: Topology) -> list[str]:
        """Return the clusters on which the subscription has consumers: its home, and one that it moves to, if any."""
        return [self.find_home(topology), *([self.moves.to] if self.moves else [])]


class ClientRole(StrEnum):
    """What a client does."""

    PRODUCER = "producer"
    CONSUMER = "consumer"


_START_S, _MOMENT_S = 60.0, 20.0
# A streaming query starts Java, Spark and five Python processes, 10 s of processor time, and works in batches. Four of
# them that started beside nodes on two processors took 120 s.
_STREAMING_START_S, _STREAMING_MOMENT_S = 300.0, 120.0

# The Spark job that runs the clients of a role.
_JOBS = {ClientRole.PRODUCER: "load", ClientRole.CONSUMER: "consume"}


@dataclass(frozen=True, kw_only=True)
class WorkloadClient:
    """One producer or consumer of the workload. `cluster` is the one on which it begins.

    `label` is its name in scenarios and reports, and belongs to no other client: `name`, or `name@cluster` if the
    consumers of two clusters share the name. `subscription` is empty for a producer.
    """

    role: ClientRole
    # Its number among all clients of its role.
    number: int
    name: str
    cluster: str
    label: str
    subscription: str = ""
    # Whether it begins only when a fault starts it.
    standby: bool = False
    # Whether it is a streaming query of Spark.
    is_streaming: bool = False

    @property
    def client(self) -> str:
        """Its name in the run's directory."""
        return f"{_JOBS[self.role]}-{self.number}"

    @property
    def start_s(self) -> float:
        """The seconds within which a new process of the client is connected."""
        return _STREAMING_START_S if self.is_streaming else _START_S

    @property
    def moment_s(self) -> float:
        """The seconds within which the client is at each moment for which a fault may wait."""
        return _STREAMING_MOMENT_S if self.is_streaming else _MOMENT_S


class Workload(FrozenModel):
    """The topic, its producers and rate, its keys and sizes, and its subscriptions."""

    namespace: str | None = Field(None, description="`tenant/namespace` of the topic, where the system has such")
    topic: str = Field("orders", pattern=HYPHENATED)
    partitions: int = Field(0, ge=0, le=10_000, description="0 for a topic without partitions")
    grows_to: int | None = Field(
        None,
        ge=2,
        le=10_000,
        description="partitions that the topic has after a fault of the kind `grow`; by default their number stays",
    )
    # Null and not true, so that runs of before compare with those of today.
    stored: bool | None = Field(
        None,
        description="`false` for a topic that stores no message: the system passes each one on to the consumers that "
        "are connected, and nothing is read back; it needs `guarantee: at_most_once`",
    )
    rate: Rate = Field(
        1000,
        description="messages per second of all producers of one cluster together; with `max`, the load finds the "
        "highest rate that is held, and then keeps about 90 % of it",
    )
    size: int = Field(200, ge=16, le=5_000_000, description="bytes of payload")
    keys: int = Field(100, ge=1, le=1_000_000, description="different keys; each belongs to one producer")
    # Null, so that runs of before compare with those of today.
    hot_key_share: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="part of each producer's messages that have its first key; by default all keys get equally many",
    )
    producers: int = Field(2, ge=1, le=1_000, description="producers on each of `produce_on`")
    produce_on: list[str] = Field(
        default_factory=list, description="clusters; by default the first one of the topology"
    )
    region: str | None = Field(
        None,
        description="region of the producers, in a topology with links; by default they reach every region directly",
    )
    subscriptions: list[Subscription] = Field(default_factory=lambda: [Subscription(name="audit")])
    client: Client = Client()

    @model_validator(mode="after")
    def _check_keys(self) -> Self:
        if self.grows_to is not None and not 0 < self.partitions < self.grows_to:
            raise InputError(
                f"a topic of {self.partitions} partitions cannot grow to {self.grows_to}",
                field="grows_to",
                remedy="give more than `partitions`, which must not be 0, or leave it out",
            )
        if len(set(self.produce_on)) < len(self.produce_on):
            raise InputError("names a cluster twice", field="produce_on", remedy="name each once")
        if self.keys < self.producer_count:
            raise InputError(
                f"{self.keys} keys are fewer than {self.producer_count} producers; each needs a key of its own",
                field="keys",
                remedy=f"give at least {self.producer_count}",
            )
        if self.hot_key_share is not None and self.keys < 2 * self.producer_count:
            raise InputError(
                "a producer with one key has no other keys beside a hot one",
                field="hot_key_share",
                remedy=f"leave it out, or set `keys` to at least {2 * self.producer_count}",
            )
        return self

    @property
    def producer_count(self) -> int:
        """The number of all producers, on all clusters together."""
        return self.producers * max(1, len(self.produce_on))

    @property
    def target_rate(self) -> float | None:
        """The messages per second that all producers have to publish, on all clusters together.

        None if the load has to find this rate.
        """
        return None if self.rate == MAX_RATE else self.compute_total(self.rate)

    def compute_total(self, rate: float) -> float:
        """Return the messages per second on all clusters together, from those on one cluster."""
        return float(rate * max(1, len(self.produce_on)))

    def describe_rate(self) -> str:
        """Return what the producers of one cluster publish, such as `1,000 messages/s`, before "of 200 bytes"."""
        return "messages at the highest rate that is held," if self.rate == MAX_RATE else f"{self.rate:,} messages/s"

    def list_partitions(self) -> list[int]:
        """Return the numbers of the partitions that the topic has at the end, as in the tables.

        A topic without partitions has the number -1.
        """
        return list(range(self.grows_to or self.partitions)) or [-1]

    def list_first_partitions(self) -> list[int]:
        """Return the numbers of the partitions that the topic has from the beginning on."""
        return list(range(self.partitions)) or [-1]

    @property
    def is_stored(self) -> bool:
        """Whether the topic stores its messages."""
        return self.stored is not False

    @property
    def writes_outputs(self) -> bool:
        """Whether consumers of a subscription write outputs."""
        return any(each.outputs_guarantee is not None for each in self.subscriptions)

    @property
    def known_subscriptions(self) -> list[Subscription]:
        """The subscriptions that the messaging system knows: all but those of streaming queries."""
        return [each for each in self.subscriptions if each.streaming is None]

    def list_homes(self, topology: Topology) -> list[str]:
        """Return the clusters that producers publish to, by default only the topology's first cluster."""
        return self.produce_on or list(topology.clusters)[:1]

    def list_clients(self, topology: Topology, role: ClientRole) -> list[WorkloadClient]:
        """Return the clients of a role, in the order of their numbers."""
        if role is ClientRole.PRODUCER:
            homes = self.list_homes(topology)
            found = [
                ("", home, f"{home}-p{number}", False, False) for home in homes for number in range(self.producers)
            ]
        else:
            found = [
                (each.name, each.find_home(topology), f"{each.name}-c{number}", number >= each.consumers, is_streaming)
                for each in self.subscriptions
                for is_streaming in [each.streaming is not None]
                for number in range(each.consumers + (each.standby or 0))
            ]
        names = Counter(name for _, _, name, *_ in found)
        return [
            WorkloadClient(
                role=role,
                number=number,
                name=name,
                cluster=cluster,
                label=name if names[name] == 1 else f"{name}@{cluster}",
                subscription=subscription,
                standby=standby,
                is_streaming=is_streaming,
            )
            for number, (subscription, cluster, name, standby, is_streaming) in enumerate(found)
        ]
