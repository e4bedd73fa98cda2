"""What only reads the history cannot change it, and does not need to migrate it."""

from __future__ import annotations

from pathlib import Path

import pytest
from alembic.script import ScriptDirectory
from brokerproof.cli import main
from brokerproof.results.history import open_history, open_history_to_read, open_recorded_history
from brokerproof.results.history_database import HistoryError
from sqlalchemy import create_engine, text


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a history that the settings name. Its path needs quoting in a URL of SQLite."""
    file = tmp_path / "a b?c%20#d" / "history.db"
    file.parent.mkdir()
    monkeypatch.setenv("BROKERPROOF_VAR", str(file.parent))
    monkeypatch.delenv("BROKERPROOF_DATABASE_URL", raising=False)
    monkeypatch.delenv("BROKERPROOF_HISTORY_READER_URL", raising=False)
    return file


@pytest.fixture
def reader_only(file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The reader's URL, which is all that the settings say."""
    place = tmp_path / "readable" / "history.db"
    monkeypatch.setenv("BROKERPROOF_HISTORY_READER_URL", f"sqlite:///{place}")
    open_history(path=place).close()
    return f"sqlite:///{place}"


def test_a_history_that_was_opened_to_read_shows_runs_and_refuses_to_write(file, plant, judgement):
    with open_history() as writer:
        writer.record(plant(judged=judgement()))
    with open_history_to_read() as history:
        assert history.list_run_ids() == ["r1"]
        assert history.database == writer.database
        with pytest.raises(HistoryError, match="attempt to write a readonly database"):
            history.record(plant("r2", judged=judgement()))


def test_a_reader_sees_what_is_recorded_after_it_opened(file, plant, judgement):
    with open_history() as writer, open_history_to_read() as reader:
        assert reader.list_run_ids() == []
        writer.record(plant(judged=judgement()))
        assert reader.list_run_ids() == ["r1"]


def test_a_process_that_may_write_migrates_before_it_reads(file):
    with open_history_to_read() as history:
        assert history.list_runs() == []
    assert file.exists()


def test_a_history_that_does_not_exist_yet_is_not_made_for_a_reader(file):
    assert open_recorded_history() is None
    assert open_recorded_history(to_write=True) is None
    assert not file.exists()


def test_a_reader_does_not_migrate_an_older_schema(reader_only, monkeypatch):
    monkeypatch.setattr(ScriptDirectory, "get_current_head", lambda _: "0.3")
    with pytest.raises(HistoryError) as error:
        open_history_to_read()
    assert str(error.value).endswith(
        " has the schema 0.2 of an older version, and this process may only read it; run `brokerproof history` once "
        "with the BROKERPROOF_DATABASE_URL of a user who may write"
    )


def test_a_reader_refuses_a_schema_that_it_does_not_know(reader_only):
    with create_engine(reader_only).begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(HistoryError, match=r"made by another version of Brokerproof \(its schema is 9999\)"):
        open_history_to_read()


def test_a_reader_names_a_database_without_tables(reader_only, tmp_path, monkeypatch):
    create_engine(f"sqlite:///{tmp_path / 'empty.db'}").connect().close()
    monkeypatch.setenv("BROKERPROOF_HISTORY_READER_URL", f"sqlite:///{tmp_path / 'empty.db'}")
    with pytest.raises(HistoryError, match="has no tables yet, and this process may only read it"):
        open_history_to_read()


def test_a_process_that_has_only_the_readers_url_writes_nowhere(reader_only, file):
    for open_to_write in (open_history, lambda: open_recorded_history(to_write=True)):
        with pytest.raises(HistoryError, match="may only read the history; set BROKERPROOF_DATABASE_URL"):
            open_to_write()
    assert not file.exists()


def test_commands_that_only_read_need_only_the_readers_url(reader_only, capsys):
    for command in (["history"], ["badge"], ["metrics"]):
        assert main(command) == 0, command
    assert "brokerproof_" in capsys.readouterr().out


def test_a_readers_url_that_is_none_is_named(file, monkeypatch):
    monkeypatch.setenv("BROKERPROOF_HISTORY_READER_URL", "x")
    with pytest.raises(HistoryError, match="in BROKERPROOF_HISTORY_READER_URL"):
        open_history_to_read()
