"""What Pulsar's nodes answer, as far as it is read: one model or type for each answer, with the check of every field.

A node that is starting, ending or cut off may answer anything: a page of HTML, an object without the fields, a number
as text. Fields are therefore strict, and fields that nobody reads are ignored. A `TypeAdapter` is made once, here,
because to make one takes 120 µs and to use it 2 µs.
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

# Java's `long`.
_HIGHEST = 2**63 - 1
# A topic that is open is in a ledger, so its positions are in one too. Before a ledger's first entry, the entry is -1.
_POSITION = re.compile(r"([0-9]{1,18}):(-1|[0-9]{1,18})")
_NODE = re.compile(r"([^\s/<>]+):[0-9]{1,5}")
# BookKeeper's words, with status 404, where no ledger lacks a copy. With the same status it answers where it could not
# find out (`ListUnderReplicatedLedgerService`).
NO_UNDER_REPLICATED_LEDGERS = "No under replicated ledgers found"
# A bundle's range of hashes, as it stands in the paths of the admin REST.
BUNDLE = re.compile(r"0x[0-9a-f]{8}_0x[0-9a-f]{8}")
# What a broker says with status 200 where it is healthy or ready, and a bookie where it is ready (`OK`).
HEALTHY = re.compile(r"ok", re.IGNORECASE)


class EntryPosition(NamedTuple):
    """Where an entry is in a topic's log; `LEDGER:ENTRY` in Pulsar's answers."""

    ledger: int
    entry: int

    def __str__(self) -> str:
        """As Pulsar writes it."""
        return f"{self.ledger}:{self.entry}"


def parse_position(text: object) -> EntryPosition:
    """The position of `LEDGER:ENTRY`. Raises ValueError, also for `-1:-1`, which is nowhere."""
    match = _POSITION.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise PydanticCustomError("position", "Input should be a position `LEDGER:ENTRY`")
    return EntryPosition(int(match[1]), int(match[2]))


def parse_host(node: str) -> str:
    """The host of `HOST:PORT`. Raises ValueError."""
    match = _NODE.fullmatch(node)
    if match is None:
        raise PydanticCustomError("node", "Input should be a node `HOST:PORT`")
    return match[1]


def _parse_url_host(url: str) -> str:
    """The host of a URL. Raises ValueError."""
    host = urlparse(url).hostname
    if not host:
        raise PydanticCustomError("url", "Input should be a URL with a host")
    return host


def _get_bookie_id(bookie: Any) -> Any:
    """`HOST:PORT`, which is an object with an `id` in some versions of the API."""
    return bookie.get("id") if isinstance(bookie, dict) else bookie


Number = Annotated[int, Field(ge=-_HIGHEST, le=_HIGHEST)]
Count = Annotated[int, Field(ge=0, le=_HIGHEST)]
Position = Annotated[EntryPosition, PlainValidator(parse_position)]
NodeHost = Annotated[str, AfterValidator(parse_host)]
UrlHost = Annotated[str, AfterValidator(_parse_url_host)]
BookieHost = Annotated[NodeHost, BeforeValidator(_get_bookie_id)]


class _Answer(BaseModel):
    """Base of the answers: strict, frozen, and only with the fields that are read."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class _CamelCaseAnswer(_Answer):
    """Base of the answers of Pulsar and BookKeeper."""

    model_config = ConfigDict(alias_generator=to_camel)


class TopicLookup(_CamelCaseAnswer):
    """Who serves a topic."""

    broker_host: UrlHost = Field(alias="brokerUrl")


class SubscriptionStats(_CamelCaseAnswer):
    """A subscription in a topic's stats."""

    msg_backlog: Count
    msg_out_counter: Count


class ReplicatorStats(_CamelCaseAnswer):
    """The replication to another cluster, and from it, in a topic's stats."""

    replication_backlog: Count
    # It is negative where the clocks of two clusters differ.
    replication_delay_in_seconds: Number
    msg_in_count: Count


class TopicStats(_CamelCaseAnswer):
    """A topic's stats; subscriptions by name, replicators by the other cluster's name."""

    msg_in_counter: Count
    subscriptions: dict[str, SubscriptionStats]
    replication: dict[str, ReplicatorStats]


class TopicLedger(_CamelCaseAnswer):
    """A ledger of a topic's log. The open one has 0 entries here."""

    ledger_id: Count
    entries: Count


class Cursor(_CamelCaseAnswer):
    """How far a subscription or a replicator is: everything up to this position is acknowledged."""

    mark_delete_position: Position


class TopicInternals(_CamelCaseAnswer):
    """A topic's log (`internalStats`); cursors by name."""

    last_confirmed_entry: Position
    ledgers: list[TopicLedger]
    cursors: dict[str, Cursor]


class LedgerMetadata(_CamelCaseAnswer):
    """Where the copies of a ledger's entries are: the bookies' hosts by the first entry that they hold."""

    state: str = Field(min_length=1)
    all_ensembles: dict[Count, Annotated[list[BookieHost], Field(min_length=1)]] = Field(min_length=1)


class CommandDone(_Answer):
    """What ZooKeeper's AdminServer answers to a command. Where it cannot, it says so in `error`, with status 200."""

    error: None


class Sessions(CommandDone):
    """The metadata store's sessions, each with the paths that last as long as it does."""

    session_id_to_ephemeral_paths: dict[str, list[str]]


class Leadership(CommandDone):
    """Whether the node leads the others of its metadata store; one that is alone does not answer this."""

    is_leader: bool


class Rack(_CamelCaseAnswer):
    """The rack of a node."""

    rack: str


TOPIC_LOOKUP = TypeAdapter(TopicLookup)
TOPIC_STATS = TypeAdapter(TopicStats)
TOPIC_INTERNALS = TypeAdapter(TopicInternals)
BROKERS = TypeAdapter(list[NodeHost], config=ConfigDict(strict=True))
# By `HOST:PORT`, nothing where host names are not asked for.
BOOKIES = TypeAdapter(dict[NodeHost, str | None], config=ConfigDict(strict=True))
LEDGER_METADATA = TypeAdapter(dict[Count, LedgerMetadata], config=ConfigDict(strict=True))
# Where there is none, BookKeeper answers with 404.
UNDER_REPLICATED = TypeAdapter(Annotated[list[Count], Field(min_length=1)], config=ConfigDict(strict=True))
COMMAND_DONE = TypeAdapter(CommandDone)
SESSIONS = TypeAdapter(Sessions)
LEADERSHIP = TypeAdapter(Leadership)
# By group, then by `HOST:PORT`.
RACKS = TypeAdapter(dict[str, dict[str, Rack]], config=ConfigDict(strict=True))
# Settings that are compared as a whole with those wanted; nothing where nothing was set.
SETTINGS = TypeAdapter(dict[str, JsonValue] | None, config=ConfigDict(strict=True))
NAMES = TypeAdapter(list[str], config=ConfigDict(strict=True))
SWITCH = TypeAdapter(bool | None, config=ConfigDict(strict=True))
