"""A judgement is read as it was left; one of another run, a damaged one and none are refused with a sentence."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from brokerproof.errors import RunError
from brokerproof.experiment.guarantees import Anomaly, Suite
from brokerproof.experiment.verdict import Verdict
from brokerproof.run.directory import Run, RunFacts
from brokerproof.run.judgement import Judgement, JudgingFailure, read_judgement, write_judgement
from brokerproof.run.measurement import Measurement
from brokerproof.run.records import read_record, write_record
from brokerproof.run.tables import SCHEMAS
from builders import make_check, make_counts, make_judgement, make_measurement, make_suite

FAILURE = JudgingFailure(why="The run could not be judged: no Java", error="…")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run of the id that the stored judgement names."""
    run = Run(str(tmp_path))
    facts = RunFacts(run_id="stored", created_at=datetime(2026, 1, 1, tzinfo=UTC), scenario={}, topology={})
    run.write_text("run.json", facts.model_dump_json())
    return run


def judgement(run_id: str = "stored") -> Judgement:
    measured = make_measurement(run_id, "rto_s", float("inf"), subject="gone", maximum=60.0)
    return make_judgement(
        Verdict.FAILED,
        suites={Suite.COMPLETENESS: make_suite(Verdict.FAILED, make_check("lost", Verdict.FAILED, unexpected=1))},
        counts=make_counts(9, illegal={Anomaly.LOST: 1}),
        recovery={"gone": {"rto_s": None}},
        measurements=[measured],
        seconds={"facts": 1.5},
    )


def test_a_judgement_is_read_as_it_was_left(run: Run) -> None:
    write_record(run, judgement())
    assert read_judgement(run) == judgement()
    # JSON has no infinity: what is without end was not measured.
    assert read_judgement(run).measurements[0].value is None


def test_why_a_run_could_not_be_judged_takes_the_place_of_its_judgement(run: Run) -> None:
    write_judgement(run, judgement())
    write_judgement(run, FAILURE)
    with pytest.raises(RunError, match=r"^The run could not be judged: no Java$"):
        read_judgement(run)
    assert read_record(run, Judgement) is None


def test_a_judgement_takes_the_place_of_why_a_run_could_not_be_judged(run: Run) -> None:
    write_judgement(run, FAILURE)
    write_judgement(run, judgement())
    assert read_judgement(run) == judgement()
    assert read_record(run, JudgingFailure) is None


def test_a_failure_counts_even_if_the_earlier_judgement_was_not_removed(run: Run) -> None:
    write_record(run, judgement())
    write_record(run, FAILURE)
    with pytest.raises(RunError, match=r"^The run could not be judged: no Java$"):
        read_judgement(run)


def test_a_run_that_nobody_judged_is_reported(run: Run) -> None:
    with pytest.raises(RunError, match="nothing was judged"):
        read_judgement(run)


def test_the_judgement_of_another_run_is_refused(run: Run) -> None:
    write_record(run, judgement("r0"))
    with pytest.raises(RunError, match="of another run: r0"):
        read_judgement(run)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("counts", "acked"), -1, "`counts.acked` input should be greater"),
        (("counts", "acked"), "9", "`counts.acked` input should be a valid integer"),
        (("counts", "illegal"), {"mislaid": 1}, "`counts.illegal.mislaid.[key]` input should be"),
        (("suites", "completeness", "verdict"), "fine", "`suites.completeness.verdict` input should be"),
        (("measurements", 0, "value"), "fast", "`measurements.0.value` input should be a valid number"),
        (("measurements", 0, "colour"), "red", "`measurements.0.colour` extra inputs are not permitted"),
    ],
)
def test_one_wrong_value_is_refused_with_its_field(run: Run, path: tuple[Any, ...], value: Any, said: str) -> None:
    write_record(run, judgement())
    content = json.loads(run.read_text("state", "judgement.json"))
    at = content
    for part in path[:-1]:
        at = at[part]
    at[path[-1]] = value
    run.write_text("state/judgement.json", json.dumps(content))
    with pytest.raises(RunError) as refused:
        read_judgement(run)
    assert f"judgement.json is damaged: {said}" in str(refused.value)


def test_the_table_of_measurements_has_the_columns_of_a_measurement() -> None:
    text, number = pa.string(), pa.float64()
    types = {"value": number, "minimum": number, "maximum": number, "at_least": number, "at_most": number}
    assert pa.schema([(name, types.get(name, text)) for name in Measurement.model_fields]) == SCHEMAS["measurements"]
