"""Models and types of the answers of Pulsar's nodes. They check the fields that are read and ignore all others.

A node that is starting, ending or cut off from other nodes may answer anything, such as a page of HTML, or a number as
text. So the types are strict: they convert no value. Each `TypeAdapter` is made only once, because making it takes
120 µs and using it 2 µs.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlparse

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PlainValidator,
    TypeAdapter,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

# The largest value of Java's `long`.
_HIGHEST = 2**63 - 1
# An open topic has a ledger, so the ledger of its positions is never -1. The entry is -1 before a ledger's first entry.
_POSITION = re.compile(r"([0-9]{1,18}):(-1|[0-9]{1,18})")
# A time with its date, such as `2026-11-30T20:40:00.123Z`.
_MOMENT = re.compile(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(Z|[+-][0-9:]+)$")
_NODE = re.compile(r"([^\s/<>]+):[0-9]{1,5}")
# BookKeeper's answer, with status 404, if no ledger lacks a copy. BookKeeper also answers 404 if it could not find out,
# so the text is compared (`ListUnderReplicatedLedgerService`).
NO_UNDER_REPLICATED_LEDGERS = "No under replicated ledgers found"
# A bundle's range of hashes, as paths of the admin REST have it.
BUNDLE = re.compile(r"0x[0-9a-f]{8}_0x[0-9a-f]{8}")
# The answer, with status 200, of a healthy or ready broker, and of a ready bookie (`OK`).
HEALTHY = re.compile(r"ok", re.IGNORECASE)


class EntryPosition(NamedTuple):
    """The position of an entry in a topic's log; `LEDGER:ENTRY` in Pulsar's answers."""

    ledger: int
    entry: int

    def __str__(self) -> str:
        return f"{self.ledger}:{self.entry}"


def parse_position(text: object) -> EntryPosition:
    """Return the position that `LEDGER:ENTRY` names. Raises ValueError, also for `-1:-1`, which is no position."""
    match = _POSITION.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise PydanticCustomError("position", "Input should be a position `LEDGER:ENTRY`")
    return EntryPosition(int(match[1]), int(match[2]))


def parse_host(node: str) -> str:
    """Return the host of `HOST:PORT`. Raises ValueError."""
    match = _NODE.fullmatch(node)
    if match is None:
        raise PydanticCustomError("node", "Input should be a node `HOST:PORT`")
    return match[1]


def _parse_url_host(url: str) -> str:
    host = urlparse(url).hostname
    if not host:
        raise PydanticCustomError("url", "Input should be a URL with a host")
    return host


def _get_bookie_id(bookie: Any) -> Any:
    """Return a bookie's `HOST:PORT`; in some versions of the API it is the `id` of an object."""
    return bookie.get("id") if isinstance(bookie, dict) else bookie


Number = Annotated[int, Field(ge=-_HIGHEST, le=_HIGHEST)]
Count = Annotated[int, Field(ge=0, le=_HIGHEST)]
Position = Annotated[EntryPosition, PlainValidator(parse_position)]
NodeHost = Annotated[str, AfterValidator(parse_host)]
Moment = Annotated[str, Field(pattern=_MOMENT.pattern)]
UrlHost = Annotated[str, AfterValidator(_parse_url_host)]
BookieHost = Annotated[NodeHost, BeforeValidator(_get_bookie_id)]


class _Answer(BaseModel):
    """The base of all answers: strict, frozen, and only with the fields that are read."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class _CamelCaseAnswer(_Answer):
    """The base of the answers of Pulsar and BookKeeper, whose fields are in camel case."""

    model_config = ConfigDict(alias_generator=to_camel)


class TopicLookup(_CamelCaseAnswer):
    """The broker that serves a topic, by its host."""

    broker_host: UrlHost = Field(alias="brokerUrl")


class PartitionedTopic(_CamelCaseAnswer):
    """The number of a topic's partitions, 0 for a topic without partitions."""

    partitions: Count


class ConsumerStats(_CamelCaseAnswer):
    """A connected consumer of a subscription. A consumer that connects anew has another `connected_since`."""

    consumer_name: str
    address: str
    connected_since: Moment


class SubscriptionStats(_CamelCaseAnswer):
    """A subscription in a topic's stats. Only exclusive and failover subscriptions have an active consumer."""

    msg_backlog: Count
    msg_out_counter: Count
    active_consumer_name: str | None = None
    consumers: list[ConsumerStats]


class ReplicatorStats(_CamelCaseAnswer):
    """The replication of a topic to and from another cluster, in the topic's stats."""

    replication_backlog: Count
    # The delay can be negative, because the clocks of two clusters differ.
    replication_delay_in_seconds: Number
    msg_in_count: Count


class TopicStats(_CamelCaseAnswer):
    """A topic's stats, with {subscription: its stats} and {other cluster: stats of the replication with it}."""

    msg_in_counter: Count
    subscriptions: dict[str, SubscriptionStats]
    replication: dict[str, ReplicatorStats]


class TopicLedger(_CamelCaseAnswer):
    """A ledger of a topic's log. In this answer, the ledger that is open for writing has 0 `entries`."""

    ledger_id: Count
    entries: Count


class Cursor(_CamelCaseAnswer):
    """The cursor of a subscription or a replicator: every entry up to its position is acknowledged."""

    mark_delete_position: Position


class TopicInternals(_CamelCaseAnswer):
    """A topic's log (`internalStats`), with {name: cursor}."""

    last_confirmed_entry: Position
    ledgers: list[TopicLedger]
    cursors: dict[str, Cursor]


class LedgerMetadata(_CamelCaseAnswer):
    """The metadata of a ledger. `all_ensembles` is {first entry: hosts of the bookies from this entry on}."""

    state: str = Field(min_length=1)
    all_ensembles: dict[Count, Annotated[list[BookieHost], Field(min_length=1)]] = Field(min_length=1)


class CommandDone(_Answer):
    """The answer of ZooKeeper's AdminServer to a command that succeeded.

    The answer to a failed command also has status 200, but contains a text in `error`.
    """

    error: None


class Sessions(CommandDone):
    """The metadata store's sessions: {session: paths that exist until the session ends}."""

    session_id_to_ephemeral_paths: dict[str, list[str]]


class Leadership(CommandDone):
    """Whether a node is the leader of its metadata store. A store of one node does not answer this question."""

    is_leader: bool


class Rack(_CamelCaseAnswer):
    rack: str


PARTITIONED_TOPIC = TypeAdapter(PartitionedTopic)
TOPIC_LOOKUP = TypeAdapter(TopicLookup)
TOPIC_STATS = TypeAdapter(TopicStats)
TOPIC_INTERNALS = TypeAdapter(TopicInternals)
BROKERS = TypeAdapter(list[NodeHost], config=ConfigDict(strict=True))
# The same, each as `HOST:PORT`.
BROKER_NAMES = TypeAdapter(list[Annotated[str, Field(pattern=f"^{_NODE.pattern}$")]], config=ConfigDict(strict=True))
# {`HOST:PORT`: host name, or None because host names are not asked for}
BOOKIES = TypeAdapter(dict[NodeHost, str | None], config=ConfigDict(strict=True))
LEDGER_METADATA = TypeAdapter(dict[Count, LedgerMetadata], config=ConfigDict(strict=True))
# {ledger: its metadata as text, in which the names are readable}
LEDGERS = TypeAdapter(dict[Count, str], config=ConfigDict(strict=True))
# If no ledger lacks a copy, BookKeeper answers 404 and no list.
UNDER_REPLICATED = TypeAdapter(Annotated[list[Count], Field(min_length=1)], config=ConfigDict(strict=True))
COMMAND_DONE = TypeAdapter(CommandDone)
SESSIONS = TypeAdapter(Sessions)
LEADERSHIP = TypeAdapter(Leadership)
# {group: {`HOST:PORT`: rack}}
RACKS = TypeAdapter(dict[str, dict[str, Rack]], config=ConfigDict(strict=True))
# The answer to a request for a policy; None if the policy was never set.
SETTINGS = TypeAdapter(dict[str, JsonValue] | None, config=ConfigDict(strict=True))
NAMES = TypeAdapter(list[str], config=ConfigDict(strict=True))
NAMESPACES = TypeAdapter(list[Annotated[str, Field(pattern=r"^[^/]+/[^/]")]], config=ConfigDict(strict=True))
SWITCH = TypeAdapter(bool | None, config=ConfigDict(strict=True))
