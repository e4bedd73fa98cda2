"""deploy/make_secrets.sh: a file of passwords is made once, and gets what a newer version asks for."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import ROOT


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("engine.sock")
        monkeypatch.setenv("DOCKER_SOCKET", str(tmp_path / "engine.sock"))
        yield


def make_secrets(file: Path) -> subprocess.CompletedProcess[str]:
    command = ["sh", str(ROOT / "deploy" / "make_secrets.sh"), str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def read(file: Path) -> dict[str, str]:
    lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def list_required() -> set[str]:
    """The variables without which Compose refuses docker-compose.yaml."""
    return set(re.findall(r"\$\{(\w+):\?", (ROOT / "docker-compose.yaml").read_text()))


def test_a_new_file_has_everything_that_compose_asks_for(engine: None, tmp_path: Path) -> None:
    file = tmp_path / "env"
    assert make_secrets(file).returncode == 0
    values = read(file)
    assert list_required() <= values.keys()
    assert all(values.values())
    assert len(set(values.values())) == len(values)
    assert file.stat().st_mode & 0o777 == 0o600
    assert {path.name for path in tmp_path.iterdir()} == {"engine.sock", "env"}


def test_a_file_with_everything_stays_as_it_is(engine: None, tmp_path: Path) -> None:
    file = tmp_path / "env"
    make_secrets(file)
    before = file.read_bytes()
    said = make_secrets(file)
    assert "stays as it is" in said.stdout
    assert (said.returncode, file.read_bytes()) == (0, before)


def test_the_file_of_an_earlier_version_gets_what_is_new_and_keeps_the_rest(engine: None, tmp_path: Path) -> None:
    file = tmp_path / "env"
    make_secrets(file)
    values = read(file)
    earlier = re.sub(r"HISTORY_READER_DB_PASSWORD=.*\n", "", file.read_text()) + "# mine\nAIRFLOW_PORT=8081"
    file.write_text(earlier)
    said = make_secrets(file)
    assert said.stdout == f"added to {file}: HISTORY_READER_DB_PASSWORD\n"
    assert file.read_text().startswith(f"{earlier}\nHISTORY_READER_DB_PASSWORD=")
    assert read(file).keys() == {*values, "AIRFLOW_PORT"}


def test_without_an_engine_no_file_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_SOCKET", str(tmp_path / "nothing"))
    said = make_secrets(tmp_path / "env")
    assert said.returncode == 1
    assert "no Docker engine listens at" in said.stderr
    assert list(tmp_path.iterdir()) == []
