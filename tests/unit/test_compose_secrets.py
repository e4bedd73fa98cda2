"""deploy/make_secrets.sh: new passwords once, and those of an older version taken over."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from builders import ROOT

SCRIPT = ROOT / "deploy" / "make_secrets.sh"
NOTIFY = '[{"class": "a.B", "kwargs": {"to": "x"}}]'
# As the version before wrote it.
OLD = f"""# Passwords and keys
AIRFLOW_ADMIN_PASSWORD=admins
GRAFANA_ADMIN_PASSWORD=grafanas
POSTGRES_PASSWORD=postgres's
AIRFLOW_DB_PASSWORD=airflows
HISTORY_DB_PASSWORD=historys
AIRFLOW_FERNET_KEY=new,old=
AIRFLOW_SECRET_KEY=key
AIRFLOW_JWT_SECRET=jwt
BROKERPROOF_NOTIFY='{NOTIFY}'
BROKERPROOF_MAX_CLUSTERS=2
BROKERPROOF_INSTALLATION=0a1b2c3d
"""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[str]:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "engine.sock"))
        yield str(tmp_path / "engine.sock")


def make_secrets(directory: Path, engine: str) -> dict[str, str]:
    subprocess.run([SCRIPT, directory], env={**os.environ, "DOCKER_SOCKET": engine}, check=True, capture_output=True)
    return {file.name: file.read_text().removesuffix("\n") for file in (directory / "secrets").iterdir()}


def test_every_secret_of_the_platform_is_made_once(tmp_path: Path, engine: str) -> None:
    made = make_secrets(tmp_path, engine)
    compose = yaml.safe_load((ROOT / "docker-compose.yaml").read_text())
    assert set(made) == set(compose["secrets"])
    # A provider and notifications have no secret before somebody sets one.
    assert {name for name, value in made.items() if not value} == {"notify", "oidc_client_secret"}
    assert len(set(made.values()) - {""}) == len(made) - 2
    assert make_secrets(tmp_path, engine) == made
    settings = (tmp_path / ".env").read_text()
    assert [value for value in made.values() if value and value in settings] == []


def test_only_the_containers_and_the_owner_can_read_them(tmp_path: Path, engine: str) -> None:
    make_secrets(tmp_path, engine)
    assert stat.S_IMODE((tmp_path / "secrets").stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "secrets").iterdir()} == {0o644}


def test_the_passwords_of_an_older_version_move_out_of_the_settings(tmp_path: Path, engine: str) -> None:
    (tmp_path / ".env").write_text(OLD)
    made = make_secrets(tmp_path, engine)
    assert made["airflow_admin_password"] == "admins"
    assert made["grafana_admin_password"] == "grafanas"
    assert made["postgres_password"] == "postgres's"
    assert made["airflow_database_url"] == "postgresql+psycopg://airflow:airflows@postgres/airflow"
    assert made["history_database_url"] == "postgresql+psycopg://history:historys@postgres/history"
    assert made["airflow_fernet_key"] == "new,old="
    assert json.loads(made["notify"]) == json.loads(NOTIFY)
    assert (tmp_path / ".env").read_text() == (
        "# Passwords and keys\nBROKERPROOF_MAX_CLUSTERS=2\nBROKERPROOF_INSTALLATION=0a1b2c3d\n"
    )


def test_without_an_engine_nothing_is_written(tmp_path: Path) -> None:
    environment = {**os.environ, "DOCKER_SOCKET": str(tmp_path / "none.sock")}
    done = subprocess.run([SCRIPT, tmp_path], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        f"no Docker engine listens at {tmp_path}/none.sock; start it, or name its socket in DOCKER_SOCKET\n"
    )
    assert list(tmp_path.iterdir()) == []
