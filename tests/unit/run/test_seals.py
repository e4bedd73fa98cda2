"""Seals: every way in which a table can differ from what its job wrote is found and named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import fsspec
import pyarrow.parquet as pq
import pytest
from brokerproof.run.directory import Run
from brokerproof.run.records import (
    ClustersConfigured,
    FaultsUndone,
    LoadEnd,
    Record,
    TableSeal,
    TimelineProcess,
    read_record,
    remove_record,
    write_record,
)
from brokerproof.run.seals import WRITERS, check_seals, seal_tables
from brokerproof.run.tables import SCHEMAS
from builders import make_run


def record_tables(run: Run) -> None:
    """Two files a table, and their seals."""
    for table in WRITERS:
        for _ in range(2):
            run.append(table, [{"run_id": run.run_id}, {"run_id": run.run_id}])
    seal_tables(run, *WRITERS)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    writing = {"workload.subscriptions": [{"name": "audit", "commit": "after"}]}
    run = make_run(tmp_path / "run", "sync_nominal", writing, sealed=True)
    record_tables(run)
    return run


def files_of(run: Run, table: str) -> list[Path]:
    return sorted(Path(run.table(table)).glob("part-*.parquet"))


def test_what_nobody_touched_agrees_with_its_seal(run: Run) -> None:
    checked = check_seals(run)
    assert (checked.broken, checked.problems) == (frozenset(), ())
    seal = read_record(run, TableSeal, "stored")
    assert seal is not None
    assert [file.rows for file in seal.files] == [2, 2]


def test_a_table_without_a_row_has_a_seal_without_a_file(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", sealed=True)
    seal_tables(run, *WRITERS)
    assert check_seals(run).broken == frozenset()


def remove(run: Run, file: Path) -> None:
    file.unlink()


def shorten(run: Run, file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-10])


def flip_one_bit(run: Run, file: Path) -> None:
    """The bit is in the data, behind the first four bytes. The footer, which has the number of rows, stays readable."""
    content = bytearray(file.read_bytes())
    content[5] ^= 1
    file.write_bytes(content)


def rewrite_with_fewer_rows(run: Run, file: Path) -> None:
    pq.write_table(pq.read_table(file).slice(0, 1), file)


def empty(run: Run, file: Path) -> None:
    file.write_bytes(b"")


@pytest.mark.parametrize("table", WRITERS)
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (remove, "A file of the table {table} is missing: {name} with 2 rows."),
        (shorten, "A file of the table {table} is not the one that was sealed: {name} has "),
        (flip_one_bit, "A file of the table {table} is not the one that was sealed: {name} has another content."),
        (rewrite_with_fewer_rows, "A file of the table {table} is not the one that was sealed: {name} has "),
        (empty, "A file of the table {table} is not the one that was sealed: {name} has 0 bytes instead of "),
    ],
)
def test_a_file_that_was_damaged_is_named(run: Run, table: str, damage: Callable[[Run, Path], None], said: str) -> None:
    file = files_of(run, table)[1]
    damage(run, file)
    checked = check_seals(run)
    assert checked.broken == {table}
    (problem,) = checked.problems
    assert problem.startswith(said.format(table=table, name=file.name))


def test_only_the_tables_asked_for_are_compared(run: Run) -> None:
    shorten(run, files_of(run, "stored")[1])
    assert check_seals(run, ["publishes"]).broken == frozenset()
    assert check_seals(run, ["publishes", "stored"]).broken == {"stored"}


def test_without_checksums_sizes_and_rows_are_compared(run: Run) -> None:
    flip_one_bit(run, files_of(run, "publishes")[1])
    shorten(run, files_of(run, "stored")[1])
    remove(run, files_of(run, "faults")[1])
    assert check_seals(run, checksums=False).broken == {"stored", "faults"}


def test_a_file_that_was_added_is_named(run: Run) -> None:
    before = files_of(run, "stored")
    run.append("stored", [{"run_id": "r"}])
    (added,) = set(files_of(run, "stored")) - set(before)
    assert check_seals(run).problems == (
        f"A file was added to the table stored after it was sealed: {added.name} with 1 rows.",
    )


def test_a_file_that_was_added_further_down_is_named(run: Run) -> None:
    below = Path(run.table("stored")) / "cluster=us"
    below.mkdir()
    (below / "part-9.parquet").write_bytes(files_of(run, "stored")[0].read_bytes())
    assert "cluster=us/part-9.parquet" in check_seals(run).problems[0]


def test_what_readers_skip_is_no_file_of_a_table(run: Run) -> None:
    for name in ("_SUCCESS", ".part-1.parquet.crc", ".unfinished"):
        (Path(run.table("stored")) / name).write_text("")
    assert check_seals(run).problems == ()


def test_a_table_that_was_deleted_is_named(run: Run) -> None:
    filesystem, directory = fsspec.url_to_fs(run.table("deliveries"))
    filesystem.rm(directory, recursive=True)
    checked = check_seals(run)
    assert checked.broken == {"deliveries"}
    assert len(checked.problems) == 2


def test_a_table_that_was_deleted_with_its_seal_is_named_where_its_job_ended(run: Run) -> None:
    filesystem, directory = fsspec.url_to_fs(run.table("publishes"))
    filesystem.rm(directory, recursive=True)
    remove_record(run, TableSeal, "publishes")
    # Its job says nothing: it may have never begun, and other records tell that.
    assert (check_seals(run).broken, check_seals(run).problems) == ({"publishes"}, ())
    write_record(run, LoadEnd(finished=True, why="", scheduled=4, producers=(), at=1))
    assert check_seals(run).problems == (
        "The table publishes is missing, and so is its seal, although load has ended.",
    )


def test_a_job_that_did_not_get_to_its_end_is_named(run: Run) -> None:
    remove_record(run, TableSeal, "copies")
    write_record(run, FaultsUndone(undone=True, problems=(), at=1))
    checked = check_seals(run)
    assert checked.broken == {"copies"}
    assert checked.problems == ("The table copies has no seal, because break_it did not get to its end.",)


@pytest.mark.parametrize(
    ("table", "begun"),
    [
        ("observations", ClustersConfigured(at=1)),
        ("faults", TimelineProcess(pid=1, created=1.0, host="here")),
        ("copies", TimelineProcess(pid=1, created=1.0, host="here")),
    ],
)
def test_a_writer_that_was_killed_before_its_first_row_is_named(tmp_path: Path, table: str, begun: Record) -> None:
    run = make_run(tmp_path / "run", sealed=True)
    assert table in check_seals(run).broken
    assert not any(table in sentence for sentence in check_seals(run).problems)
    write_record(run, begun)
    assert any(sentence.startswith(f"The table {table} is missing, because ") for sentence in check_seals(run).problems)


def test_a_seal_that_cannot_be_read_proves_nothing(run: Run) -> None:
    Path(run.path("state", "table_seal-stored.json")).write_text("{")
    checked = check_seals(run)
    assert checked.broken == {"stored"}
    assert "cannot be compared with its seal" in checked.problems[0]


def test_nobody_who_consumes_leaves_no_deliveries(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", "sync_nominal", {"workload.subscriptions": []}, sealed=True)
    seal_tables(run, *(table for table in WRITERS if table != "deliveries"))
    assert check_seals(run).broken == frozenset()


def test_a_run_from_before_there_were_seals_has_none_to_compare_with(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    run.append("stored", [{"run_id": "r"}])
    assert check_seals(run).broken == frozenset()


def test_seals_are_of_any_place(tmp_path: Path) -> None:
    run = make_run(f"memory://{tmp_path.name}/run", sealed=True)
    record_tables(run)
    assert check_seals(run).problems == ()
    filesystem, directory = fsspec.url_to_fs(run.table("faults"))
    filesystem.rm(sorted(filesystem.find(directory))[0])
    assert len(check_seals(run).problems) == 1


def test_every_table_that_is_recorded_is_sealed() -> None:
    assert set(SCHEMAS) - set(WRITERS) == {"messages", "anomalies", "measurements"}
