"""The outcome that `record` leaves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from brokerproof.errors import RunError
from brokerproof.run.directory import Run
from brokerproof.run.outcome import Outcome
from brokerproof.run.records import read_record, write_record

STORED = Path(__file__).parent / "recorded_without_versions" / "outcome.json"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run that was recorded before records had versions."""
    run = Run(str(tmp_path))
    run.write_text("state/outcome.json", STORED.read_text())
    return run


def test_the_outcome_of_a_stored_run_says_what_its_file_says(run: Run) -> None:
    outcome = read_record(run, Outcome)
    assert outcome is not None
    assert outcome.model_dump(mode="json") == json.loads(STORED.read_text()) | {
        "not_applicable": {},
        "notes": [],
        "restarts": [],
        "story": "",
        "bounds": {},
    }
    write_record(run, outcome)
    assert read_record(run, Outcome) == outcome


def test_an_outcome_that_breaks_its_model_is_refused(run: Run) -> None:
    content = json.loads(STORED.read_text())
    content["seconds"]["total"] = "long"
    run.write_text("state/outcome.json", json.dumps(content))
    with pytest.raises(RunError, match=r"outcome.json is damaged: `seconds.total` input should be a valid number"):
        read_record(run, Outcome)
