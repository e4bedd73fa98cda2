"""A few random histories, whose rows of `messages` and `anomalies` are in the folder `expected_rows`, with all columns.

The reference judge says which anomalies a history has (test_differential.py), and planted histories say their causes
(test_anomalies.py). Facts about messages, and texts for people, are checked only here: a change of judging that changes
one of them has to change these files too, where a reviewer sees it. `make expected-rows` writes them again.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from brokerproof.run.directory import Run
from brokerproof.run.tables import SCHEMAS
from brokerproof_judging import table_io
from brokerproof_judging.evidence import Evidence
from brokerproof_judging.messages.message_judging import MessageJudging
from pyspark.sql import SparkSession

from ..history import NAMESPACE, REPLICATED, History, table
from ..judged import check_expected
from ..reference import Reference
from .test_differential import make_history, mess

EXPECTED = Path(__file__).with_name("expected_rows")
# Of 80 scenarios, those that together show most of the wordings of details.
SCENARIOS = (0, 4, 6, 17, 22, 30, 35, 37, 43, 74)
TOPICS = 2


def make_topics(scenario: int) -> History:
    chance = random.Random(f"expected {scenario}")
    history = make_history(chance)
    for number in range(TOPICS):
        history.topic = f"persistent://{NAMESPACE if number % 2 else REPLICATED}/{number}"
        mess(history, chance)
    return history


def judge_messages(spark: SparkSession, run: Run) -> list[str]:
    """The counts, and each table's columns and rows, as lines of JSON."""
    replacement = table_io.Replacement(run)
    judging = MessageJudging(spark, run, Evidence.from_run(run), replacement)
    try:
        judging.work_out_facts()
        counts = judging.write_tables()
        replacement.take_place()
    finally:
        replacement.discard()
    lines = [counts.model_dump_json(exclude_defaults=True)]
    for name in ("messages", "anomalies"):
        lines.append(json.dumps([name, *SCHEMAS[name].names]))
        lines += sorted(json.dumps(list(row.values())) for row in table(run, name))
    return lines


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_judging_writes_the_expected_rows(spark: SparkSession, tmp_path: Path, scenario: int) -> None:
    lines = judge_messages(spark, make_topics(scenario).write(tmp_path / "run"))
    check_expected(lines, EXPECTED / f"{scenario}.jsonl")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_reference_finds_the_anomalies_of_the_expected_rows(scenario: int) -> None:
    history = make_topics(scenario)
    lines = [json.loads(line) for line in (EXPECTED / f"{scenario}.jsonl").read_text(encoding="utf-8").splitlines()]
    names = ["anomalies", *SCHEMAS["anomalies"].names]
    rows = [dict(zip(names[1:], row, strict=True)) for row in lines[lines.index(names) + 1 :]]
    places = ("anomaly", "legal", "cluster", "topic", "subscription")
    found = {(*(row[name] for name in places), (row["producer"], row["seq"])) for row in rows}
    reference = Reference(history, history.facts["clock_error_us"])
    assert found == {(*each[:5], each[5][-2:]) for each in reference.judge()}
