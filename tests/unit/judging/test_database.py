"""The database of a part: what does not fit is kept on disk, and what a part writes is whole or not there."""

from __future__ import annotations

import os
import subprocess
import sys

import duckdb
import pyarrow as pa
import pytest
from brokerproof_judging import database

SCHEMA = pa.schema([("number", pa.int64()), ("text", pa.string())])


def batch_of(*numbers):
    return pa.RecordBatch.from_pylist([{"number": number, "text": "t"} for number in numbers], SCHEMA)


def test_what_does_not_fit_into_memory_is_kept_on_disk():
    batch = pa.RecordBatch.from_pydict({"number": range(100_000), "text": [f"text {n:090d}" for n in range(100_000)]})

    with database.open_database(memory="60MB") as connection:
        # 200 MB of text.
        database.load_table(connection, "rows", iter([batch] * 20), batch.schema)
        (found,) = database.select_rows(connection, "SELECT count(*) AS rows, max(number) AS most FROM rows")

    assert found == {"rows": 2_000_000, "most": 99_999}


def test_a_killed_task_leaves_no_directory_for_ever_and_a_running_one_keeps_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    wait = "import sys\nwith database.open_database():\n    print('open', flush=True)\n    sys.stdin.read()"
    command = [sys.executable, "-c", f"from brokerproof_judging import database\n{wait}"]
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    killed = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=path)
    assert killed.stdout.readline() == b"open\n"
    (left,) = tmp_path.iterdir()
    with database.open_database():
        assert left.exists()
    killed.kill()
    killed.communicate()
    assert left.exists()

    with database.open_database():
        assert not left.exists()
    assert list(tmp_path.iterdir()) == []


def test_a_part_is_written_whole_or_not_at_all(tmp_path):
    def break_off():
        yield batch_of(1)
        raise OSError("no space left on device")

    with pytest.raises(OSError, match="no space left"):
        database.write_part(str(tmp_path), 0, SCHEMA, break_off())

    assert list(tmp_path.iterdir()) == []


def test_a_part_that_is_written_again_replaces_the_first(tmp_path):
    for number in (1, 2):
        database.write_part(str(tmp_path), 3, SCHEMA, iter([batch_of(number)]))

    with database.open_database() as connection:
        database.read_part(connection, "again", str(tmp_path), 3)
        assert database.select_rows(connection, "FROM again") == [{"number": 2, "text": "t"}]
    assert [path.name for path in tmp_path.iterdir()] == ["part-00003.parquet"]


def test_a_part_has_its_columns_in_the_order_of_the_schema(tmp_path):
    turned = batch_of(1).select(["text", "number"])
    database.write_part(str(tmp_path), 0, SCHEMA, iter([turned]))

    with database.open_database() as connection:
        database.read_part(connection, "written", str(tmp_path), 0)
        assert connection.execute("FROM written").fetchall() == [(1, "t")]


@pytest.mark.parametrize("sizes", [[3], [1, 2], [1, 1, 1]])
def test_a_bucket_has_its_rows_of_all_parts(tmp_path, sizes):
    first, second = [(1, 0), (2, 0), (3, 2)], [(4, 1), (5, 2), (6, 2)]
    for part, rows in enumerate((first, second)):
        whole = pa.table({"number": [row[0] for row in rows], "text": ["t"] * 3, "bucket": [row[1] for row in rows]})
        places = [sum(sizes[:index]) for index in range(len(sizes))]
        batches = (whole.slice(place, size).to_batches()[0] for place, size in zip(places, sizes, strict=True))
        database.write_buckets(str(tmp_path), part, SCHEMA, batches, 4)

    with database.open_database() as connection:
        for bucket, numbers in enumerate([[1, 2], [4], [3, 5, 6], []]):
            database.read_bucket(connection, f"bucket_{bucket}", str(tmp_path), SCHEMA, 2, bucket)
            assert connection.execute(f"FROM bucket_{bucket} ORDER BY ALL").fetchall() == [(n, "t") for n in numbers]


def test_a_part_without_rows_has_empty_buckets(tmp_path):
    database.write_buckets(str(tmp_path), 0, SCHEMA, iter(()), 2)

    with database.open_database() as connection:
        database.read_bucket(connection, "rows", str(tmp_path), SCHEMA, 1, 1)
        assert connection.execute("FROM rows").fetchall() == []


def test_a_value_is_a_function_in_queries_and_a_mistyped_one_is_an_error():
    with database.open_database() as connection:
        database.define_values(connection, {"clock_error_us": 150, "run_id": "it's one"})

        assert connection.execute("SELECT clock_error_us(), run_id()").fetchall() == [(150, "it's one")]
        with pytest.raises(duckdb.CatalogException):
            connection.execute("SELECT clock_eror_us()")
