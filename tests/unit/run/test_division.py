"""A table is divided by message: the parts of rows, the names of files, and files that are whole or not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from brokerproof.run import division
from brokerproof.run.division import (
    DividedWriter,
    Division,
    commit_files,
    list_part_files,
    number_producer,
    remove_unfinished,
)
from brokerproof.run.tables import SCHEMAS
from builders import make_run

TEN = Division(10, 4)


def rows(*messages: tuple[str | None, int | None], **values: Any) -> pa.RecordBatch:
    found = [{"producer": producer, "seq": seq, **values} for producer, seq in messages]
    return pa.RecordBatch.from_pylist(found, schema=SCHEMAS["stored"])


def parts_of(divided: Division, *messages: tuple[str | None, int | None], **values: Any) -> list[int]:
    return divided.compute_parts(rows(*messages, **values)).tolist()


def test_a_block_of_a_producer_is_in_one_part_and_the_next_block_in_the_next() -> None:
    first, *others = parts_of(TEN, *[("eu-p0", seq) for seq in (0, 3, 4, 7, 8)])
    assert others == [first, (first + 1) % 10, (first + 1) % 10, (first + 2) % 10]


def test_producers_that_differ_in_their_number_take_turns() -> None:
    parts = parts_of(TEN, *[(f"eu-p{number}", 0) for number in range(10)])
    assert sorted(parts) == list(range(10))


@pytest.mark.parametrize("name", ["", "7", "p", "p9" * 40, "p" + "9" * 40, "ä\ud800", "p\n1"])
def test_any_name_has_a_number(name: str) -> None:
    assert 0 <= number_producer(name) < 2**63


def test_a_message_without_an_identity_has_the_part_of_its_position() -> None:
    place = {"segment": 7, "offset": 15, "partition": -1}
    (without_name,) = parts_of(TEN, (None, 3), **place)
    assert parts_of(TEN, ("p", None), (None, None), **place) == [without_name] * 2
    (behind,) = parts_of(TEN, (None, 3), **{**place, "offset": 16})
    assert behind == (without_name + 1) % 10


@pytest.mark.parametrize("segment", [None, -1])
def test_a_message_without_an_identity_and_a_position_is_in_the_first_part(segment: int | None) -> None:
    assert parts_of(TEN, (None, 3), segment=segment, offset=5, partition=2) == [0]


def test_every_number_has_a_part() -> None:
    extremes = [("p", seq) for seq in (-(2**63), -1, 2**63 - 1)]
    assert all(0 <= part < 10 for part in parts_of(TEN, *extremes))
    place = {"segment": 2**63 - 1, "offset": 2**63 - 1, "partition": 2**31 - 1}
    assert all(0 <= part < 10 for part in parts_of(TEN, (None, None), **place))


def test_a_run_has_a_part_for_each_core_and_for_each_million_messages() -> None:
    assert Division.for_messages(0) == Division(2, 1)
    assert Division.for_messages(44_000) == Division(2, 22_000)
    assert Division.for_messages(10_000_000) == Division(10, 1 << 18)


def test_a_load_that_has_to_find_its_rate_is_divided_beforehand(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", "sync_nominal", {"workload.rate": "max", "phases.steady_s": 100})
    assert Division.for_run(run).parts == -(-50_000 * run.scenario.phases.total_s // 1_000_000)


def test_a_name_cannot_demand_any_number_of_parts() -> None:
    assert Division.from_names(["part-3-of-4096-by-4-a.parquet"]) == Division(4096, 4)
    assert Division.from_names(["part-3-of-4097-by-4-a.parquet"]) is None
    assert Division.for_messages(10**12).parts == 4096


def test_names_tell_how_a_table_is_divided() -> None:
    names = [TEN.name_file(part) for part in (3, 3, 9)]
    assert Division.from_names(names) == TEN
    assert list_part_files(names, 3) == names[:2]
    assert list_part_files(names, 0) == []


@pytest.mark.parametrize(
    "other",
    [
        "part-00000-abc.snappy.parquet",
        "part-3-of-10-by-5-a.parquet",
        "part-10-of-10-by-4-a.parquet",
        "part-0-of-10-by-0-a.parquet",
        "part-3-of-999999999-by-4-a.parquet",
        "below/part-0-of-10-by-4-a.parquet",
    ],
)
def test_a_file_with_another_name_says_that_the_table_is_not_divided_in_one_way(other: str) -> None:
    assert Division.from_names([TEN.name_file(3), other]) is None


def test_files_appear_whole_and_only_when_they_are_committed(tmp_path: Path) -> None:
    messages = [("p0", seq) for seq in range(12)]
    with DividedWriter(str(tmp_path), "stored", TEN) as writer:
        for message in messages:
            writer.add(rows(message))
    assert [file.name for file in tmp_path.iterdir() if not file.name.startswith(".")] == []
    commit_files(str(tmp_path), writer.names)
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(writer.names)
    assert len(writer.names) == 3
    assert sorted(pq.read_table(tmp_path)["seq"].to_pylist()) == list(range(12))


def test_a_table_without_rows_has_a_file_with_its_columns(tmp_path: Path) -> None:
    with DividedWriter(str(tmp_path), "stored", TEN) as writer:
        pass
    commit_files(str(tmp_path), writer.names)
    (file,) = tmp_path.iterdir()
    assert pq.read_schema(file) == SCHEMAS["stored"]
    assert list_part_files([file.name], 0) == [file.name]


def test_a_writer_that_fails_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(division, "_ROWS_A_GROUP", 1)
    found: list[Path] = []

    def write() -> None:
        with DividedWriter(str(tmp_path), "stored", TEN) as writer:
            writer.add(rows(("p0", 0)))
            found.extend(tmp_path.iterdir())
            raise ValueError("gone")

    with pytest.raises(ValueError, match="gone"):
        write()
    assert len(found) == 1
    assert list(tmp_path.iterdir()) == []


def test_committing_removes_what_another_attempt_left(tmp_path: Path) -> None:
    (tmp_path / ".part-0-of-10-by-4-a.parquet").write_bytes(b"half")
    (tmp_path / ".other").write_bytes(b"another program's")
    with DividedWriter(str(tmp_path), "stored", TEN) as writer:
        writer.add(rows(("p0", 0)))
    commit_files(str(tmp_path), writer.names)
    assert {file.name for file in tmp_path.iterdir()} == {*writer.names, ".other"}


def test_removing_from_a_table_that_does_not_exist_does_nothing(tmp_path: Path) -> None:
    remove_unfinished(str(tmp_path / "no table"))


def test_if_many_rows_wait_the_fullest_part_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(division, "_MOST_WAITING_ROWS", 3)
    with DividedWriter(str(tmp_path), "stored", TEN) as writer:
        writer.add(rows(("p0", 0), ("p0", 4), ("p0", 5)))
        assert writer.names == []
        writer.add(rows(("p0", 6)))
        assert list_part_files(writer.names, parts_of(TEN, ("p0", 6))[0]) == writer.names
        assert len(writer.names) == 1
    assert len(writer.names) == 2


def test_numbers_are_written_as_differences(tmp_path: Path) -> None:
    rows = pa.Table.from_pylist([{"producer": "p0", "seq": seq} for seq in range(1000)], schema=SCHEMAS["stored"])
    with DividedWriter(str(tmp_path), "stored", Division(1, 1000)) as writer:
        for batch in rows.to_batches():
            writer.add(batch)
    commit_files(str(tmp_path), writer.names)
    (file,) = tmp_path.iterdir()
    group = pq.read_metadata(file).row_group(0)
    seq, payload_hash = (group.column(rows.schema.names.index(name)) for name in ("seq", "payload_hash"))
    assert "DELTA_BINARY_PACKED" in seq.encodings
    assert seq.total_compressed_size < 200
    assert "DELTA_BINARY_PACKED" not in payload_hash.encodings
    assert pq.read_table(file).equals(rows)
