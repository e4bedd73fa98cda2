"""The report as a file, and the picture beside it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

import pytest
from brokerproof.errors import BrokerproofError
from brokerproof.reports.exports import write_run_file
from brokerproof.reports.latency_picture import PICTURE, draw_picture
from brokerproof.results.run_outcome import compose_outcome
from brokerproof.run.directory import Run
from builders import SCENARIOS, make_run
from planted_runs import plant_run


def test_the_file_is_where_the_outcome_says_and_needs_no_other(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    path = write_run_file(run)
    assert compose_outcome(run).report == path
    assert [file.name for file in (tmp_path / "run" / "report").iterdir()] == ["report.html"]
    assert "the run was not judged" in Path(path).read_text(encoding="utf-8")


def test_a_directory_without_a_run_gets_no_report(tmp_path: Path) -> None:
    with pytest.raises(BrokerproofError, match="is missing"):
        write_run_file(Run(str(tmp_path)))
    assert list(tmp_path.iterdir()) == []


def test_a_run_with_latencies_has_their_picture_beside_its_report(tmp_path: Path) -> None:
    file = SCENARIOS / "sync_write_latency.yaml"
    run = plant_run(tmp_path / "run", file, at=datetime(2026, 1, 1, tzinfo=UTC))
    write_run_file(run)
    assert "at 5 ms" in (tmp_path / "run" / PICTURE).read_text(encoding="utf-8")


def test_the_picture_labels_every_bar_and_is_reproducible() -> None:
    latencies = {
        "steady": {"stretched": {"p50_ms": 4.2, "p99_ms": 8.0}, "local": {"p50_ms": 2.1, "p99_ms": None}},
        "at_5_ms": {"stretched": {"p50_ms": 14.3, "p99_ms": 28.0}, "local": {"p50_ms": None, "p99_ms": None}},
    }
    drawn = draw_picture(latencies, "Price")
    ElementTree.fromstring(drawn)
    texts = set(re.findall(r">([^<>]+)</text>", drawn))
    assert {"steady", "at 5 ms", "stretched", "local", "4.2", "2.1", "14.3", "Price"} <= texts
    assert draw_picture(latencies, "Price") == drawn
