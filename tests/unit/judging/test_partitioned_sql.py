"""Work on a frame part by part: every part answers once."""

from __future__ import annotations

import pyarrow as pa
import pytest
from brokerproof.errors import RunError
from brokerproof_judging.database import load_table, make_small_table, open_database, write_part
from brokerproof_judging.messages.legality import list_forbidden, list_loosened
from brokerproof_judging.messages.message_facts import FINDINGS, PLACES
from brokerproof_judging.messages.message_judging import ResultTablesOfPart
from brokerproof_judging.partitioned_sql import collect_answers, work_in_parts, work_on_parts

from .history import History

HERE = ("p0", 7, "topic", "main", "")


def count_rows(part, connection):
    (count,) = connection.execute("SELECT count(*) FROM rows").fetchone()
    yield pa.RecordBatch.from_pydict({"part": pa.array([part], pa.int32()), "rows": [count]})


def name_part(part, connection):
    (found,) = connection.execute("SELECT ?", [part]).fetchone()
    yield pa.RecordBatch.from_pydict({"part": pa.array([found], pa.int32())})


def test_each_part_is_worked_on_once(spark):
    assert [row.part for row in work_in_parts(spark, 3, name_part, "part int").collect()] == [0, 1, 2]


def test_parts_without_rows_answer_too(spark):
    frame = spark.range(1).selectExpr("id", "2 AS part").repartitionById(4, "part")
    answers = work_on_parts(frame, count_rows, "part int, rows bigint").collect()

    assert sorted((row.part, row.rows) for row in answers) == [(0, 0), (1, 0), (2, 1), (3, 0)]


@pytest.mark.parametrize("answered", [[0], [0, 1, 1], [0, 2]])
def test_a_part_that_did_not_answer_or_twice_is_an_error(spark, answered):
    answers = spark.createDataFrame([(part, "counts") for part in answered], "part int, counts string")

    with pytest.raises(RunError, match="of 2 parts of the messages"):
        collect_answers(2, answers)


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
