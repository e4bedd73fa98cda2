"""Work on a frame part by part: every part answers once."""

from __future__ import annotations

import pyarrow as pa
import pytest
from brokerproof.errors import RunError
from brokerproof_judging.database import load_table, make_small_table, open_database, write_part
from brokerproof_judging.messages.legality import list_forbidden, list_loosened
from brokerproof_judging.messages.message_facts import FINDINGS, PLACES
from brokerproof_judging.messages.message_judging import ResultTablesOfPart
from brokerproof_judging.partitioned_sql import Parts, collect_answers, work_on_parts

from .history import History

HERE = ("p0", 7, "topic", "main", "")


def count_rows(part, connection):
    (count,) = connection.execute("SELECT count(*) FROM rows").fetchone()
    yield pa.RecordBatch.from_pydict({"part": pa.array([part], pa.int32()), "rows": [count]})


def messages(spark, count):
    return spark.range(count).selectExpr("'p0' AS who", "id AS number")


def test_a_message_is_in_the_same_part_wherever_it_is_looked_at(spark):
    parts, ordered = Parts(5), messages(spark, 100).orderBy("number")
    first, second = (
        {(row.number, row.part) for row in frame.selectExpr("number", "spark_partition_id() AS part").collect()}
        for frame in (parts.split_by_message(messages(spark, 100)), parts.split_by_message(ordered))
    )

    assert first == second
    assert {part for _, part in first} == set(range(5))


def test_parts_without_rows_answer_too(spark):
    frame = Parts(4).split_by_message(messages(spark, 1))
    answers = work_on_parts(frame, count_rows, "part int, rows bigint").collect()

    assert sorted(row.part for row in answers) == [0, 1, 2, 3]
    assert sorted(row.rows for row in answers) == [0, 0, 0, 1]


@pytest.mark.parametrize("answered", [[0], [0, 1, 1], [0, 2]])
def test_a_part_that_did_not_answer_or_twice_is_an_error(spark, answered):
    answers = spark.createDataFrame([(part, "counts") for part in answered], "part int, counts string")

    with pytest.raises(RunError, match="of 2 parts of the messages"):
        collect_answers(Parts(2), answers)


def test_an_anomaly_at_a_place_without_facts_is_an_error(tmp_path):
    history = History()
    places, findings = str(tmp_path / "places"), str(tmp_path / "findings")
    write_part(places, 0, PLACES, iter([]))
    write_part(findings, 0, FINDINGS, iter([]))
    results = ResultTablesOfPart(
        run_id="run",
        places=places,
        findings=findings,
        messages=str(tmp_path / "messages"),
        anomalies=str(tmp_path / "anomalies"),
        forbidden=list_forbidden(history.scenario, history.topology),
        loosened=list_loosened(history.scenario),
        destroyed=[],
    )
    found = make_small_table(
        "who string, number int64, topic string, cluster string, subscription string, anomaly string, cause string, "
        "detail string",
        [(*HERE, "position_conflict", "cause", "detail")],
    )

    with open_database() as connection:
        load_table(connection, "rows", iter(found.to_batches()), found.schema)
        with pytest.raises(RunError, match=r"at a place that no fact is about: .*'p0'"):
            list(results(0, connection))
