"""How long runs are kept: the history states a deletion first, and only what is old enough is deleted."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import fsspec
import pytest
from brokerproof import clock
from brokerproof.cli import main
from brokerproof.machine import slots
from brokerproof.machine.processes import MARK, Mark
from brokerproof.results.history import open_history
from brokerproof.results.history_database import HistoryError
from brokerproof.results.recording import record_outcome
from brokerproof.results.retention import MESSAGE_TABLES, QUIET, LeftRun, prune_runs
from brokerproof.run.directory import Run
from brokerproof.run.records import TablesDeletion, read_record
from brokerproof.settings import from_environment

DAY_US = 86_400_000_000
GOES_ON = "it is active: its slot on this machine is held, or a process of this machine belongs to it"


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


def test_tables_of_messages_are_deleted_and_the_history_and_the_run_say_when_and_why(make_run, tmp_path):
    run, younger = make_run(days=31), make_run("r2", days=29)
    size = sum(f.stat().st_size for f in Path(run.directory).rglob("*.parquet") if f.parent.name in MESSAGE_TABLES)
    size += len("rows of a client")

    [deletion] = prune(tmp_path, keep(tables=30))

    assert (deletion.run_id, deletion.part, deletion.size) == ("r1", "tables", size)
    assert list_tables(run) == {"faults"}
    assert not run.exists("clients")
    assert run.exists("state", "judgement.json")
    assert list_tables(younger) >= set(MESSAGE_TABLES)
    today = f"{clock.to_utc(clock.now_us()):%Y-%m-%d}"
    sentence = f"its tables were deleted on {today}, after 30 days (BROKERPROOF_KEEP_TABLES_DAYS)"
    assert (find_recorded().deletion, find_recorded().verdict) == (sentence, "passed")
    assert read_record(run, TablesDeletion).sentence == sentence
    with open_history() as history:
        assert history.find_run_place("r1").deletion is None


def test_a_whole_run_goes_after_its_own_days_and_the_history_keeps_its_row(make_run, tmp_path):
    make_run(days=91)

    [deletion] = prune(tmp_path, keep(tables=30, runs=90))

    assert (deletion.part, deletion.why) == ("run", "after 90 days (BROKERPROOF_KEEP_RUNS_DAYS)")
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
    assert prune(tmp_path, keep(tables=30, runs=90)) == []
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
    assert [deletion.part for deletion in told] == ["tables", "run"]


def test_a_run_that_is_not_as_expected_is_left_alone_for_longer(make_run, tmp_path):
    for run_id, days, verdict in (("good", 31, "passed"), ("bad", 31, "failed"), ("old", 61, "failed")):
        make_run(run_id, days=days, verdict=verdict)
    make_run("not_judged", days=31, judged=False)

    found = prune(tmp_path, keep(runs=30, failed=60))

    assert [(deletion.run_id, deletion.why) for deletion in found] == [
        ("good", "after 30 days (BROKERPROOF_KEEP_RUNS_DAYS)"),
        ("old", "after 60 days (BROKERPROOF_KEEP_FAILED_DAYS)"),
    ]
    # Fewer days than those of other runs delete nothing earlier.
    assert prune(tmp_path, keep(runs=60, failed=10)) == []


# A run that goes on


def test_a_run_whose_slot_is_held_is_left(make_run, tmp_path):
    run = make_run(days=91)
    with slots.take(timeout_s=1) as slot:
        slot.assign(run.directory)
        # Another process looks, because a lock is not in the way of its own process.
        [left] = prune(tmp_path, keep(runs=90))
        assert left == LeftRun(directory=run.directory, why=GOES_ON)
    assert Path(run.directory).exists()

    # Its slot is not held any more, although the record of it is still there.
    assert [deletion.run_id for deletion in prune(tmp_path, keep(runs=90))] == ["r1"]


def test_a_run_that_a_process_belongs_to_is_left(make_run, tmp_path):
    run = make_run(days=91)
    mark = str(Mark(Path(run.directory, "nodes"), "broker-1"))
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env={**os.environ, MARK: mark}
    ) as node:
        [left] = prune(tmp_path, keep(tables=30, runs=90))
        node.communicate(b"\n")
    assert left == LeftRun(directory=run.directory, why=GOES_ON)
    assert list_tables(run) >= set(MESSAGE_TABLES)


def test_a_run_that_wrote_something_within_a_day_is_left(make_run, tmp_path):
    run = make_run(days=91)
    file = Path(run.directory, "progress.json")
    file.write_text("another machine samples")
    [left] = prune(tmp_path, keep(runs=90))
    assert left.why.startswith("it may be active: one of its files was written at ")

    then = time.time() - QUIET.total_seconds() - 60
    os.utime(file, (then, then))
    [deletion] = prune(tmp_path, keep(runs=90))
    assert deletion.run_id == "r1"


# What is no run


def test_a_directory_that_is_no_run_is_left_and_named(tmp_path):
    mine = tmp_path / "runs" / "notes" / "state"
    mine.mkdir(parents=True)
    (mine / "diary.txt").write_text("…")
    os.utime(mine / "diary.txt", (0, 0))

    [left] = prune(tmp_path, keep(runs=1))

    assert left == LeftRun(directory=str(mine.parent), why="it is no run: it holds no run.json")
    assert (mine / "diary.txt").exists()


@pytest.mark.parametrize("below", ["", "state", "tables", "clients"])
def test_a_link_is_not_followed_out_of_the_directory(make_run, tmp_path, below):
    run = make_run(days=31)
    files = _move_elsewhere(Path(run.directory, below), tmp_path / "elsewhere")

    [left] = prune(tmp_path, keep(tables=30))

    # A link in the place of a run is a person's wish. One inside of it keeps what should be deleted.
    assert left.is_problem == (below != "")
    assert "is a link" in left.why
    assert sorted((tmp_path / "elsewhere").rglob("*")) == files


@pytest.mark.parametrize(("part", "below"), [("tables", "tables/publishes"), ("runs", "tables"), ("runs", "clients")])
def test_a_link_below_what_is_deleted_is_deleted_without_its_target(make_run, tmp_path, part, below):
    run = make_run(days=91)
    files = _move_elsewhere(Path(run.directory, below), tmp_path / "elsewhere")

    [deletion] = prune(tmp_path, keep(**{part: 90}))

    assert deletion.run_id == "r1"
    assert not Path(run.directory, below).is_symlink()
    assert sorted((tmp_path / "elsewhere").rglob("*")) == files


def _move_elsewhere(place, elsewhere):
    """Replace a directory by a link to it."""
    shutil.move(place, elsewhere)
    place.symlink_to(elsewhere)
    return sorted(elsewhere.rglob("*"))


# Interrupted deletions


@pytest.mark.parametrize(
    ("part", "removed"), [("tables", None), *((part, removed) for part in ("tables", "run") for removed in (0, 1, 2))]
)
def test_a_deletion_that_was_killed_is_finished_by_the_next_one(make_run, tmp_path, monkeypatch, part, removed):
    run = make_run(days=31)
    files = list(Path(run.directory).rglob("*"))
    with _kill(monkeypatch, removed):
        prune(tmp_path, keep(tables=30) if part == "tables" else keep(runs=30))
    assert find_recorded().deletion.startswith("its tables" if part == "tables" else "its directory")
    assert sum(not file.exists() for file in files) == (removed or 0)
    # No command judges the rest of a run: it has a record, or it is no run.
    if removed:
        assert read_record(run, TablesDeletion) is not None if part == "tables" else not run.exists("run.json")

    # The settings may keep everything by now.
    [deletion] = prune(tmp_path, keep())

    assert (deletion.run_id, deletion.part, deletion.is_resumed) == ("r1", part, True)
    assert list_tables(run) == ({"faults"} if part == "tables" else set())
    assert Path(run.directory).exists() == (part == "tables")
    assert find_recorded().verdict == "passed"
    assert prune(tmp_path, keep(tables=30)) == []


def test_a_run_that_goes_on_is_left_even_if_its_deletion_was_interrupted(make_run, tmp_path, monkeypatch):
    run = make_run(days=31)
    with _kill(monkeypatch, removed=0):
        prune(tmp_path, keep(runs=30))
    with slots.take(timeout_s=1) as slot:
        slot.assign(run.directory)
        assert prune(tmp_path, keep(runs=30)) == [LeftRun(directory=run.directory, why=GOES_ON)]


@contextmanager
def _kill(monkeypatch, removed):
    """Kill the process after it has removed so many files and directories; before its record in the run if None."""
    calls = []

    def let_die(remove):
        def remove_or_die(*arguments, **options):
            if len(calls) == removed:
                raise Killed
            calls.append(arguments)
            return remove(*arguments, **options)

        return remove_or_die

    def die(*_):
        raise Killed

    with monkeypatch.context() as patched:
        if removed is None:
            patched.setattr("brokerproof.results.retention.write_record", die)
        # `shutil.rmtree` calls the last two of them.
        for name in ("remove", "unlink", "rmdir"):
            patched.setattr(os, name, let_die(getattr(os, name)))
        memory = type(fsspec.filesystem("memory"))
        patched.setattr(memory, "rm_file", let_die(memory.rm_file))
        with pytest.raises(Killed):
            yield


def test_if_the_history_cannot_be_written_no_file_is_deleted(make_run, tmp_path, monkeypatch):
    run = make_run(days=31)

    def refuse(*_, **__):
        raise HistoryError("the history cannot be used")

    monkeypatch.setattr("brokerproof.results.history.History.record_deletion", refuse)
    with pytest.raises(HistoryError):
        prune(tmp_path, keep(tables=30))

    assert list_tables(run) >= set(MESSAGE_TABLES)
    assert read_record(run, TablesDeletion) is None


def test_a_run_that_cannot_be_deleted_is_a_problem_and_the_next_run_is_deleted(make_run, tmp_path, monkeypatch):
    first, _ = make_run(days=31), make_run("r2", days=31)
    monkeypatch.chdir(first.directory)

    left, deletion = prune(tmp_path, keep(runs=30))

    assert (left.directory, left.is_problem) == (first.directory, True)
    assert deletion.run_id == "r2"


# Other places


@pytest.fixture
def remote(scenario, topology):
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


def test_a_run_on_another_filesystem_is_left_while_it_writes_and_deleted_later(remote, monkeypatch):
    def prune_remote(settings, *, days):
        return prune_runs("memory://place/runs", settings, history, now=lambda: clock.now_us() + days * DAY_US)

    filesystem = fsspec.filesystem("memory")
    with open_history() as history:
        history.record(remote)
        [left] = prune_remote(keep(tables=30), days=0)
        assert left.why.startswith("it may be active: one of its files was written at ")

        [deletion] = prune_remote(keep(tables=30), days=2)
        assert (deletion.part, deletion.size > 0) == ("tables", True)
        assert {path.split("/")[5] for path in filesystem.find("/place/runs/r1/tables")} == {"faults"}
        assert read_record(remote, TablesDeletion) is not None

        with _kill(monkeypatch, removed=2):
            prune_remote(keep(runs=30), days=4)
        assert filesystem.find("/place/runs")
        [deletion] = prune_remote(keep(), days=4)
    assert (deletion.run_id, deletion.part, deletion.is_resumed) == ("r1", "run", True)
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


def test_a_deleted_copy_of_a_run_leaves_the_history_of_the_original(make_run, tmp_path):
    run = make_run(days=31)
    shutil.move(tmp_path / "runs", tmp_path / "others")
    with open_history() as history:
        history.record(Run(str(tmp_path / "others" / "r1")))
    shutil.copytree(tmp_path / "others", tmp_path / "runs")
    age(run, 31)

    [deletion] = prune(tmp_path, keep(runs=30))

    assert (deletion.run_id, find_recorded().deletion) == ("r1", None)


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


def test_the_command_without_settings_keeps_everything_and_says_so(make_run, capsys):
    run = make_run(days=5000)
    _, out, _ = run_command(capsys, "prune")
    assert "neither BROKERPROOF_KEEP_TABLES_DAYS nor BROKERPROOF_KEEP_RUNS_DAYS is set" in out
    assert list_tables(run) >= set(MESSAGE_TABLES)


def test_the_command_exits_with_2_if_a_run_is_damaged_and_leaves_it(make_run, monkeypatch, capsys):
    run = make_run(days=31)
    Path(run.directory, "run.json").write_text("{")
    monkeypatch.setenv("BROKERPROOF_KEEP_RUNS_DAYS", "30")

    status, _, err = run_command(capsys, "prune")

    assert status == 2
    assert "is left" in err
    assert "run.json is damaged" in err
    assert list_tables(run) >= set(MESSAGE_TABLES)


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
