"""Judging reads the files of each part, and divides the tables of a run that are not divided in one way."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from brokerproof.errors import RunError
from brokerproof.run.directory import Run
from brokerproof.run.division import DIVIDED_TABLES, DividedWriter, Division, commit_files
from brokerproof_judging import recorded_parts
from brokerproof_judging.database import open_database, select_rows
from brokerproof_judging.messages.message_columns import POSITION, define_macros, find_parts
from brokerproof_judging.messages.message_facts import load_records
from brokerproof_judging.recorded_parts import RecordedParts, divide_records
from brokerproof_judging.table_io import Replacement
from pyspark.sql import SparkSession

from .history import History

THREE = Division(3, 2)
COLUMNS = ("producer", "seq", "received_at")


def divide(run: Run, division: Division = THREE) -> None:
    """Divide the tables as jobs do. A run has no outputs if its consumers write none."""
    for table in (name for name in DIVIDED_TABLES if Path(run.table(name)).exists()):
        batches = pq.read_table(run.table(table)).to_batches()
        for file in Path(run.table(table)).iterdir():
            file.unlink()
        with DividedWriter(run.table(table), table, division) as writer:
            for batch in batches:
                writer.add(batch)
        commit_files(run.table(table), writer.names)


def read_all(recorded: RecordedParts, table: str = "deliveries") -> list[dict[str, object]]:
    return [
        row
        for part in range(recorded.parts)
        for row in recorded.read(table, part, COLUMNS if table == "deliveries" else COLUMNS[:2]).read_all().to_pylist()
    ]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return History(subscriptions=[{"name": "audit", "commit": "after"}]).clean().write(tmp_path / "run")


def test_tables_that_jobs_divided_are_read_where_they_are(spark: SparkSession, run: Run) -> None:
    divide(run)
    recorded = divide_records(spark, run, Replacement(run))
    assert recorded.division == THREE
    assert recorded.directories == {table: run.table(table) for table in DIVIDED_TABLES}


def test_joined_parts_hold_the_rows_of_several_parts(run: Run) -> None:
    divide(run)
    directories = {table: run.table(table) for table in DIVIDED_TABLES}
    files = {table: run.list_files(table) for table in DIVIDED_TABLES}
    divided = RecordedParts(division=THREE, parts=3, directories=directories, files=files)
    joined = divided.join(2)
    assert (joined.parts, divided.join(9).parts) == (2, 3)
    for table in DIVIDED_TABLES:
        first, second, third = (divided.read_whole(table, part, COLUMNS[:2]).to_pylist() for part in range(3))
        assert joined.read_whole(table, 0, COLUMNS[:2]).to_pylist() == first + third
        assert joined.read_whole(table, 1, COLUMNS[:2]).to_pylist() == second
        assert first
        assert second
        assert third


@pytest.mark.parametrize("how", ["one undivided file", "one table divided otherwise", "one undivided table"])
def test_other_tables_are_divided_first(spark: SparkSession, run: Run, how: str) -> None:
    if how == "one table divided otherwise":
        divide(run, Division(2, 1))
        stored = next(Path(run.table("stored")).iterdir())
        stored.rename(stored.with_name(stored.name.replace("by-1-", "by-5-")))
    elif how == "one undivided file":
        divide(run)
        run.append("stored", [{"run_id": "r1", "producer": "p9", "seq": 0}])
    before = {table: sorted(pq.read_table(run.table(table))["seq"].to_pylist()) for table in DIVIDED_TABLES}
    replacement = Replacement(run)
    recorded = divide_records(spark, run, replacement)
    assert {table: sorted(row["seq"] for row in read_all(recorded, table)) for table in DIVIDED_TABLES} == before
    replacement.discard()
    assert not [file for file in Path(run.path("tables")).iterdir() if file.name.startswith(".")]


def test_a_file_that_holds_a_message_of_another_part_is_an_error(spark: SparkSession, run: Run) -> None:
    divide(run)
    file = min(Path(run.table("deliveries")).glob("part-0-*"))
    file.rename(file.with_name(file.name.replace("part-0-", "part-1-")))
    recorded = divide_records(spark, run, Replacement(run))
    with pytest.raises(RunError, match="of the table deliveries holds messages of another part"):
        read_all(recorded)


def test_times_are_numbers_and_missing_columns_are_null(run: Run) -> None:
    divide(run)
    (file, *_) = Path(run.table("deliveries")).glob("part-0-*")
    whole = pq.read_table(file)
    pq.write_table(whole.drop_columns(["published_at", "segment"]), file, use_deprecated_int96_timestamps=True)
    recorded = RecordedParts(
        division=THREE,
        parts=3,
        directories={"deliveries": run.table("deliveries")},
        files={"deliveries": [file.name]},
    )
    found = recorded.read("deliveries", 0, ("received_at", "segment")).read_all()
    assert found.column("received_at").type == pa.int64()
    assert found.column("received_at").to_pylist() == whole["received_at"].cast(pa.int64()).to_pylist()
    assert found.column("segment").null_count == len(whole)


def test_a_file_is_divided_by_several_tasks(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded_parts, "_ROWS_A_TASK", 4)
    (file,) = Path(run.table("stored")).iterdir()
    pq.write_table(pq.read_table(file), file, row_group_size=2)
    assert list(recorded_parts._plan_groups(str(file))) == [[0, 1], [2, 3], [4, 5]]


MARK = chr(1)
NAMELESS = [
    {"producer": None, "seq": None, "segment": 7, "offset": 15, "batch_index": None, "partition": 2},
    {"producer": "p1", "seq": None, "segment": 7, "offset": 16, "batch_index": 3, "partition": -1},
    {"producer": None, "seq": 5, "segment": -1, "offset": 16, "batch_index": 3, "partition": None},
    {"producer": None, "seq": 5, "segment": None, "offset": None, "batch_index": None, "partition": 1},
]


def test_a_message_has_one_name_and_one_part_in_files_and_in_a_database(spark: SparkSession, tmp_path: Path) -> None:
    history = History().clean()
    history.stored += [{**history.stored[0], **place} for place in NAMELESS]
    run = history.write(tmp_path / "run")
    divide(run)
    recorded = divide_records(spark, run, Replacement(run))
    found = []
    for part in range(THREE.parts):
        with open_database() as connection:
            define_macros(connection)
            load_records(connection, recorded, part)
            rows = select_rows(connection, "FROM stored")
        found += [tuple(row[name] for name in ("who", "number", *POSITION)) for row in rows]
        if rows:
            named = pa.RecordBatch.from_pylist([{name: row[name] for name in ("who", "number")} for row in rows])
            assert set(find_parts(THREE, named)) == {part}
    assert {row for row in found if row[0].startswith(MARK)} == {
        (f"{MARK}2:7:15:-1{MARK}", -1, 7, 15, -1),
        (f"{MARK}-1:7:16:3{MARK}p1", -1, 7, 16, 3),
        (f"{MARK}:::{MARK}", 5, None, None, None),
        (f"{MARK}1:::{MARK}", 5, None, None, None),
    }
    named = {(row["producer"], row["seq"]) for row in history.publishes}
    assert sorted(row[:2] for row in found if not row[0].startswith(MARK)) == sorted(named)
