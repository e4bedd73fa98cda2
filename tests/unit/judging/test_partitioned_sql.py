"""Work on a frame part by part: every part answers once."""

from __future__ import annotations

import pytest
from brokerproof.errors import RunError
from brokerproof.run.division import Division
from brokerproof_judging.database import make_small_table, open_database, write_buckets, write_part
from brokerproof_judging.messages.legality import list_forbidden, list_loosened
from brokerproof_judging.messages.message_facts import FINDINGS, PLACES
from brokerproof_judging.messages.message_judging import ResultTablesOfPart
from brokerproof_judging.partitioned_sql import sort_answers, with_database, work_in_parts
from brokerproof_judging.recorded_parts import RecordedParts

from .history import History

HERE = ("p0", 7, "topic", "main", "")


def name_part(part, connection):
    (found,) = connection.execute("SELECT ?", [part]).fetchone()
    return f"part {found}"


def test_each_part_is_worked_on_once(spark):
    assert work_in_parts(spark, 3, with_database(name_part)) == ["part 0", "part 1", "part 2"]


@pytest.mark.parametrize("answered", [[0], [0, 1, 1], [0, 2]])
def test_a_part_that_did_not_answer_or_twice_is_an_error(answered):
    with pytest.raises(RunError, match="of 2 parts of the messages"):
        sort_answers(2, [(part, "counts") for part in answered])


def test_an_anomaly_at_a_place_without_facts_is_an_error(tmp_path):
    history = History()
    places, findings = str(tmp_path / "places"), str(tmp_path / "findings")
    write_part(places, 0, PLACES, iter([]))
    write_part(findings, 0, FINDINGS, iter([]))
    found = make_small_table(
        "who string, number int64, topic string, cluster string, subscription string, anomaly string, cause string, "
        "detail string, bucket int32",
        [(*HERE, "position_conflict", "cause", "detail", 0)],
    )
    for bucket, rows in enumerate((found, found.slice(1))):
        write_buckets(str(tmp_path / "compared"), bucket, FINDINGS, iter(rows.to_batches()), 2)
    results = ResultTablesOfPart(
        run_id="run",
        places=places,
        findings=findings,
        compared=str(tmp_path / "compared"),
        recorded=RecordedParts(division=Division(2, 1000), parts=2, directories={}, files={}),
        messages=str(tmp_path / "messages"),
        anomalies=str(tmp_path / "anomalies"),
        forbidden=list_forbidden(history.scenario, history.topology),
        loosened=list_loosened(history.scenario),
        destroyed=[],
        witnesses=None,
    )
    with open_database() as connection, pytest.raises(RunError, match=r"at a place that no fact is about: .*'p0'"):
        results(0, connection)
