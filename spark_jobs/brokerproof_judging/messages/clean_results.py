"""Judges the clean messages of a run by arrays, in two steps, and leaves the rows of the others for SQL.

`ArraysOfPart` reads a part, finds its clean messages and saves its arrays. After the parts were compared,
`CleanResultsOfPart` writes the rows of `messages` of the clean ones. It also writes the recorded rows of the suspicious
messages and of the witnesses as tables of their own, which SQL judges as if they were the whole run, and the names of
the witnesses and of the messages that it need not compare.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from brokerproof.experiment.topology import Topology
from brokerproof.run.division import DividedWriter, Division
from brokerproof.run.tables import SCHEMAS, AttemptOutcome, Batches

from brokerproof_judging.database import write_part
from brokerproof_judging.messages.array_files import load_arrays, open_arrays, save_arrays
from brokerproof_judging.messages.clean_messages import PartMessages, find_clean
from brokerproof_judging.messages.compared_parts import (
    BUCKET_US,
    BlockKind,
    Doubts,
    LogOfPart,
    PartDescription,
    SortedRows,
    describe_part,
    label_incarnations,
)
from brokerproof_judging.messages.dense_arrays import (
    COLUMNS,
    NO_NUMBER,
    NO_POSITION,
    NO_TEXT,
    NO_TIME,
    Array,
    Mask,
    NotDescribedError,
    read_arrays,
    unpack_positions,
)
from brokerproof_judging.messages.dense_order import list_groups, number_groups
from brokerproof_judging.messages.message_columns import NAMES
from brokerproof_judging.messages.publish_record import MOST_EXAMPLES, PartSummary
from brokerproof_judging.recorded_parts import RecordedParts

_ROWS_A_GROUP = 100_000
_PUBLISHED = (
    *("home", "partition", "key", "payload_hash", "position", "epoch", "scheduled_at", "sent_at", "settled_at"),
)


@dataclass(frozen=True, kw_only=True)
class ArraysOfPart:
    """Finds the clean messages of a part, and saves the arrays and the description of the part in `directory`.

    It writes the recorded rows of all other messages to `subset`, which has a directory for each table. If a larger
    share than `most_suspicious` is not clean, these are the rows of all messages.
    """

    recorded: RecordedParts
    directory: str
    subset: Mapping[str, str]
    most_suspicious: float
    topology: Topology
    # (cluster, subscription)
    subscriptions: Sequence[tuple[str, str]]
    # With the columns `turns.TURNS`.
    turns: pa.Table
    clock_error_us: int

    def __call__(self, part: int) -> str:
        """Return the `problem` of the arrays as JSON, if they cannot describe the part.

        Otherwise return the part's `PartSummary`, and the names and the number of rows of the subset's files.
        """
        try:
            arrays = read_arrays(self.recorded, part)
            found = find_clean(arrays, self.topology, self.subscriptions, self.turns, self.clock_error_us)
        except NotDescribedError as error:
            return json.dumps({"problem": str(error)})
        summary = asdict(summarize(found))
        save_description(f"{self.directory}/described-{part}", describe_part(found, self.clock_error_us))
        if np.count_nonzero(found.clean) < (1 - self.most_suspicious) * len(found.clean):
            found.clean[:] = False
        save_part(f"{self.directory}/arrays-{part}", found)
        return json.dumps({"summary": summary, **self._write_subset(found)})

    def _write_subset(self, found: PartMessages) -> dict[str, Any]:
        # The last element is for rows without a slot.
        is_needed, files, count = np.append(~found.clean, True), {}, 0
        for table, whole in found.part.tables.items():
            rows = np.flatnonzero(is_needed[getattr(found.part, table)["slot"]])
            count += len(rows)
            files[table] = write_rows(self.subset, table, self.recorded.division, whole.take(rows))
        return {"files": files, "rows": count}


def write_rows(directories: Mapping[str, str], table: str, division: Division, rows: pa.Table) -> list[str]:
    """Write rows of a recorded table, without the columns that judging does not read. Return the files' names."""
    if not len(rows):
        return []
    columns = [
        rows.column(each.name).cast(each.type) if each.name in rows.schema.names else pa.nulls(len(rows), each.type)
        for each in SCHEMAS[table]
    ]
    with DividedWriter(directories[table], table, division) as writer:
        for batch in pa.table(columns, schema=SCHEMAS[table]).to_batches():
            writer.add(batch)
    return writer.names


def save_description(path: str, described: PartDescription) -> None:
    """Write the description of a part to a file."""
    header = {"logs": list(described.logs), "ranges": list(described.ranges)}
    arrays = {}
    for number, log in enumerate(described.logs.values()):
        for name, rows in vars(log).items():
            arrays[f"{name}_{number}_samples"] = rows.samples
            arrays |= {f"{name}_{number}_{index}": column for index, column in enumerate(rows.columns)}
    save_arrays(path, header, arrays)


def load_description(path: str) -> PartDescription:
    """Return the description of a part. Its rows are read when they are used."""
    header, arrays = open_arrays(path)

    def find_rows(name: str, count: int) -> SortedRows:
        columns = tuple(arrays[f"{name}_{index}"] for index in range(count))
        return SortedRows(columns=columns, samples=arrays[f"{name}_samples"][:])

    return PartDescription(
        logs={
            (log[0], log[1], log[2]): LogOfPart(
                named=find_rows(f"named_{number}", 1),
                settled=find_rows(f"settled_{number}", 2),
                sent=find_rows(f"sent_{number}", 2),
            )
            for number, log in enumerate(header["logs"])
        },
        ranges=[(tuple(kind), *block) for kind, *block in header["ranges"]],
    )


def save_part(path: str, found: PartMessages) -> None:
    """Write the arrays of a part that its results are made of."""
    part, published = found.part, found.published
    topic, producer, block = part.slots.split_blocks()
    arrays = {"topic_of_block": topic, "producer_of_block": producer, "starts": part.slots.starts}
    arrays |= {"seq_of_block": block * part.slots.block, "clean": found.clean, "compared": found.compared}
    arrays |= dict(zip(("named_slot", "named_position"), list_named_positions(found), strict=True))
    arrays |= {name: getattr(published, name) for name in _PUBLISHED}
    for cluster, copy in found.copies.items():
        arrays |= {f"required_{cluster}": copy.is_required, f"position_{cluster}": copy.position}
    for number, delivery in enumerate(found.deliveries.values()):
        arrays |= {f"{name}_{number}": values for name, values in vars(delivery).items()}
    header = {
        "names": {name: each.texts for name, each in part.names.items()},
        "subscriptions": list(found.deliveries),
        "incarnations": label_incarnations(part),
    }
    save_arrays(path, header, arrays, narrow=True)


def list_named_positions(found: PartMessages) -> tuple[Array, Array]:
    """Return the slots of the messages that are not clean, each with each position that a row of it names."""
    slots, positions = [], []
    for table in (found.part.publishes, found.part.stored, found.part.deliveries):
        rows = np.flatnonzero((table["slot"] >= 0) & (table["position"] != NO_POSITION))
        rows = rows[~found.clean[table["slot"][rows]]]
        slots.append(table["slot"][rows])
        positions.append(table["position"][rows])
    return np.concatenate(slots), np.concatenate(positions)


def summarize(found: PartMessages) -> PartSummary:
    """Return the counts of all rows of a part, and what its clean messages show."""
    part, published = found.part, found.published
    names = {name: each.texts for name, each in part.names.items()}
    delays = [
        int((each.received_at - published.sent_at)[chosen].min())
        for (cluster, _), each in found.deliveries.items()
        if (chosen := found.clean & found.copies[cluster].is_required).any()
    ]
    logs = [
        (names["cluster"][home], names["cluster"][cluster], names["topic"][topic], partition)
        for cluster, copy in found.copies.items()
        for (home, topic, partition), _ in _count(
            *(getattr(published, name)[found.clean & copy.is_required] for name in ("home", "topic", "partition"))
        )
    ]
    attempts, deliveries, stored = part.publishes, part.deliveries, part.stored
    return PartSummary(
        producers=list(_list_producers(found)),
        attempts=[
            (names["producer"][producer], epoch, names["outcome"][outcome], count)
            for (producer, epoch, outcome), count in _count(*(attempts[n] for n in ("producer", "epoch", "outcome")))
        ],
        deliveries=[
            (
                names["cluster"][place[0]],
                names["subscription"][place[1]],
                _find_text(names["consumer"], place[2]),
                place[3],
                count,
            )
            for place, count in _count(*(deliveries[n] for n in ("cluster", "subscription", "consumer", "incarnation")))
        ],
        stored=[
            (names["cluster"][cluster], names["topic"][topic], -1 if partition == NO_NUMBER else partition, count)
            for (cluster, topic, partition), count in _count(*(stored[n] for n in ("cluster", "topic", "partition")))
        ],
        logs=logs,
        recorded_twice=_list_recorded_twice(found),
        two_homes=None,
        two_payloads=None,
        two_keys=None,
        least_delay_us=min(delays, default=None),
    )


def _find_text(texts: Sequence[str], number: int) -> Any:
    return None if number == NO_TEXT else texts[number]


def _list_producers(found: PartMessages) -> Iterator[tuple[str, int, int, int]]:
    slots, names = found.part.slots, found.part.names["producer"].texts
    _, producer, number = slots.split_blocks()
    for block in range(len(slots.blocks)):
        seq = np.flatnonzero(found.published.attempts[slots.starts[block] : slots.starts[block + 1]])
        first = int(number[block]) * slots.block
        yield names[int(producer[block])], len(seq), first + int(seq[0]), first + int(seq[-1])


def _list_recorded_twice(found: PartMessages) -> list[str]:
    """Return attempts with more than one row, as publish_record.py does it. They may differ in their topics."""
    slots, rows = found.part.slots, found.part.publishes
    _, producer, number = slots.split_blocks()
    is_one_topic = len(np.unique(number_groups(producer, number))) == len(slots.blocks)
    if is_one_topic and (found.published.attempts <= 1).all():
        return []
    names = found.part.names["producer"].texts
    return sorted(
        f"{names[producer]} seq {seq} in epoch {epoch}"
        for (producer, seq, epoch), count in _count(rows["producer"], rows["seq"], rows["epoch"])
        if count > 1
    )[:MOST_EXAMPLES]


def _count(*columns: Array) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield each combination of values, and its number of rows."""
    for row, count in zip(*list_groups(number_groups(*columns)), strict=True):
        yield tuple(int(column[row]) for column in columns), int(count)


@dataclass(frozen=True, kw_only=True)
class CleanResultsOfPart:
    """Writes the rows of `messages` of a part's clean messages.

    It also writes the recorded rows of the witnesses, and of messages that other parts make suspicious, to `subset`,
    which has a directory for each table. The directory `witnesses` gets the names of the witnesses, and the directory
    `uncompared` those of suspicious messages that SQL need not compare.
    """

    recorded: RecordedParts
    arrays: str
    messages: str
    subset: Mapping[str, str]
    witnesses: str
    uncompared: str
    run_id: str
    doubts: Doubts
    clock_error_us: int
    most_suspicious: float

    def __call__(self, part: int) -> str:
        """Return the clean messages' counts and the files of the subset, as JSON."""
        messages, division = SavedMessages.load(f"{self.arrays}/arrays-{part}"), self.recorded.division
        was_clean = messages.clean.copy()
        messages.doubt(self.doubts, self.clock_error_us, self.most_suspicious)
        if messages.clean.any():
            # The file of SQL's results has the part's own number.
            write_part(self.messages, division.parts + part, CLEAN_MESSAGES, messages.list_results(self.run_id))
        is_needed, files, count = was_clean & (messages.compared | ~messages.clean), {}, 0
        for table in COLUMNS:
            rows = messages.list_recorded(table, is_needed)
            count += len(rows)
            files[table] = write_rows(self.subset, table, division, rows)
        write_part(self.witnesses, part, NAMES, messages.list_names(messages.clean & messages.compared))
        write_part(self.uncompared, part, NAMES, messages.list_names(~messages.clean & ~messages.compared))
        return json.dumps({"counts": messages.count(), "files": files, "rows": count})


_MAY_BE_NULL = ("subscription", "key", "first_received_at")
# Texts that many rows share are dictionaries, which are written as they are. Columns without nulls are written faster.
CLEAN_MESSAGES = pa.schema(
    [
        pa.field(
            each.name,
            pa.dictionary(pa.int32(), pa.string()) if pa.types.is_string(each.type) else each.type,
            each.name in _MAY_BE_NULL,
        )
        for each in SCHEMAS["messages"]
    ]
)


@dataclass(frozen=True, kw_only=True)
class SavedMessages:
    """The arrays of a part's messages, by slot."""

    names: Mapping[str, Sequence[str]]
    # (number of the cluster, number of the subscription)
    subscriptions: Sequence[tuple[int, int]]
    incarnations: Mapping[str, int]
    arrays: Mapping[str, Array]

    @classmethod
    def load(cls, path: str) -> SavedMessages:
        header, arrays = load_arrays(path)
        arrays |= {name: arrays[name].copy() for name in ("clean", "compared")}
        lengths = np.diff(arrays["starts"])
        for name in ("topic", "producer"):
            arrays[name] = np.repeat(arrays[f"{name}_of_block"].astype(np.int32), lengths)
        arrays["seq"] = np.repeat(arrays["seq_of_block"] - arrays["starts"][:-1], lengths) + np.arange(lengths.sum())
        return cls(
            names=header["names"],
            subscriptions=[(cluster, subscription) for cluster, subscription in header["subscriptions"]],
            incarnations={label: int(number) for number, label in header["incarnations"].items()},
            arrays=arrays,
        )

    @property
    def clean(self) -> Mask:
        return self.arrays["clean"]

    @property
    def compared(self) -> Mask:
        return self.arrays["compared"]

    def doubt(self, doubts: Doubts, clock_error_us: int, most_suspicious: float) -> None:
        """Take the messages out of the clean ones that other parts make suspicious, and add to the compared ones.

        If a larger share than `most_suspicious` is not clean, none is.
        """
        arrays, slots = self.arrays, len(self.clean)
        for (cluster, topic, partition), found in doubts.logs.items():
            number = self._find("cluster", cluster)
            if number == NO_TEXT:
                continue
            slot = self._list_clean(number, self._find("topic", topic), partition)
            conflicts = slot[is_in(arrays[f"position_{number}"][slot], found.conflicts)]
            self.clean[conflicts] = False
            self.compared[conflicts] = True
            self.compared[arrays["named_slot"][is_in(arrays["named_position"], found.conflicts)]] = True
            if len(found.buckets):
                slot = self._list_published(number, self._find("topic", topic), partition)
                position = arrays["position"][slot]
                sent = (arrays["sent_at"][slot] - clock_error_us) // BUCKET_US
                index = np.minimum(np.searchsorted(found.buckets, sent), len(found.buckets) - 1)
                went_back = (found.buckets[index] == sent) & (position < found.limits[index])
                self.clean[slot[went_back]] = False
                settled = arrays["settled_at"][slot] // BUCKET_US
                is_witness = is_in(settled, found.buckets) | is_in(position, found.witnesses)
                self.compared[slot[went_back | is_witness]] = True
        for kind, lowest, highest in doubts.overlaps:
            slot, value = self._list_values(kind)
            self.clean[slot[(value >= lowest) & (value <= highest)]] = False
            *_, topic, producer, _ = kind
            # The arrays hold one of the values of each message that is not clean.
            same_producer = (arrays["topic"] == self._find("topic", topic)) & (
                arrays["producer"] == self._find("producer", producer)
            )
            self.compared[same_producer & ~self.clean] = True
        if np.count_nonzero(self.clean) < (1 - most_suspicious) * slots:
            self.clean[:] = False

    def _find(self, name: str, text: str) -> int:
        texts = self.names[name]
        return texts.index(text) if text in texts else NO_TEXT

    def _list_clean(self, cluster: int, topic: int, partition: int) -> Array:
        if cluster == NO_TEXT:
            return np.zeros(0, np.int64)
        arrays = self.arrays
        chosen = self.clean & arrays[f"required_{cluster}"]
        return np.flatnonzero(chosen & (arrays["topic"] == topic) & (arrays["partition"] == partition))

    def _list_published(self, home: int, topic: int, partition: int) -> Array:
        arrays = self.arrays
        return np.flatnonzero(
            (arrays["home"] == home) & (arrays["topic"] == topic) & (arrays["partition"] == partition)
        )

    def _list_values(self, kind: BlockKind) -> tuple[Array, Array]:
        """Return the slots of clean messages of a kind, and their values."""
        value, cluster, subscription, incarnation, topic, producer, partition = kind
        number = self._find("cluster", cluster)
        slot = self._list_clean(number, self._find("topic", topic), partition)
        slot = slot[self.arrays["producer"][slot] == self._find("producer", producer)]
        if value == "position":
            return slot, self.arrays[f"position_{number}"][slot]
        place = (number, self._find("subscription", subscription))
        if place not in self.subscriptions:
            return slot[:0], slot[:0]
        index = self.subscriptions.index(place)
        if value == "arrival":
            slot = slot[self.arrays[f"incarnation_{index}"][slot] == self.incarnations.get(incarnation, -1)]
        return slot, self.arrays[f"{value}_{index}"][slot]

    def count(self) -> dict[str, int]:
        """Return the counts of the clean messages, by the names of counts.sql."""
        messages = int(np.count_nonzero(self.clean))
        stored = {
            cluster: int(np.count_nonzero(self.clean & self.arrays[f"required_{cluster}"]))
            for cluster in range(len(self.names["cluster"]))
        }
        deliveries = sum(stored[cluster] for cluster, _ in self.subscriptions)
        return {
            **{"publishes": messages, "messages": messages, "acked": messages, "failed": 0, "unknown": 0},
            **{"not_sent": 0, "recovered": 0, "stored": sum(stored.values()), "deliveries": deliveries},
        }

    def list_names(self, chosen: Mask) -> Batches:
        """Yield the names of messages."""
        slot = np.flatnonzero(chosen)
        yield pa.RecordBatch.from_arrays(
            [
                self._take("producer", self.arrays["producer"][slot]).cast(pa.string()),
                pa.array(self.arrays["seq"][slot]),
                self._take("topic", self.arrays["topic"][slot]).cast(pa.string()),
            ],
            schema=NAMES,
        )

    def list_recorded(self, table: str, chosen: Mask) -> pa.Table:
        """Return the rows of chosen messages in a recorded table. The arrays know all rows of clean messages."""
        if table == "publishes":
            slot = np.flatnonzero(chosen)
            published = ("epoch", "scheduled_at", "sent_at", "settled_at")
            columns = {name: self.arrays[name][slot] for name in published}
            columns |= {"cluster": self._take("cluster", self.arrays["home"][slot])}
            columns |= {"outcome": _repeat(str(AttemptOutcome.ACKED), len(slot))}
            return self._make_recorded(slot, self.arrays["position"][slot], columns)
        if table == "stored":
            listed = [self._list_in_log(chosen, cluster, {}) for cluster in range(len(self.names["cluster"]))]
        else:
            listed = [self._list_deliveries(chosen, index) for index in range(len(self.subscriptions))]
        return pa.concat_tables(listed) if listed else SCHEMAS[table].empty_table()

    def _list_deliveries(self, chosen: Mask, index: int) -> pa.Table:
        cluster, subscription = self.subscriptions[index]
        slot = np.flatnonzero(chosen & self.arrays[f"required_{cluster}"])
        labels = {number: json.loads(label) for label, number in self.incarnations.items()}
        incarnation = [labels[number][2:] for number in self.arrays[f"incarnation_{index}"][slot].tolist()]
        acknowledged_at = self.arrays[f"acknowledged_at_{index}"][slot]
        columns: dict[str, Any] = {
            "subscription": _repeat(self.names["subscription"][subscription], len(slot)),
            "consumer": pa.array([consumer for consumer, _ in incarnation], pa.string()),
            "incarnation": pa.array([number for _, number in incarnation], pa.int32()),
            "acknowledged_at": pa.array(acknowledged_at, mask=acknowledged_at == NO_TIME),
        }
        columns |= {name: self.arrays[f"{name}_{index}"][slot] for name in ("arrival", "received_at")}
        return self._list_in_log(chosen, cluster, columns)

    def _list_in_log(self, chosen: Mask, cluster: int, columns: Mapping[str, Any]) -> pa.Table:
        slot = np.flatnonzero(chosen & self.arrays[f"required_{cluster}"])
        position = self.arrays[f"position_{cluster}"][slot]
        named = {"cluster": _repeat(self.names["cluster"][cluster], len(slot))}
        return self._make_recorded(slot, position, {**named, **columns})

    def _make_recorded(self, slot: Array, position: Array, columns: Mapping[str, Any]) -> pa.Table:
        place = unpack_positions(position)
        batch_index = place.pop("batch_index")
        return pa.table(
            {
                **{name: self._take(name, self.arrays[name][slot]) for name in ("topic", "producer", "key")},
                **{name: self.arrays[name][slot] for name in ("partition", "seq", "payload_hash")},
                **place,
                "batch_index": pa.array(batch_index, mask=batch_index < 0),
                **columns,
            }
        )

    def list_results(self, run_id: str) -> Batches:
        """Yield the rows of `messages` of the clean messages: of each log, and of each subscription."""
        places: list[tuple[int, int | None, int | None]] = [
            (cluster, None, None) for cluster in range(len(self.names["cluster"]))
        ]
        places += [(*place, index) for index, place in enumerate(self.subscriptions)]
        for cluster, subscription, index in places:
            slot = np.flatnonzero(self.clean & self.arrays[f"required_{cluster}"])
            constant = self._make_constant_columns(run_id, min(len(slot), _ROWS_A_GROUP), cluster, subscription)
            for first in range(0, len(slot), _ROWS_A_GROUP):
                yield self._make_results(slot[first : first + _ROWS_A_GROUP], cluster, index, constant)

    def _make_constant_columns(
        self, run_id: str, count: int, cluster: int, subscription: int | None
    ) -> Mapping[str, pa.Array]:
        """Return the columns whose values are equal in all rows of a place."""
        zeros, ones = (pa.array(values) for values in (np.zeros(count, np.int32), np.ones(count, np.int32)))
        empty = pa.ListArray.from_arrays(np.zeros(count + 1, np.int32), pa.array([], pa.string()))
        name = None if subscription is None else self.names["subscription"][subscription]
        return {
            "run_id": _repeat(run_id, count),
            "cluster": _repeat(self.names["cluster"][cluster], count),
            "subscription": _repeat(name, count),
            "outcome": _repeat(str(AttemptOutcome.ACKED), count),
            **{"attempts": ones, "copies": ones, "deliveries": zeros if name is None else ones},
            **({"first_received_at": pa.nulls(count, pa.timestamp("us", "UTC"))} if name is None else {}),
            **{"recovered": pa.array(np.zeros(count, bool)), "anomalies": empty, "illegal": empty},
        }

    def _make_results(
        self, slot: Array, cluster: int, index: int | None, constant: Mapping[str, pa.Array]
    ) -> pa.RecordBatch:
        arrays = self.arrays
        columns = {
            **{name: column.slice(0, len(slot)) for name, column in constant.items()},
            **{name: self._take(name, arrays[name][slot]) for name in ("topic", "producer", "key")},
            "home": self._take("cluster", arrays["home"][slot]),
            **{name: arrays[name][slot] for name in ("partition", "seq", "scheduled_at", "sent_at", "settled_at")},
            **({} if index is None else {"first_received_at": arrays[f"received_at_{index}"][slot]}),
            **unpack_positions(arrays[f"position_{cluster}"][slot]),
        }
        return pa.RecordBatch.from_arrays(
            [pa.array(columns[each.name]).cast(each.type) for each in CLEAN_MESSAGES], schema=CLEAN_MESSAGES
        )

    def _take(self, name: str, numbers: Array) -> pa.DictionaryArray:
        is_null = numbers == NO_TEXT
        return pa.DictionaryArray.from_arrays(
            pa.array(numbers, pa.int32(), mask=is_null if is_null.any() else None), self._texts[name]
        )

    @cached_property
    def _texts(self) -> Mapping[str, pa.Array]:
        return {name: pa.array(texts, pa.string()) for name, texts in self.names.items()}


def is_in(values: Array, chosen: Array) -> Mask:
    """Return which values are in a sorted array."""
    if not len(chosen):
        return np.zeros(len(values), bool)
    found: Mask = chosen[np.minimum(np.searchsorted(chosen, values), len(chosen) - 1)] == values
    return found


def _repeat(text: str | None, count: int) -> pa.DictionaryArray:
    indices = pa.array(np.zeros(count, np.int32), mask=np.full(count, text is None))
    return pa.DictionaryArray.from_arrays(indices, pa.array([text or ""], pa.string()))
