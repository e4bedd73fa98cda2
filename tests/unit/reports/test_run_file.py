"""The report as a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from brokerproof.checks import load_scenario
from brokerproof.directories import Directories
from brokerproof.errors import BrokerproofError
from brokerproof.reports.run_file import write_run_file
from brokerproof.results.run_outcome import compose_outcome
from brokerproof.run.directory import Run

ROOT = Path(__file__).resolve().parents[3]


def test_the_file_is_where_the_outcome_says_and_needs_no_other(tmp_path: Path) -> None:
    scenario, topology = load_scenario(ROOT / "dags/scenarios/sync_nominal.yaml", Directories((ROOT / "topologies",)))
    run = Run.create(str(tmp_path / "run"), run_id="r", scenario=scenario, topology=topology, addresses={})
    path = write_run_file(run)
    assert compose_outcome(run).report == path
    assert [file.name for file in (tmp_path / "run" / "report").iterdir()] == ["report.html"]
    assert "the run was not judged" in Path(path).read_text(encoding="utf-8")


def test_a_directory_without_a_run_gets_no_report(tmp_path: Path) -> None:
    with pytest.raises(BrokerproofError, match="is missing"):
        write_run_file(Run(str(tmp_path)))
    assert list(tmp_path.iterdir()) == []
