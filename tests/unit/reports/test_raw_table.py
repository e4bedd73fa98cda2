"""The tables of a run as they were recorded: their files and their first rows, and nothing beside them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from brokerproof.errors import InputError, RunError
from brokerproof.reports.pages import Page
from brokerproof.reports.run_page import open_table_file, read_raw_table, render_table
from brokerproof.run.directory import Run
from builders import SCENARIOS
from planted_runs import plant_run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return plant_run(
        tmp_path / "run", SCENARIOS / "sync_datacenter_loss.yaml", at=datetime(2026, 1, 1, tzinfo=UTC), lost=60
    )


def test_a_table_has_its_files_and_its_first_rows(run: Run) -> None:
    table = read_raw_table(run, "publishes")
    ((name, size),) = table.files
    assert len(table.rows) == 50
    assert b"".join(open_table_file(run, "publishes", name)) == Path(run.table("publishes"), name).read_bytes()
    assert size == Path(run.table("publishes"), name).stat().st_size
    html = render_table(table, Page(root="../../../"))
    assert f'<a href="../../../runs/run/tables/publishes/{name}">' in html
    assert "The first 50 rows" in html
    assert "<td>2026-01-01 00:00:41+00:00</td>" in html


def test_a_table_that_the_run_lacks_is_empty(run: Run) -> None:
    table = read_raw_table(run, "stored")
    assert (table.files, table.rows) == ((), ())
    assert "it has no file" in render_table(table, Page())


@pytest.mark.parametrize("name", ["../../run.json", "run.json", "..", "", ".part-0.parquet", "_temporary"])
def test_no_other_file_is_opened(run: Run, name: str) -> None:
    Path(run.table("publishes"), ".part-0.parquet").write_text("unfinished")
    with pytest.raises(InputError, match="the table publishes has no file"):
        open_table_file(run, "publishes", name)


@pytest.mark.parametrize("table", ["../state", "nobody", ""])
def test_no_other_directory_is_read(run: Run, table: str) -> None:
    with pytest.raises(InputError, match="no run has a table"):
        read_raw_table(run, table)


def test_a_damaged_table_is_named(run: Run) -> None:
    Path(run.table("faults"), "part-damaged.parquet").write_text("no Parquet")
    with pytest.raises(RunError, match=r"The file part-damaged\.parquet of the table faults cannot be read: "):
        read_raw_table(run, "faults")
