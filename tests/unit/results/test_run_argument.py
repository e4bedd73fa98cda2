"""The argument RUN of every command: an id, a directory or a URL."""

from __future__ import annotations

import json
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import fsspec
import pytest
from brokerproof.cli import build_parser, main
from brokerproof.commands.run_argument import find_run, open_run
from brokerproof.errors import InputError
from brokerproof.results.history import open_history
from brokerproof.results.run_outcome import compose_outcome
from brokerproof.run.records import write_record
from brokerproof.settings import from_environment

FIRST, SECOND = "kill_region-20260101T000000Z-aaaa", "kill_region-20260101T000100Z-bbbb"


@pytest.fixture(autouse=True)
def _runs(tmp_path, monkeypatch, plant, judgement, migrated):
    """Two runs in `$BROKERPROOF_VAR`, which are over and recorded."""
    shutil.copyfile(migrated, tmp_path / "history.db")
    monkeypatch.setenv("BROKERPROOF_VAR", str(tmp_path))
    with open_history() as history:
        for minutes, run_id in enumerate((FIRST, SECOND)):
            run = plant(run_id, judged=judgement(), minutes=minutes)
            write_record(run, compose_outcome(run))
            history.record(run)
            os.utime(run.path("run.json"), (minutes, minutes))


def move(run_id: str, tmp_path: Path, location: str) -> None:
    """Move a run's directory to `location`, and record it there."""
    source = tmp_path / "runs" / run_id
    filesystem, root = fsspec.url_to_fs(location)
    filesystem.makedirs(root.rpartition("/")[0], exist_ok=True)
    filesystem.put(str(source), root, recursive=True)
    shutil.rmtree(source)
    with open_history() as history:
        history.record(open_run(location, from_environment()))


@pytest.mark.parametrize(
    "arguments",
    [["report", "RUN"], ["watch", "RUN"], ["history", "--compare", SECOND, "RUN"]],
    ids=lambda arguments: arguments[0],
)
@pytest.mark.parametrize("given", [FIRST, "DIR", "DIR/", "runs/ID"], ids=["id", "directory", "slash", "relative"])
def test_every_command_takes_an_id_and_a_directory(tmp_path, monkeypatch, capsys, arguments, given):
    monkeypatch.chdir(tmp_path)
    text = given.replace("DIR", str(tmp_path / "runs" / FIRST)).replace("ID", FIRST)
    assert main([text if one == "RUN" else one for one in arguments] + ["--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert FIRST in (printed.get("run_id"), printed.get("b"))


def test_all_commands_describe_their_run_in_the_same_way():
    for command in ("watch", "verify", "explain", "report", "history"):
        (chosen,) = (one for one in build_parser()._subparsers._group_actions if command in one.choices)
        text = " ".join(chosen.choices[command].format_help().split())
        assert "RUN" in text
        assert "the run's id, its directory, as in var/runs/<run id>, or the directory's URL" in text


def test_an_id_is_looked_for_in_var_first_and_then_in_the_history(tmp_path):
    settings = from_environment()
    assert find_run(FIRST, settings).directory == str(tmp_path / "runs" / FIRST)
    move(FIRST, tmp_path, str(tmp_path / "elsewhere" / FIRST))
    assert find_run(FIRST, settings).directory == str(tmp_path / "elsewhere" / FIRST)


def test_an_id_finds_a_run_in_a_remote_store(tmp_path, capsys):
    location = f"memory://store/{FIRST}"
    move(FIRST, tmp_path, location)
    try:
        assert main(["report", FIRST, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["files"]["junit.xml"].startswith(location)
        assert main(["watch", FIRST]) == 0
    finally:
        fsspec.filesystem("memory").rm("/store", recursive=True)


@pytest.mark.parametrize(
    "arguments", [["explain", "RUN", "p0", "1"], ["report", "RUN"], ["verify", "RUN"], ["watch", "RUN"]]
)
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (FIRST.replace("kill", "kil"), f"is known (did you mean `{FIRST}`?)"),
        (f"nowhere/{FIRST[:-1]}", f"(did you mean `{FIRST}`?)"),
        ("x", f"its directory or the directory's URL; the last runs are `{SECOND}`, `{FIRST}`)"),
    ],
    ids=["id", "directory", "nothing near"],
)
def test_a_misspelt_run_is_refused_with_the_nearest_id_or_the_last_runs(capsys, arguments, given, message):
    assert main([given if one == "RUN" else one for one in arguments]) == 3
    assert message in capsys.readouterr().err


def test_without_any_run_the_error_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("BROKERPROOF_VAR", str(tmp_path / "new"))
    with pytest.raises(InputError, match="no run is recorded yet"):
        open_run("x", from_environment())
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("given", [FIRST, f"runs/{FIRST}"])
def test_a_deleted_run_is_refused_with_the_reason(tmp_path, monkeypatch, capsys, given):
    monkeypatch.chdir(tmp_path)
    directory = tmp_path / "runs" / FIRST
    shutil.rmtree(directory)
    with open_history() as history:
        history.record_deletion(FIRST, str(directory), "run", at=datetime(2026, 2, 1, tzinfo=UTC), why="after 30 days")
    assert main(["report", given]) == 3
    assert "its directory was deleted on 2026-02-01, after 30 days" in capsys.readouterr().err
    # Its result is still compared.
    assert main(["history", "--compare", given, SECOND]) == 0


def test_a_run_that_is_not_recorded_is_not_compared(plant, judgement, capsys):
    plant("late-1", judged=judgement())
    assert main(["history", "--compare", FIRST, "late-1"]) == 3
    assert "--compare: the run `late-1` is not recorded (`brokerproof verify late-1` " in capsys.readouterr().err


def test_a_history_that_cannot_be_read_is_named_only_if_the_run_may_be_in_it(tmp_path, monkeypatch, capsys):
    (tmp_path / "broken.db").write_text("no database")
    monkeypatch.setenv("BROKERPROOF_DATABASE_URL", f"sqlite:///{tmp_path}/broken.db")
    assert main(["report", FIRST]) == 0
    assert main(["report", "x"]) == 2
    assert "broken.db" in capsys.readouterr().err
