"""`brokerproof report`, `metrics` and `badge`: what they write, where, and what they say."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import fsspec
import pytest
from brokerproof.cli import main
from brokerproof.errors import MachineError
from brokerproof.reports import exports
from brokerproof.reports.exports import EXPORTS, write_exports
from brokerproof.results.history import open_history


@pytest.fixture(autouse=True)
def var(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BROKERPROOF_VAR", str(tmp_path / "var"))
    return tmp_path / "var"


def test_report_writes_every_file_into_the_runs_directory_and_prints_where(plant, judgement, capsys):
    run = plant(judged=judgement())
    assert main(["report", run.directory]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed == [
        f"{run.directory}/report/{name}" for name in ("report.html", "junit.xml", "report.json", "badge.svg")
    ]
    assert "<html" in Path(printed[0]).read_text()
    assert ET.parse(printed[1]).getroot().tag == "testsuites"
    assert json.loads(Path(printed[2]).read_text())["outcome"]["run_id"] == "r1"
    assert ET.parse(printed[3]).getroot().tag.endswith("svg")


def test_report_writes_where_it_is_told_and_prints_json(plant, judgement, tmp_path, capsys):
    run = plant(judged=judgement())
    assert main(["report", run.directory, "--output", str(tmp_path / "out"), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == {
        "run_id": "r1",
        "files": {name: str(tmp_path / "out" / name) for name in EXPORTS},
        "problem": None,
    }
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(EXPORTS)
    assert not run.exists("report")


def test_a_report_goes_to_any_location_that_fsspec_knows(plant, judgement):
    files = write_exports(plant(judged=judgement()), "memory://brokerproof-reports/r1")
    with fsspec.open(files["report.json"], "r") as file:
        assert json.load(file)["version"] == 3


def test_the_report_of_a_run_that_was_not_judged_says_so(plant, capsys):
    run = plant()
    assert main(["report", run.directory]) == 2
    captured = capsys.readouterr()
    assert "run r1 was not judged" in captured.err
    # Whoever gates a build finds a red file, not none.
    root = ET.parse(captured.out.splitlines()[1]).getroot()
    assert root.get("errors") == "1"


@pytest.mark.parametrize("place", ["nothing/here", "nosuchprotocol://bucket/run"])
def test_what_is_no_run_gets_a_sentence(place, capsys):
    assert main(["report", place]) == 3
    assert "give a run's id, its directory or the directory's URL" in " ".join(capsys.readouterr().err.split())


def test_nothing_is_written_where_one_file_cannot_be_made(plant, judgement, monkeypatch):
    run = plant(judged=judgement())

    def fail(_run):
        raise MachineError("planted")

    monkeypatch.setattr(exports, "EXPORTS", {**EXPORTS, "broken": fail})
    with pytest.raises(MachineError, match="planted"):
        write_exports(run, run.path("report"))
    assert not run.exists("report")


def test_metrics_prints_and_writes_the_same(plant, judgement, tmp_path, capsys):
    with open_history() as history:
        history.record(plant(judged=judgement()))
    assert main(["metrics"]) == 0
    printed = capsys.readouterr().out
    assert 'brokerproof_last_run_as_expected{runtime="process",scenario="kill_region"' in printed
    file = tmp_path / "brokerproof.prom"
    file.write_text("of yesterday")
    assert main(["metrics", "--output", str(file)]) == 0
    assert file.read_text() == printed
    # node_exporter reads every file that is called *.prom, also one that is half written.
    assert [path.name for path in tmp_path.glob("*.prom*")] == ["brokerproof.prom"]
    assert main(["metrics", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.removeprefix(f"{file}\n")) == {"output": None, "metrics": printed}


def test_metrics_that_cannot_be_written_are_told(tmp_path, capsys):
    assert main(["metrics", "--output", str(tmp_path / "nowhere" / "a.prom")]) == 2
    assert "cannot be written" in " ".join(capsys.readouterr().err.split())


def test_badge_prints_and_writes_the_same(plant, judgement, tmp_path, capsys):
    with open_history() as history:
        history.record(plant(judged=judgement()))
    assert main(["badge", "kill_region"]) == 0
    printed = capsys.readouterr().out
    assert "brokerproof kill_region: passed" in printed
    assert main(["badge", "kill_region", "--output", str(tmp_path / "badge.svg")]) == 0
    assert (tmp_path / "badge.svg").read_text() == printed


@pytest.mark.parametrize("command", ["report", "metrics", "badge"])
def test_every_command_is_explained(command, capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    assert f"brokerproof {command}" in capsys.readouterr().out
