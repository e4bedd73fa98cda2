from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from brokerproof.checks import load_scenario
from brokerproof.errors import RunError
from brokerproof.run.directory import Run

ROOT = Path(__file__).parents[3]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    scenario, topology = load_scenario(ROOT / "dags/scenarios/sync_datacenter_loss.yaml", ROOT / "topologies")
    return Run.create(str(tmp_path / "r"), run_id="r1", scenario=scenario, topology=topology, addresses={})


def test_a_run_reads_back_what_it_was_made_from(run: Run) -> None:
    again = Run(run.directory)
    assert again.run_id == "r1"
    assert again.scenario == run.scenario
    assert again.topology == run.topology


def test_a_directory_holds_one_run(run: Run) -> None:
    with pytest.raises(RunError, match="holds a run already"):
        Run.create(run.directory, run_id="r2", scenario=run.scenario, topology=run.topology)


def test_missing_and_damaged_files_are_said(run: Run) -> None:
    with pytest.raises(RunError, match=r"is .* a run, and did that step run"):
        run.read_json("state", "nothing.json")
    Path(run.path("state")).mkdir()
    Path(run.path("state", "x.json")).write_text("{")
    with pytest.raises(RunError, match="damaged"):
        run.state("x")


def test_state_is_none_until_it_is_left(run: Run) -> None:
    assert run.state("load") is None
    run.leave_state("load", {"finished": True})
    assert run.state("load") == {"finished": True}
    assert [file.name for file in Path(run.path("state")).iterdir()] == ["load.json"]


def test_rows_are_appended_with_the_schema_of_the_table(run: Run) -> None:
    run.append("observations", [{"run_id": "r1", "at": 1, "source": "a", "metric": "b", "value": "c"}])
    run.append("observations", [{"run_id": "r1", "at": 2, "source": "a", "metric": "b"}])
    table = pq.read_table(run.table("observations"))
    assert table.column("value").to_pylist() == ["c", None]
    with pytest.raises(KeyError):
        run.table("ledger")
