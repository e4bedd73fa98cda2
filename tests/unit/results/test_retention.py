"""How long runs are kept: what is old goes, said first and finished later; nothing else does."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import fsspec
import pytest
from brokerproof import clock
from brokerproof.cli import main
from brokerproof.errors import RunError
from brokerproof.machine import slots
from brokerproof.machine.processes import MARK, Mark
from brokerproof.results.history import open_history
from brokerproof.results.history_database import HistoryError
from brokerproof.results.recording import record_outcome
from brokerproof.results.retention import QUIET, Part, prune_runs
from brokerproof.run.deletion import MESSAGE_TABLES, TRASH, describe_deletion
from brokerproof.run.directory import Run
from brokerproof.run.records import RunDeletion, TablesDeletion, read_record, write_record
from brokerproof.settings import from_environment

DAY_US = 86_400_000_000


class Killed(BaseException):
    """Stands for kill -9: nothing catches it."""


@pytest.fixture(autouse=True)
def _own_machine(monkeypatch, tmp_path):
    monkeypatch.setenv("BROKERPROOF_VAR", str(tmp_path))
    monkeypatch.setenv("BROKERPROOF_LEASES", str(tmp_path / "leases"))


@pytest.fixture
def make_run(plant, judgement):
    """A run with tables, judged and with an outcome, of `days` ago."""

    def make(run_id="r1", *, days=0, verdict="passed", judged=True):
        failed = ("completeness",) if verdict == "failed" else ()
        run = plant(run_id, judged=judgement(verdict, failed=failed, legal={"delivered_twice": 1}) if judged else None)
        _fill(run)
        record_outcome(run)
        age(run, days)
        return run

    return make


def _fill(run):
    for table in MESSAGE_TABLES:
        row = {"anomaly": "delivered_twice", "legal": True} if table == "anomalies" else {}
        run.append(table, [{"run_id": run.run_id, **row}])
    run.append("faults", [{"run_id": run.run_id, "fault": "kill_us"}])
    run.write_text("clients/load-0/0-000001.arrow", "rows of a client")


def age(run, days):
    """Let a run be so old: its beginning, and the times of its files."""
    path = Path(run.directory, "run.json")
    facts = json.loads(path.read_text())
    facts["created_at"] = (clock.to_utc(clock.now_us()) - timedelta(days=days)).isoformat()
    path.write_text(json.dumps(facts))
    then = time.time() - days * 86_400
    for file in Path(run.directory).rglob("*"):
        os.utime(file, (then, then))


def keep(**days):
    return from_environment(
        {**os.environ, **{f"BROKERPROOF_KEEP_{name.upper()}_DAYS": str(n) for name, n in days.items()}}
    )


def prune(tmp_path, settings, **options):
    with open_history() as history:
        return prune_runs(str(tmp_path / "runs"), settings, history, **options)


def find_recorded(run_id="r1"):
    with open_history() as history:
        return history.find_run(run_id)


def list_tables(run):
    return {path.name for path in Path(run.directory, "tables").iterdir()} if Path(run.directory).exists() else set()


def test_without_a_setting_everything_is_kept(make_run, tmp_path):
    run = make_run(days=5000)

    assert prune(tmp_path, keep()).deletions == ()
    assert list_tables(run) >= set(MESSAGE_TABLES)


def test_tables_of_messages_go_and_everything_else_stays(make_run, tmp_path):
    run, younger = make_run(days=31), make_run("r2", days=29)
    size = sum(f.stat().st_size for f in Path(run.directory).rglob("*.parquet") if f.parent.name in MESSAGE_TABLES)
    size += len("rows of a client")

    found = prune(tmp_path, keep(tables=30))

    [deletion] = found.deletions
    assert (deletion.run_id, deletion.part, deletion.size) == ("r1", Part.TABLES, size)
    assert list_tables(run) == {"faults"}
    assert not run.exists("clients")
    assert not run.exists(TRASH)
    assert list_tables(younger) >= set(MESSAGE_TABLES)
    assert run.exists("state", "judgement.json")


def test_the_history_and_the_run_say_what_was_deleted_when_and_why(make_run, tmp_path):
    run = make_run(days=31)

    prune(tmp_path, keep(tables=30))

    today = f"{clock.to_utc(clock.now_us()):%Y-%m-%d}"
    sentence = f"its tables were deleted on {today}, after 30 days (BROKERPROOF_KEEP_TABLES_DAYS)"
    assert find_recorded().deletion == sentence
    with open_history() as history:
        assert history.find_run_place("r1").deletion is None
    assert describe_deletion(run) == sentence
    assert (find_recorded().verdict, find_recorded().run_deleted_at) == ("passed", None)


def test_a_whole_run_goes_after_its_own_days_and_the_history_keeps_its_row(make_run, tmp_path):
    make_run(days=91)

    [deletion] = prune(tmp_path, keep(tables=30, runs=90)).deletions

    assert (deletion.part, deletion.why) == (Part.RUN, "after 90 days (BROKERPROOF_KEEP_RUNS_DAYS)")
    assert list((tmp_path / "runs").iterdir()) == []
    recorded = find_recorded()
    assert recorded.acked == 990
    with open_history() as history:
        assert history.find_run_place("r1").deletion == recorded.deletion
    assert recorded.deletion.startswith("its directory was deleted on ")
    assert recorded.deletion.endswith(", after 90 days (BROKERPROOF_KEEP_RUNS_DAYS)")


def test_tables_and_then_the_directory(make_run, tmp_path):
    run = make_run(days=31)
    prune(tmp_path, keep(tables=30, runs=90))
    assert prune(tmp_path, keep(tables=30, runs=90)).deletions == ()
    age(run, 91)

    prune(tmp_path, keep(tables=30, runs=90))

    assert not Path(run.directory).exists()
    recorded = find_recorded()
    assert recorded.tables_deleted_at is not None
    assert recorded.deletion.startswith("its directory was deleted")


def test_a_dry_run_lists_the_same_and_deletes_nothing(make_run, tmp_path):
    make_run(days=31), make_run("r2", days=91)
    before = sorted((tmp_path / "runs").rglob("*"))

    told = prune(tmp_path, keep(tables=30, runs=90), dry_run=True)

    assert sorted((tmp_path / "runs").rglob("*")) == before
    assert (find_recorded("r1").deletion, find_recorded("r2").deletion) == (None, None)
    assert told == prune(tmp_path, keep(tables=30, runs=90))
    assert [deletion.part for deletion in told.deletions] == [Part.TABLES, Part.RUN]


def test_a_run_that_is_not_as_expected_is_left_alone_for_longer(make_run, tmp_path):
    for run_id, days, verdict in (("good", 31, "passed"), ("bad", 31, "failed"), ("old", 61, "failed")):
        make_run(run_id, days=days, verdict=verdict)
    make_run("nobody_judged", days=31, judged=False)

    found = prune(tmp_path, keep(runs=30, failed=60))

    assert [(deletion.run_id, deletion.why) for deletion in found.deletions] == [
        ("good", "after 30 days (BROKERPROOF_KEEP_RUNS_DAYS)"),
        ("old", "after 60 days (BROKERPROOF_KEEP_FAILED_DAYS)"),
    ]


def test_fewer_days_for_failed_runs_delete_nothing_earlier(make_run, tmp_path):
    make_run("bad", days=31, verdict="failed")
    assert prune(tmp_path, keep(runs=60, failed=10)).deletions == ()


# A run that goes on


def test_a_run_whose_slot_is_held_is_left(make_run, tmp_path):
    run = make_run(days=91)
    with slots.take(timeout_s=1) as slot:
        slot.assign(run.directory)
        # Another process looks, because a lock is not in the way of its own process.
        [left] = prune(tmp_path, keep(runs=90)).left
        assert (left.why, left.is_problem) == ("it goes on: its slot of this machine is held", False)
    assert Path(run.directory).exists()

    # Its slot is not held any more, although the record of it is still there.
    assert [deletion.run_id for deletion in prune(tmp_path, keep(runs=90)).deletions] == ["r1"]


def test_a_run_that_a_process_belongs_to_is_left(make_run, tmp_path):
    run = make_run(days=91)
    mark = str(Mark(Path(run.directory, "nodes"), "broker-1"))
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env={**os.environ, MARK: mark}
    ) as node:
        [left] = prune(tmp_path, keep(tables=30, runs=90)).left
        node.communicate(b"\n")
    assert left.why == "it goes on: a process of this machine belongs to it"
    assert list_tables(run) >= set(MESSAGE_TABLES)


def test_a_run_that_wrote_something_within_a_day_is_left(make_run, tmp_path):
    run = make_run(days=91)
    file = Path(run.directory, "progress.json")
    file.write_text("another machine samples")
    [left] = prune(tmp_path, keep(runs=90)).left
    assert left.why.startswith("it may go on: a file of it was written at ")

    then = time.time() - QUIET.total_seconds() - 60
    os.utime(file, (then, then))
    assert len(prune(tmp_path, keep(runs=90)).deletions) == 1


# What is no run


def test_a_directory_that_is_no_run_is_left_and_named(tmp_path):
    mine = tmp_path / "runs" / "notes" / "state"
    mine.mkdir(parents=True)
    (mine / "diary.txt").write_text("…")
    os.utime(mine / "diary.txt", (0, 0))

    found = prune(tmp_path, keep(runs=1))

    assert [(left.directory, left.is_problem) for left in found.left] == [(str(mine.parent), False)]
    assert (mine / "diary.txt").exists()


def test_a_run_with_a_damaged_file_is_left_and_is_a_problem(make_run, tmp_path):
    run = make_run(days=91)
    Path(run.directory, "run.json").write_text("{")

    [left] = prune(tmp_path, keep(runs=90)).left

    assert left.is_problem
    assert "run.json is damaged" in left.why
    assert list_tables(run)


@pytest.mark.parametrize("below", ["", "tables", "tables/publishes", "clients"])
def test_a_link_is_not_followed_out_of_the_directory(make_run, tmp_path, below):
    run = make_run(days=91)
    place, elsewhere = Path(run.directory, below), tmp_path / "elsewhere"
    shutil.move(place, elsewhere)
    place.symlink_to(elsewhere)
    os.utime(place, (0, 0), follow_symlinks=False)
    files = sorted(elsewhere.rglob("*"))

    found = prune(tmp_path, keep(tables=30, runs=90))

    assert found.deletions == ()
    # A link in the place of a run is somebody's wish. One inside of it keeps what should be deleted.
    assert [left.is_problem for left in found.left] == [below != ""]
    assert "is a link" in found.left[0].why
    assert sorted(elsewhere.rglob("*")) == files


def test_a_link_inside_of_what_is_deleted_goes_without_what_it_points_to(make_run, tmp_path):
    run = make_run(days=91)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("…")
    Path(run.directory, "report").mkdir()
    Path(run.directory, "report", "link").symlink_to(tmp_path / "mine")
    os.utime(Path(run.directory, "report", "link"), (0, 0), follow_symlinks=False)

    assert len(prune(tmp_path, keep(runs=90)).deletions) == 1
    assert (tmp_path / "mine" / "file").exists()


# Broken off


@pytest.mark.parametrize("part", [Part.TABLES, Part.RUN])
@pytest.mark.parametrize("moment", ["after the record", "after the history", "after renaming", "between two files"])
def test_a_deletion_that_was_killed_is_finished_by_the_next_one(make_run, tmp_path, monkeypatch, part, moment):
    run = make_run(days=31)
    settings = keep(tables=30) if part is Part.TABLES else keep(runs=30)
    with monkeypatch.context() as patched:
        _kill(patched, moment)
        with pytest.raises(Killed):
            prune(tmp_path, settings)
    # What is half deleted is not what it was, and says so wherever it is still there.
    half = sorted(path for path in (tmp_path / "runs").rglob("*") if path.is_file())
    assert half
    if Path(run.directory, "run.json").exists():
        assert describe_deletion(run) is not None

    # Also where the settings keep everything by now.
    found = prune(tmp_path, keep())

    assert [deletion.is_resumed for deletion in found.deletions] == [True]
    assert find_recorded().deletion.startswith("its tables" if part is Part.TABLES else "its directory")
    if part is Part.TABLES:
        assert list_tables(run) == {"faults"}
        assert not run.exists(TRASH)
    else:
        assert list((tmp_path / "runs").iterdir()) == []
    assert prune(tmp_path, settings).deletions == ()


def _kill(patched, moment):
    """Let the process be killed at a moment of the deletion."""

    def die(*_arguments, **_options):
        raise Killed

    if moment == "after the record":
        patched.setattr("brokerproof.results.history.History.record_deletion", die)
    elif moment == "after the history":
        patched.setattr("brokerproof.run.deletion.Path.rename", die)
    elif moment == "after renaming":
        patched.setattr("brokerproof.run.deletion.shutil.rmtree", die)
    else:
        removed = []
        unlink = os.unlink

        def unlink_once(*arguments, **options):
            if removed:
                raise Killed
            removed.append(arguments)
            unlink(*arguments, **options)

        patched.setattr("shutil.os.unlink", unlink_once)


def test_where_the_history_cannot_be_written_nothing_is_deleted_and_nothing_says_so(make_run, tmp_path, monkeypatch):
    run = make_run(days=31)

    def refuse(*_):
        raise HistoryError("the history cannot be used")

    monkeypatch.setattr("brokerproof.results.history.History.record_deletion", refuse)
    with pytest.raises(HistoryError):
        prune(tmp_path, keep(tables=30))

    assert list_tables(run) >= set(MESSAGE_TABLES)
    assert describe_deletion(run) is None


def test_something_that_cannot_be_deleted_is_a_problem_and_the_next_run_goes_all_the_same(
    make_run, tmp_path, monkeypatch
):
    make_run(days=31), make_run("r2", days=31)
    rename = Path.rename

    def refuse(path, target):
        if path.name == "r1":
            raise PermissionError(13, "Permission denied")
        return rename(path, target)

    monkeypatch.setattr("brokerproof.run.deletion.Path.rename", refuse)
    found = prune(tmp_path, keep(runs=30))

    assert [(Path(left.directory).name, left.is_problem) for left in found.left] == [("r1", True)]
    assert [deletion.run_id for deletion in found.deletions] == ["r2"]


# Other places


@pytest.fixture
def remote(scenario, topology, judgement):
    """A run at a location that is no local disk."""
    filesystem = fsspec.filesystem("memory")
    filesystem.store.clear()
    run = Run.create("memory://place/runs/r1", run_id="r1", scenario=scenario(), topology=topology)
    _fill(run)
    facts = json.loads(run.read_text("run.json"))
    facts["created_at"] = (clock.to_utc(clock.now_us()) - timedelta(days=60)).isoformat()
    run.write_text("run.json", json.dumps(facts))
    yield run
    filesystem.store.clear()


def later():
    """Two days from now: nothing was written since."""
    return clock.now_us() + 2 * DAY_US


def test_a_run_on_another_filesystem_is_left_while_it_writes(remote):
    [left] = prune_runs("memory://place/runs", keep(runs=30), None).left
    assert left.why.startswith("it may go on")


def test_tables_and_runs_on_another_filesystem_are_deleted(remote):
    [deletion] = prune_runs("memory://place/runs", keep(tables=30), None, now=later).deletions
    assert deletion.part is Part.TABLES
    assert deletion.size > 0
    filesystem = fsspec.filesystem("memory")
    tables = {path.split("/")[5] for path in filesystem.find("/place/runs/r1/tables")}
    assert tables == {"faults"}
    assert describe_deletion(Run(remote.directory)) is not None

    later_still = prune_runs("memory://place/runs", keep(runs=30), None, now=lambda: later() + 2 * DAY_US)
    assert [deletion.part for deletion in later_still.deletions] == [Part.RUN]
    assert filesystem.find("/place/runs") == []


def test_a_deletion_on_another_filesystem_that_was_killed_is_finished(remote, monkeypatch):
    filesystem = fsspec.filesystem("memory")
    removed = []
    remove = type(filesystem).rm_file

    def remove_two(self, path):
        if len(removed) == 2:
            raise Killed
        removed.append(path)
        remove(self, path)

    with monkeypatch.context() as patched:
        patched.setattr(type(filesystem), "rm_file", remove_two)
        with pytest.raises(Killed):
            prune_runs("memory://place/runs", keep(runs=30), None, now=later)
    assert read_record(Run(remote.directory), RunDeletion) is not None

    [deletion] = prune_runs("memory://place/runs", keep(), None).deletions

    assert (deletion.run_id, deletion.is_resumed) == ("r1", True)
    assert filesystem.find("/place/runs") == []


# The history


def test_recording_again_keeps_the_deletion_and_the_samples(make_run, tmp_path):
    run = make_run(days=31)
    samples = [sample.anomaly for sample in find_recorded().anomaly_samples]
    assert samples == ["delivered_twice"]
    prune(tmp_path, keep(tables=30))
    told = find_recorded().deletion

    record_outcome(Run(run.directory))

    assert find_recorded().deletion == told
    assert [sample.anomaly for sample in find_recorded().anomaly_samples] == samples


def test_a_copy_of_a_run_goes_without_a_word_in_the_history_of_the_original(make_run, tmp_path):
    run = make_run(days=31)
    shutil.move(tmp_path / "runs", tmp_path / "others")
    with open_history() as history:
        history.record(Run(str(tmp_path / "others" / "r1")))
    shutil.copytree(tmp_path / "others", tmp_path / "runs")
    age(run, 31)

    assert len(prune(tmp_path, keep(runs=30)).deletions) == 1

    assert find_recorded().deletion is None


# The commands


def run_command(capsys, *arguments):
    status = main([*arguments])
    out, err = capsys.readouterr()
    return status, " ".join(out.split()), " ".join(err.split())


def test_the_command_lists_and_deletes(make_run, tmp_path, monkeypatch, capsys):
    make_run(days=31)
    monkeypatch.setenv("BROKERPROOF_KEEP_TABLES_DAYS", "30")

    status, out, _ = run_command(capsys, "prune", "--dry-run")
    assert (status, "tables of r1: after 30 days (BROKERPROOF_KEEP_TABLES_DAYS)" in out) == (0, True)
    assert "would be deleted in all" in out
    assert main(["prune", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["dry_run"], [one["run_id"] for one in told["deletions"]]) == (False, ["r1"])
    assert told["bytes"] == told["deletions"][0]["size"] > 0
    assert "nothing is old enough" in run_command(capsys, "prune")[1]


def test_the_command_without_settings_says_that_everything_is_kept(make_run, capsys):
    make_run(days=31)
    _, out, _ = run_command(capsys, "prune")
    assert "neither BROKERPROOF_KEEP_TABLES_DAYS nor BROKERPROOF_KEEP_RUNS_DAYS is set" in out


def test_the_command_exits_with_2_where_something_could_not_be_deleted(make_run, monkeypatch, capsys):
    run = make_run(days=31)
    Path(run.directory, "run.json").write_text("{")
    monkeypatch.setenv("BROKERPROOF_KEEP_RUNS_DAYS", "30")

    status, _, err = run_command(capsys, "prune")

    assert status == 2
    assert "is left" in err


def test_a_setting_that_is_no_number_of_days_exits_with_3(monkeypatch, capsys):
    monkeypatch.setenv("BROKERPROOF_KEEP_RUNS_DAYS", "soon")
    status, _, err = run_command(capsys, "prune")
    assert (status, "BROKERPROOF_KEEP_RUNS_DAYS: `soon` is no number of days" in err) == (3, True)


@pytest.mark.parametrize(("setting", "what"), [("TABLES", "tables were"), ("RUNS", "directory was")])
def test_verify_refuses_a_run_without_its_tables_and_leaves_its_judgement(make_run, monkeypatch, capsys, setting, what):
    run = make_run(days=31)
    judged = Path(run.directory, "state", "judgement.json").read_text()
    monkeypatch.setenv(f"BROKERPROOF_KEEP_{setting}_DAYS", "30")
    assert main(["prune"]) == 0

    status, _, err = run_command(capsys, "verify", run.directory)

    assert status == 3
    assert f"its {what} deleted on " in err
    assert f"after 30 days (BROKERPROOF_KEEP_{setting}_DAYS)" in err
    if setting == "TABLES":
        assert Path(run.directory, "state", "judgement.json").read_text() == judged


def test_the_history_shows_what_was_deleted(make_run, tmp_path, capsys):
    make_run(days=31)
    prune(tmp_path, keep(tables=30))

    assert main(["history", "--json"]) == 0
    [told] = json.loads(capsys.readouterr().out)
    assert told["deletion"].startswith("its tables were deleted on ")
    assert told["run_deleted_at"] is None
    assert main(["history"]) == 0
    assert "deleted" in capsys.readouterr().out


def test_a_damaged_record_of_a_deletion_is_a_sentence(make_run):
    run = make_run()
    write_record(run, TablesDeletion(why="after 1 days (X)", at=1))
    run.write_text("state/tables_deletion.json", "{}")
    with pytest.raises(RunError, match=r"tables_deletion\.json is damaged"):
        describe_deletion(run)
