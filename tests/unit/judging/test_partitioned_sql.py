"""Looking at a frame part by part: every part answers once, and what a part writes is whole or not there."""

from __future__ import annotations

import pyarrow as pa
import pytest
from brokerproof.errors import RunError
from brokerproof_judging import partitioned_sql
from brokerproof_judging.judgement import every
from brokerproof_judging.messages.result_tables import Results
from brokerproof_judging.partitioned_sql import Parts

SCHEMA = pa.schema([("number", pa.int64())])
HERE = ("p0", 7, "topic", "main", "")


def rows_in(part, connection):
    (count,) = connection.execute("SELECT count(*) FROM rows").fetchone()
    yield pa.RecordBatch.from_pydict({"part": pa.array([part], pa.int32()), "rows": [count]})


def messages(spark, count):
    return spark.range(count).selectExpr("'p0' AS who", "id AS number")


def test_a_message_is_in_the_same_part_wherever_it_is_looked_at(spark):
    among = Parts(5)
    first, second = (
        {(row.number, row.part) for row in frame.selectExpr("number", "spark_partition_id() AS part").collect()}
        for frame in (among.by_message(messages(spark, 100)), among.by_message(messages(spark, 100).orderBy("number")))
    )

    assert first == second
    assert {part for _, part in first} == set(range(5))


def test_parts_without_rows_answer_too(spark):
    answers = partitioned_sql.look(Parts(4).by_message(messages(spark, 1)), rows_in, "part int, rows bigint").collect()

    assert sorted(row.part for row in answers) == [0, 1, 2, 3]
    assert sorted(row.rows for row in answers) == [0, 0, 0, 1]


@pytest.mark.parametrize("answered", [[0], [0, 1, 1], [0, 2]])
def test_a_part_that_did_not_answer_or_twice_is_an_error(spark, answered):
    answers = spark.createDataFrame([(part, "told") for part in answered], "part int, told string")

    with pytest.raises(RunError, match="of 2 parts of the messages"):
        every(Parts(2), answers)


def test_what_does_not_fit_into_memory_is_kept_on_disk(monkeypatch):
    monkeypatch.setattr(partitioned_sql, "_MEMORY", "60MB")
    batch = pa.RecordBatch.from_pydict({"number": range(100_000), "text": [f"text {n:090d}" for n in range(100_000)]})

    with partitioned_sql.database() as connection:
        # 200 MB of text.
        partitioned_sql.load(connection, "rows", iter([batch] * 20), batch.schema)
        (found,) = partitioned_sql.rows(connection, "SELECT count(*) AS rows, max(number) AS most FROM rows")

    assert found == {"rows": 2_000_000, "most": 99_999}


def test_a_part_is_written_whole_or_not_at_all(tmp_path):
    def broken():
        yield pa.RecordBatch.from_pydict({"number": [1]}, SCHEMA)
        raise OSError("no space left on device")

    with pytest.raises(OSError, match="no space left"):
        partitioned_sql.write(str(tmp_path), 0, SCHEMA, broken())

    assert list(tmp_path.iterdir()) == []


def test_a_part_that_is_written_again_replaces_the_first(tmp_path):
    for number in (1, 2):
        partitioned_sql.write(
            str(tmp_path), 3, SCHEMA, iter([pa.RecordBatch.from_pydict({"number": [number]}, SCHEMA)])
        )

    with partitioned_sql.database() as connection:
        partitioned_sql.read(connection, "again", str(tmp_path), 3)
        assert partitioned_sql.rows(connection, "FROM again") == [{"number": 2}]
    assert [path.name for path in tmp_path.iterdir()] == ["part-00003.parquet"]


def test_an_anomaly_at_a_place_without_facts_is_an_error(tmp_path):
    from brokerproof_judging.messages.facts import PLACES

    places = str(tmp_path / "places")
    partitioned_sql.write(places, 0, PLACES, iter([]))
    results = Results(
        run_id="run",
        places=places,
        messages=str(tmp_path / "messages"),
        anomalies=str(tmp_path / "anomalies"),
        forbidden=pa.table({"cluster": [None], "subscription": [""], "forbidden": [["lost"]]}),
        destroyed=[],
    )
    found = partitioned_sql.table(
        "who string, number int64, topic string, cluster string, subscription string, anomaly string, cause string, "
        "detail string",
        [(*HERE, "position_conflict", "cause", "detail")],
    )

    with partitioned_sql.database() as connection:
        partitioned_sql.load(connection, "rows", iter(found.to_batches()), found.schema)
        with pytest.raises(RunError, match=r"where no fact is: .*'p0'"):
            list(results(0, connection))
