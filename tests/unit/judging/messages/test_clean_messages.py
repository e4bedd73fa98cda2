"""Judging by arrays and SQL in several parts gives what SQL alone gives in one, and each condition is needed for it.

The steps run in this process, so that a test can change a condition. The tables are divided into short blocks, so that
producers and comparisons cross parts.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from brokerproof.errors import RunError
from brokerproof.run.directory import Run
from brokerproof.run.division import Division
from brokerproof_judging import partitioned_sql
from brokerproof_judging.database import write_part
from brokerproof_judging.evidence import Evidence
from brokerproof_judging.messages import (
    clean_messages,
    clean_results,
    compared_parts,
    comparisons,
    dense_arrays,
    dense_order,
    message_judging,
)
from brokerproof_judging.messages.clean_results import CLEAN_MESSAGES
from brokerproof_judging.messages.compared_parts import LogOfPart, SortedRows
from brokerproof_judging.messages.message_judging import MessageJudging
from brokerproof_judging.messages.publish_record import PartSummary, find_least_delay, find_problems, list_logs
from brokerproof_judging.partitioned_sql import WorkOnPart
from brokerproof_judging.table_io import Replacement

from ..history import NAMESPACE, REPLICATED, SEGMENT, History, Row
from ..test_recorded_parts import divide

HISTORIES = range(int(os.environ.get("BROKERPROOF_HISTORIES", "2000")) // 100)
MESSAGES = 24
MILLISECOND = 1000


@pytest.fixture(autouse=True, scope="module")
def in_this_process() -> Iterator[None]:
    """Work on parts without Spark, even if a run is so small that its parts would be joined."""

    def work_in_parts(_: object, parts: int, work: WorkOnPart) -> list[str]:
        return [work(part) for part in range(parts)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(message_judging, "work_in_parts", work_in_parts)
        patch.setattr(message_judging, "MOST_ROWS_TOGETHER", 1)
        yield


class Judged:
    """What judging leaves of a run. SQL alone judges all messages in one part. With arrays, there are several parts."""

    def __init__(self, run: Run, *, by_arrays: bool, most_suspicious: float = 1.0) -> None:
        replacement = Replacement(run)
        share = most_suspicious if by_arrays else None
        judging = MessageJudging(None, run, Evidence.from_run(run), replacement, most_suspicious=share)  # type: ignore[arg-type]
        if not by_arrays:
            judging._recorded = judging._recorded.join(1)
        self.summaries = judging.work_out_facts()
        self.counts = judging.write_tables()
        self.are_described = bool(judging._clean_counts)
        self.judged_by_sql = sum(map(judging._recorded.count_rows, range(judging._parts)))
        self.tables = {
            name: Counter(map(repr, read_rows(replacement.locate_beside(name)))) for name in ("messages", "anomalies")
        }
        replacement.discard()

    @property
    def result(self) -> dict[str, Any]:
        """All that has to be equal."""
        return {
            **self.tables,
            "counts": self.counts,
            "problems": list(find_problems(self.summaries)),
            "logs": list_logs(self.summaries),
            "least delay": find_least_delay(self.summaries),
            **{name: count_rows(self.summaries, name) for name in ("attempts", "deliveries", "stored")},
        }


def assert_equal(by_arrays: Judged, by_sql: Judged) -> None:
    for name, rows in by_sql.tables.items():
        assert (by_arrays.tables[name] - rows, rows - by_arrays.tables[name]) == (Counter(), Counter())
    assert by_arrays.result == by_sql.result


def read_rows(directory: str) -> list[Row]:
    """Return the rows of a table, with times in µs, because Python has no time before the year 1."""
    table = pq.read_table(directory)
    types = [pa.int64() if pa.types.is_timestamp(each.type) else each.type for each in table.schema]
    return table.cast(pa.schema(list(zip(table.schema.names, types, strict=True)))).to_pylist()


def count_rows(summaries: list[PartSummary], name: str) -> Counter[tuple[Any, ...]]:
    counts: Counter[tuple[Any, ...]] = Counter()
    for summary in summaries:
        for *what, count in asdict(summary)[name]:
            counts[tuple(what)] += count
    return counts


def order_arrivals(history: History) -> None:
    """Have deliveries arrive in the order of their times, as if no clock was set back."""
    ordered = sorted(history.deliveries, key=lambda row: (row["received_at"], row["arrival"]))
    for arrival, row in enumerate(ordered):
        row["arrival"] = arrival


def write_divided(history: History, directory: Path, division: Division) -> Run:
    run = history.write(directory)
    divide(run, division)
    return run


# What can go wrong with a message -------------------------------------------------------------------------------------

Plant = Callable[[History, random.Random], None]
PLANTS: dict[str, Plant] = {}


def plant(function: Plant) -> Plant:
    PLANTS[function.__name__] = function
    return function


def choose(history: History, chance: random.Random) -> Row:
    """A message of the topic."""
    return chance.choice(
        [row for row in history.publishes if row["topic"] == history.topic and row["outcome"] == "acked"]
    )


def choose_early(history: History, chance: random.Random) -> Row:
    """A message whose next ones are in the same part, unless blocks are short."""
    return history.rows("publishes", "p0", chance.randrange(2, 8))[0]


def name_of(row: Row) -> tuple[str, int]:
    return row["producer"], row["seq"]


def copies_of(history: History, row: Row) -> list[Row]:
    return history.rows("stored", *name_of(row))


def deliveries_of(history: History, row: Row) -> list[Row]:
    return history.rows("deliveries", *name_of(row))


def find_next(history: History, row: Row, steps: int = 2) -> Row | None:
    """A message of the same key that was published later; keys take turns."""
    rows = history.rows("publishes", row["producer"], row["seq"] + steps)
    return rows[0] if rows else None


@plant
def nothing(history: History, chance: random.Random) -> None:
    del history, chance


@plant
def attempted_twice(history: History, chance: random.Random) -> None:
    history.publishes.append({**choose(history, chance), "epoch": 1, "segment": None, "offset": None})


@plant
def recorded_twice(history: History, chance: random.Random) -> None:
    history.publishes.append(dict(choose(history, chance)))


@plant
def not_acked(history: History, chance: random.Random) -> None:
    choose(history, chance).update(
        outcome=chance.choice(["unknown", "failed"]), partition=None, segment=None, offset=None
    )


@plant
def failed_at_a_position(history: History, chance: random.Random) -> None:
    choose(history, chance).update(outcome="failed")


@plant
def acked_without_position(history: History, chance: random.Random) -> None:
    choose(history, chance).update(segment=None, offset=None)


@plant
def without_time(history: History, chance: random.Random) -> None:
    choose(history, chance)[chance.choice(["sent_at", "settled_at"])] = None


@plant
def without_partition(history: History, chance: random.Random) -> None:
    row = choose(history, chance)
    for each in [row, *copies_of(history, row), *deliveries_of(history, row)]:
        each["partition"] = None


@plant
def without_acks(history: History, chance: random.Random) -> None:
    """A consumer does not confirm some deliveries of messages, of which others may become suspicious."""
    for row in chance.sample(history.deliveries, 5):
        row["acknowledged_at"] = None


@plant
def lost(history: History, chance: random.Random) -> None:
    name = name_of(choose(history, chance))
    history.forget("stored", *name)
    history.forget("deliveries", *name)


@plant
def stored_nowhere(history: History, chance: random.Random) -> None:
    history.stored.remove(chance.choice(copies_of(history, choose(history, chance))))


@plant
def stored_twice(history: History, chance: random.Random) -> None:
    row = chance.choice(copies_of(history, choose(history, chance)))
    history.stored.append({**row, "offset": history.next_entry(row["cluster"]) + 500})


@plant
def stored_before(history: History, chance: random.Random) -> None:
    """A message has a second copy before all others, and those with a lower seq are stored after it."""
    row = chance.choice(copies_of(history, choose(history, chance)))
    history.stored.insert(0, {**row, "segment": SEGMENT - 1})


@plant
def stored_too_far(history: History, chance: random.Random) -> None:
    """A message of a topic that is not replicated is stored in the other cluster too."""
    row = copies_of(history, choose(history, chance))[0]
    history.stored.append({**row, "cluster": "other", "offset": row["offset"] + 900})


@plant
def found_without_position(history: History, chance: random.Random) -> None:
    row = choose_early(history, chance)
    for each in [row, *copies_of(history, row), *deliveries_of(history, row)]:
        if each["cluster"] == "main":
            each.update(segment=None, offset=None)


@plant
def stored_elsewhere(history: History, chance: random.Random) -> None:
    # The last messages stay in order.
    row = chance.choice([choose(history, chance), history.publishes[-1]])
    offset = history.next_entry() + 500
    for each in [*copies_of(history, row), *deliveries_of(history, row)]:
        each["offset"] = offset


@plant
def stored_in_another_partition(history: History, chance: random.Random) -> None:
    row = choose(history, chance)
    chance.choice([*copies_of(history, row), *deliveries_of(history, row)])["partition"] = 1


@plant
def corrupted(history: History, chance: random.Random) -> None:
    row = choose(history, chance)
    chance.choice([*copies_of(history, row), *deliveries_of(history, row)])["payload_hash"] = 1


@plant
def other_key(history: History, chance: random.Random) -> None:
    row = choose(history, chance)
    chance.choice([*copies_of(history, row), *deliveries_of(history, row)])["key"] = chance.choice(["c", None])


@plant
def undelivered(history: History, chance: random.Random) -> None:
    history.deliveries.remove(chance.choice(deliveries_of(history, choose(history, chance))))


@plant
def redelivered(history: History, chance: random.Random) -> None:
    row = chance.choice(deliveries_of(history, choose(history, chance)))
    history.deliveries.append({**row, "arrival": len(history.deliveries), "received_at": row["received_at"] + 700})


@plant
def delivered_from_elsewhere(history: History, chance: random.Random) -> None:
    row = chance.choice(deliveries_of(history, choose(history, chance)))
    row["offset"] = history.next_entry(row["cluster"]) + 500


@plant
def delivered_to_a_stranger(history: History, chance: random.Random) -> None:
    row = chance.choice(deliveries_of(history, choose(history, chance)))
    history.deliveries.append({**row, "subscription": "stranger"})


@plant
def phantom(history: History, chance: random.Random) -> None:
    name = chance.choice([("p0", 900), (None, None), ("p0", None), (None, 3), ("who", 0)])
    place = {"producer": name[0], "seq": name[1], "key": "a", "offset": history.next_entry() + 500}
    history.store(**place)
    history.deliver(**place, at=MILLISECOND * 100)


@plant
def shared_position(history: History, chance: random.Random) -> None:
    row, other = choose(history, chance), choose(history, chance)
    if chance.random() < 0.5:
        # The messages of each key stay in order.
        row, other = history.publishes[-2:]
    for each in [row, *copies_of(history, row), *deliveries_of(history, row)]:
        if each["cluster"] == "main":
            each["offset"] = other["offset"]


@plant
def stored_out_of_order(history: History, chance: random.Random) -> None:
    row = choose(history, chance)
    other = find_next(history, row, chance.choice([2, 4, 8]))
    if other is None:
        return
    both = [[each, *copies_of(history, each), *deliveries_of(history, each)] for each in (row, other)]
    offsets = [{each["cluster"]: each["offset"] for each in rows} for rows in both]
    for rows, places in zip(both, reversed(offsets), strict=True):
        for each in rows:
            each["offset"] = places.get(each["cluster"], each["offset"])


@plant
def delivered_out_of_order(history: History, chance: random.Random) -> None:
    row = choose(history, chance)
    other = find_next(history, row, chance.choice([2, 4, 8]))
    if other is None:
        return
    for first, second in zip(deliveries_of(history, row), deliveries_of(history, other), strict=False):
        if (first["cluster"], first["subscription"]) == (second["cluster"], second["subscription"]):
            for column in ("received_at", "acknowledged_at"):
                first[column], second[column] = second[column], first[column]


@plant
def delivered_by_two_consumers(history: History, chance: random.Random) -> None:
    """A later message was delivered first, by another consumer, whose arrivals do not compare."""
    row = choose(history, chance)
    other = find_next(history, row)
    if other is None:
        return
    for late, early in zip(deliveries_of(history, row), deliveries_of(history, other), strict=False):
        early.update(consumer="consumer-1", received_at=late["received_at"] - chance.choice([0, 100, 300]))


@plant
def delivered_late_by_another_consumer(history: History, chance: random.Random) -> None:
    """A message is delivered after the next ones of its key, of which the last is perhaps within the clocks' error."""
    row = choose_early(history, chance)
    other = find_next(history, row, 4)
    if other is None:
        return
    for late, early in zip(deliveries_of(history, row), deliveries_of(history, other), strict=False):
        late.update(consumer="consumer-1", received_at=early["received_at"] + chance.choice([50, 100, 300]))


@plant
def delivered_at_one_time(history: History, chance: random.Random) -> None:
    """Two messages of a key arrived at one time in the wrong order."""
    row = choose(history, chance)
    other = find_next(history, row)
    if other is None:
        return
    for first, second in zip(deliveries_of(history, row), deliveries_of(history, other), strict=False):
        if (first["cluster"], first["subscription"]) == (second["cluster"], second["subscription"]):
            first["received_at"] = second["received_at"]
            first["arrival"], second["arrival"] = second["arrival"], first["arrival"]


@plant
def out_of_order_among_suspicious(history: History, chance: random.Random) -> None:
    """A message is delivered late, and each one is delivered twice, so no clean one is before it."""
    row = choose_early(history, chance)
    other = find_next(history, row)
    assert other is not None
    for first, second in zip(deliveries_of(history, row), deliveries_of(history, other), strict=False):
        first["received_at"], second["received_at"] = second["received_at"], first["received_at"]
    deliver_again(history, {each["seq"] for each in history.publishes if each["topic"] == history.topic})


@plant
def shared_position_of_suspicious(history: History, chance: random.Random) -> None:
    """Two messages of different keys share a position, stay in order, and are delivered twice."""
    row, other = history.publishes[-2:]
    for each in [row, *copies_of(history, row), *deliveries_of(history, row)]:
        if each["cluster"] == "main":
            each["offset"] = other["offset"]
    deliver_again(history, {row["seq"], other["seq"]})


def deliver_again(history: History, seqs: set[int]) -> None:
    rows = [row for row in history.deliveries if row["topic"] == history.topic and row["seq"] in seqs]
    history.deliveries += [{**row, "received_at": row["received_at"] + 700 * MILLISECOND} for row in rows]


@plant
def regressed(history: History, chance: random.Random) -> None:
    """A message was acked at a position below one whose ack was settled before it was sent."""
    row = choose(history, chance)
    later = chance.choice([1, 3, 40])
    row.update(sent_at=row["sent_at"] + later * MILLISECOND, settled_at=row["settled_at"] + later * MILLISECOND)


@plant
def regressed_after_seconds(history: History, chance: random.Random) -> None:
    """No other message of the log was sent or acked in the same second."""
    row = choose(history, chance)
    row.update(sent_at=row["sent_at"] + 3000 * MILLISECOND, settled_at=row["settled_at"] + 3000 * MILLISECOND)


@plant
def regressed_within_a_millisecond(history: History, chance: random.Random) -> None:
    row = choose(history, chance)
    settled = row["settled_at"] + history.facts["clock_error_us"] + chance.choice([1, 50])
    for other in history.publishes:
        if other["topic"] == history.topic and other["segment"] == SEGMENT and other["offset"] == row["offset"] - 1:
            other.update(sent_at=settled, settled_at=settled + 100)


def make_history(chance: random.Random, plants: list[str], clock_error_us: int = 0) -> History:
    history = History(
        clusters=("main", "other"),
        guarantee="at_least_once",
        # A message that a consumer receives in another's turn is suspicious (test_turns.py). Shared ones have no turns.
        subscriptions=[{"name": "audit", "type": "shared"}, {"name": "far", "type": "shared", "cluster": "other"}],
    )
    history.facts["clock_error_us"] = clock_error_us
    for number, name in enumerate(plants):
        history.topic = f"persistent://{chance.choice([NAMESPACE, REPLICATED])}/{number}-{name}"
        history.clean(messages=MESSAGES)
        PLANTS[name](history, chance)
    order_arrivals(history)
    return history


def judge_twice(history: History, directory: Path, division: Division) -> tuple[Judged, Judged]:
    run = write_divided(history, directory, division)
    return Judged(run, by_arrays=False), Judged(run, by_arrays=True)


@pytest.mark.parametrize("seed", HISTORIES)
def test_arrays_and_sql_find_what_sql_finds(tmp_path: Path, seed: int) -> None:
    chance = random.Random(f"clean {seed}")
    plants = [chance.choice(list(PLANTS)) for _ in range(8)]
    history = make_history(chance, plants, chance.choice([0, 150]))
    # Several plants may meet in one topic.
    for _ in range(chance.choice([0, 2, 6])):
        PLANTS[chance.choice(list(PLANTS))](history, chance)
    if chance.random() < 0.9:
        order_arrivals(history)
    division = chance.choice([Division(1, 1000), Division(2, 4), Division(3, 5), Division(5, 2)])

    by_sql, by_arrays = judge_twice(history, tmp_path / "run", division)

    assert_equal(by_arrays, by_sql)


@pytest.mark.parametrize("change", [{"consumer": "consumer-1"}, {"incarnation": 1}])
@pytest.mark.parametrize(("kind", "anomaly"), [("failover", "two_active"), ("key_shared", "key_on_two")])
def test_only_a_message_received_in_the_turn_of_another_consumer_is_left_to_sql(
    tmp_path: Path, kind: str, anomaly: str, change: Row
) -> None:
    history = History(subscriptions=[{"name": "audit", "type": kind}]).clean(messages=12)
    for row in history.rows("deliveries", "p0", 6):
        row.update(change)
    order_arrivals(history)

    by_sql, by_arrays = judge_twice(history, tmp_path / "run", Division(2, 8))

    assert_equal(by_arrays, by_sql)
    assert [anomaly in row for row in by_arrays.tables["anomalies"]] == [True]
    # Its publish, its copy and its delivery.
    assert by_arrays.judged_by_sql == 3


def test_a_clean_run_needs_no_sql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write_divided(make_history(random.Random(1), ["nothing"] * 4), tmp_path / "run", Division(3, 5))
    by_sql = Judged(run, by_arrays=False)

    monkeypatch.setattr(partitioned_sql, "open_database", None)
    by_arrays = Judged(run, by_arrays=True)

    assert_equal(by_arrays, by_sql)
    assert by_arrays.are_described
    assert by_arrays.judged_by_sql == 0


@pytest.mark.parametrize("name", PLANTS)
def test_one_planted_message_leaves_most_others_clean(tmp_path: Path, name: str) -> None:
    history = make_history(random.Random(name), [name, *["nothing"] * 4])

    by_sql, by_arrays = judge_twice(history, tmp_path / "run", Division(2, 8))

    assert_equal(by_arrays, by_sql)
    rows = sum(len(getattr(history, table)) for table in ("publishes", "stored", "deliveries"))
    assert by_arrays.judged_by_sql < rows / 3 or not by_arrays.are_described


@pytest.fixture(params=[(1, 1), (1, 3), (3, 2), (10, 1), (1000, 10)])
def short_ranges(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compared_parts, "_ROWS_A_RANGE", request.param[0])
    monkeypatch.setattr(compared_parts, "_ROWS_A_SAMPLE", request.param[1])


@pytest.mark.usefixtures("short_ranges")
@pytest.mark.parametrize("seed", range(20))
def test_a_position_that_is_named_twice_is_found_in_ranges_of_any_length(seed: int) -> None:
    chance = random.Random(seed)
    parts = [sorted(chance.choices(range(60), k=chance.randint(0, 12))) for _ in range(4)]
    counts = Counter(position for part in parts for position in part)

    found = compared_parts._find_conflicts([sort_rows(part) for part in parts])

    assert found.tolist() == sorted(position for position, count in counts.items() if count > 1)


@pytest.mark.usefixtures("short_ranges")
@pytest.mark.parametrize("seed", range(20))
def test_an_acked_position_that_went_back_is_found_in_ranges_of_any_length(seed: int) -> None:
    chance = random.Random(seed)

    def choose_rows() -> list[tuple[int, int]]:
        buckets = sorted(chance.sample(range(30), chance.randint(0, 8)))
        return [(bucket, bucket + chance.randint(0, 6)) for bucket in buckets]

    parts = [(choose_rows(), choose_rows()) for _ in range(3)]
    expected = []
    for bucket in sorted({bucket for _, sent in parts for bucket, _ in sent}):
        lowest = min(position for _, sent in parts for at, position in sent if at == bucket)
        through, before = (
            max((position for settled, _ in parts for at, position in settled if at < end), default=-1)
            for end in (bucket + 1, bucket)
        )
        if lowest < through:
            expected.append((bucket, through, before))

    found = compared_parts._find_regressed(
        [
            LogOfPart(named=sort_rows([]), settled=sort_rows(*columns(settled)), sent=sort_rows(*columns(sent)))
            for settled, sent in parts
        ]
    )

    assert list(zip(*map(np.ndarray.tolist, found), strict=True)) == expected


@pytest.mark.parametrize(("low", "high"), [(0, 10), (31, 40), (30, 40)])
def test_of_a_file_only_the_rows_near_a_range_are_read(monkeypatch: pytest.MonkeyPatch, low: int, high: int) -> None:
    monkeypatch.setattr(compared_parts, "_ROWS_A_SAMPLE", 3)
    rows, read = sort_rows(list(range(10, 31)), list(range(21))), list[int]()

    class File:
        def __getitem__(self, numbers: slice) -> np.ndarray:
            read.extend(range(21)[numbers])
            return rows.columns[0][numbers]

    found = SortedRows(columns=(File(), rows.columns[1]), samples=rows.samples).read(low, high)

    assert [column.tolist() for column in found] == ([[30], [20]] if low == 30 else [[], []])
    assert read == ([18, 19, 20] if low == 30 else [])


def columns(rows: list[tuple[int, int]]) -> list[list[int]]:
    return [[row[index] for row in rows] for index in range(2)]


def sort_rows(*values: list[int]) -> SortedRows:
    return SortedRows.from_columns(*(np.array(each, np.int64) for each in values))


# Runs that arrays cannot describe -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("deliveries", {"arrival": 9999}),
        ("publishes", {"key": "another"}),
        ("publishes", {"seq": 9000}),
        ("publishes", {"seq": -1}),
        ("publishes", {"producer": None}),
        ("publishes", {"outcome": None}),
        ("stored", {"payload_hash": None}),
        ("stored", {"seq": -1}),
        ("stored", {"segment": 1 << 22}),
        ("deliveries", {"offset": 1 << 28}),
        ("deliveries", {"batch_index": (1 << 12) - 1}),
    ],
)
def test_a_row_that_arrays_cannot_describe_leaves_the_run_to_sql(tmp_path: Path, table: str, change: Row) -> None:
    history = make_history(random.Random(1), ["nothing", "stored_out_of_order"])
    rows = getattr(history, table)
    rows.append({**rows[0], "epoch": 1} if table == "publishes" else dict(rows[0]))
    rows[-1].update(change)

    by_sql, by_arrays = judge_twice(history, tmp_path / "run", Division(2, 10_000))

    assert not by_arrays.are_described
    assert_equal(by_arrays, by_sql)


def test_a_part_that_is_larger_than_the_memory_of_a_task_leaves_the_run_to_sql(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dense_arrays, "_MOST_ROWS", 10)
    history = make_history(random.Random(1), ["nothing", "stored_out_of_order"])

    by_sql, by_arrays = judge_twice(history, tmp_path / "run", Division(2, 8))

    assert not by_arrays.are_described
    assert_equal(by_arrays, by_sql)


@pytest.mark.parametrize("table", ["publishes", "stored", "deliveries"])
def test_a_file_that_holds_a_message_of_another_part_is_an_error(tmp_path: Path, table: str) -> None:
    history = make_history(random.Random(1), ["nothing", "nothing"])
    run = write_divided(history, tmp_path / "run", Division(2, 8))
    (file,) = Path(run.table(table)).glob("part-0-*")
    file.rename(file.with_name(file.name.replace("part-0-", "part-1-")))
    with pytest.raises(RunError, match=f"of the table {table} holds messages of another part"):
        Judged(run, by_arrays=True)


# Conditions -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Judged]:
    """A run in which everything goes wrong somewhere, and SQL's answer."""
    chance = random.Random(1)
    history = make_history(chance, [name for name in PLANTS for _ in range(2)], clock_error_us=150)
    run = write_divided(history, tmp_path_factory.mktemp("planted") / "run", Division(2, 12))
    return run, Judged(run, by_arrays=False)


def test_arrays_describe_the_planted_run(planted: tuple[Run, Judged]) -> None:
    run, by_sql = planted

    by_arrays = Judged(run, by_arrays=True)

    assert by_arrays.are_described
    assert_equal(by_arrays, by_sql)


def test_sql_judges_the_whole_of_a_part_in_which_too_many_messages_are_suspicious(planted: tuple[Run, Judged]) -> None:
    run, by_sql = planted

    by_arrays = Judged(run, by_arrays=True, most_suspicious=0.01)

    assert by_arrays.judged_by_sql == by_sql.judged_by_sql
    assert_equal(by_arrays, by_sql)


@pytest.mark.parametrize("name", sorted({*CLEAN_MESSAGES.names} - {"subscription", "key", "first_received_at"}))
def test_a_clean_message_without_a_value_is_not_written(tmp_path: Path, name: str) -> None:
    place = CLEAN_MESSAGES.get_field_index(name)
    schema = CLEAN_MESSAGES.set(place, CLEAN_MESSAGES.field(place).with_nullable(True))
    batch = pa.RecordBatch.from_arrays([pa.nulls(1, each.type) for each in schema], schema=schema).select([name])

    with pytest.raises(ValueError, match=f"'{name}' with null values to non-nullable"):
        write_part(str(tmp_path), 0, pa.schema([CLEAN_MESSAGES.field(place)]), iter([batch]))

    assert not list(tmp_path.iterdir())


_WITNESSES = "found.compared[order.find_witnesses(rising, group[late], events.value[late] - error)] = True"
_AGREE = '("partition", "key", "payload_hash"):\n        equal'
# A condition, and the same code without it.
CONDITIONS = [
    (clean_messages, "(published.attempts == 1) & ", ""),
    (clean_messages, " & (outcome == acked)", ""),
    (clean_messages, " & (published.partition != NO_NUMBER)", ""),
    (clean_messages, "clean &= times != NO_TIME", "pass"),
    (clean_messages, ' & (rows["position"] != NO_POSITION)', ""),
    (clean_messages, _AGREE, _AGREE.replace('"partition", ', "")),
    (clean_messages, _AGREE, _AGREE.replace('"key", ', "")),
    (clean_messages, _AGREE, _AGREE.replace(', "payload_hash"', "")),
    (clean_messages, "found.clean &= copies == is_required", "pass"),
    (clean_messages, 'found.clean[rows["slot"][named & ~rows["agrees"]]] = False', "pass"),
    (clean_messages, "found.clean &= (published.home != cluster) | (position == published.position)", "pass"),
    (clean_messages, "found.clean &= count_named(rows, len(found.clean)) == (copy.is_required & has_to_get)", "pass"),
    (clean_messages, '~rows["agrees"][named] | ', ""),
    (clean_messages, ' | (rows["position"][named] != copy.position[slot])', ""),
    (clean_messages, "found.clean[events.slot[late]] = False", "pass"),
    (clean_messages, "found.compared[events.slot[late]] = True", "pass"),
    (clean_messages, "found.compared[events.slot[early[early >= clean]]] = True", "pass"),
    (clean_messages, "is_rising[late] = False", "pass"),
    (clean_messages, _WITNESSES, "pass"),
    (clean_messages, _WITNESSES, _WITNESSES.replace(" - error", "")),
    (
        clean_messages,
        'check_sequence(found, list_copies(found, cluster), "position", (cluster, None))',
        'list_ranges(found, "position", (cluster, None), join_events(*list_copies(found, cluster)))',
    ),
    (
        clean_messages,
        'check_sequence(found, received, "received_at", place, clock_error_us)',
        'list_ranges(found, "received_at", place, join_events(*received))',
    ),
    (
        clean_messages,
        'check_sequence(found, list_deliveries(found, *place, "arrival"), "arrival", place)',
        'list_ranges(found, "arrival", place, join_events(*list_deliveries(found, *place, "arrival")))',
    ),
    (dense_order, "late[rows[_list_between(first_above, lower_seq)]] = True", "pass"),
    (dense_order, "early[rows[_list_between(lower_seq, end_below)]] = True", "pass"),
    (dense_order, "others_late | (lower_seq < end_below)", "others_late"),
    (dense_order, "others_late | (lower_seq < end_below)", "(lower_seq < end_below)"),
    (dense_order, "others, rows = np.concatenate([rows[is_crossed], others]), rows[~is_crossed]", "pass"),
    (compared_parts, "named[1:][named[1:] == named[:-1]]", "named[:0]"),
    (compared_parts, "went_back = lowest < through", "went_back = lowest < lowest"),
    (compared_parts, "witnesses=np.unique(before)", "witnesses=before[:0]"),
    (compared_parts, "yield lowest, above", "yield from ()"),
    (clean_results, "is_in(settled, found.buckets) | ", ""),
    (comparisons, 'f"(hash({together}) % {parts})::INT"', "str(part)"),
    (comparisons, "INSERT INTO rows BY NAME", "EXPLAIN"),
    (comparisons, "pa.array(find_parts(self.recorded, batch), pa.int32())", "pa.array([0] * len(batch), pa.int32())"),
    (clean_results, 'slot[is_in(arrays[f"position_{number}"][slot], found.conflicts)]', "slot[:0]"),
    (clean_results, "self.compared[conflicts] = True", "pass"),
    (clean_results, 'arrays["named_slot"][is_in(arrays["named_position"], found.conflicts)]', "conflicts"),
    (clean_results, "self.clean[slot[went_back]] = False", "pass"),
    (clean_results, "self.compared[slot[went_back | is_witness]]", "self.compared[slot[is_witness]]"),
    (clean_results, "self.compared[slot[went_back | is_witness]]", "self.compared[slot[went_back]]"),
    (clean_results, "self.compared[same_producer & ~self.clean] = True", "pass"),
]


@pytest.mark.parametrize("number", range(len(CONDITIONS)))
def test_without_one_condition_arrays_find_something_else(
    monkeypatch: pytest.MonkeyPatch, planted: tuple[Run, Judged], number: int
) -> None:
    module, condition, without = CONDITIONS[number]
    run, by_sql = planted
    source = Path(str(module.__file__)).read_text(encoding="utf-8")
    assert source.count(condition) == 1
    changed = dict(vars(module))
    exec(compile(source.replace(condition, without), str(module.__file__), "exec"), changed)
    for user in (dense_order, clean_messages, clean_results, compared_parts, comparisons, message_judging):
        for name, value in list(vars(user).items()):
            if name in changed and getattr(value, "__module__", None) == module.__name__:
                monkeypatch.setattr(user, name, changed[name])

    try:
        by_arrays = Judged(run, by_arrays=True)
    except RunError:
        # SQL found an anomaly of a message without its facts.
        return

    assert by_arrays.result != by_sql.result
