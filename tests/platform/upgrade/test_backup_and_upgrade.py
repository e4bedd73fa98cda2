"""A platform of the version before, restored from its backup, is upgraded with its data; and a backup of today's is
restored.

`version_before/` is a backup that docs/team.md of commit e6ab5a4c describes, made on a real platform of that commit
after a run and with a connection that has a password.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from own_compose import PROJECT, read_settings

from ..conftest import Platform, find_free_port

BEFORE = Path(__file__).parent / "version_before"
SCENARIO = "control_bookie_destroyed"


def name_files(project: str) -> dict[str, str]:
    """The environment with which a script finds a platform of the tests."""
    files = [PROJECT / "docker-compose.yaml", Path(__file__).parents[1] / "override.yaml"]
    return {"COMPOSE_FILE": os.pathsep.join(map(str, files)), "COMPOSE_PROJECT_NAME": project}


@pytest.fixture
def backup(platform: Platform, tmp_path: Path) -> Path:
    """A backup of the platform that runs, with a file that Grafana keeps."""
    directory = Path(platform.environment["BROKERPROOF_SECRETS"]).parent
    platform.ask("grafana", "sh", "-c", "echo planted > /var/lib/grafana/grafana.db")
    environment = {
        **platform.environment,
        **name_files(platform.project),
        "BROKERPROOF_SETTINGS": str(directory / ".env"),
    }
    run_script("backup.sh", tmp_path / "made", environment)
    return tmp_path / "made"


def run_script(name: str, argument: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        [PROJECT / "deploy" / name, argument], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]


@pytest.fixture
def restored(platform: Platform, backup: Path, tmp_path: Path) -> Iterator[Platform]:
    """A second platform beside the first one, not started yet.

    It is restored from the backup of the version before, which has nothing of Prometheus and Grafana, and from what
    today's backup has of these.
    """
    older = tmp_path / "older"
    shutil.copytree(BEFORE, older)
    (older / "backup.sql").write_bytes(gzip.decompress((older / "backup.sql.gz").read_bytes()))
    for name in ("prometheus.tar.gz", "grafana.tar.gz"):
        shutil.copy(backup / name, older)
    directory, project = tmp_path, f"{platform.project}-restored"
    ports = {f"{name}_PORT": find_free_port() for name in ("AIRFLOW", "PROMETHEUS", "GRAFANA")}
    outside = {name: value for name, value in platform.environment.items() if not name.startswith("BROKERPROOF_")}
    environment = {
        **{name: value for name, value in outside.items() if name not in ("COMPOSE_FILE", "COMPOSE_PROJECT_NAME")},
        **ports,
        **name_files(project),
        "BROKERPROOF_SETTINGS": str(directory / ".env"),
        "BROKERPROOF_SECRETS": str(directory / "secrets"),
    }
    up = Platform(platform.client, project, environment, {})
    try:
        run_script("restore.sh", older, environment)
        environment |= read_settings(directory / ".env")
        up.secrets.update({file.name: file.read_text().strip() for file in (directory / "secrets").iterdir()})
        yield up
    finally:
        up.compose("down", "--volumes")


@pytest.mark.timeout(1800)
def test_a_platform_of_the_version_before_is_upgraded_with_its_data(restored: Platform) -> None:
    done = restored.compose("up", "initialize")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    before = read_settings(BEFORE / "backup.env")
    assert restored.secrets["airflow_admin_password"] == before["AIRFLOW_ADMIN_PASSWORD"]
    assert "PASSWORD" not in Path(restored.environment["BROKERPROOF_SETTINGS"]).read_text()

    kept = restored.compose(
        "run", "--rm", "--no-deps", "-T", "--entrypoint", "cat", "grafana", "/var/lib/grafana/grafana.db"
    )
    assert kept.stdout == "planted\n"

    def ask(*command: str) -> str:
        answer = restored.compose("run", "--rm", "--no-deps", "-T", "scheduler", *command)
        assert answer.returncode == 0, answer.stderr[-2000:]
        return answer.stdout

    [run] = json.loads(ask("brokerproof", "history", SCENARIO, "--json"))
    assert run["run_id"] == f"{SCENARIO}-before"
    assert "run.json" in ask("ls", f"var/runs/{SCENARIO}-before")
    # Its password is encrypted with the key of the version before.
    shown = ask("airflow", "connections", "get", "smtp_default", "--output", "json")
    # Airflow's own lines come before.
    [connection] = json.loads(shown[shown.index("[{") :])
    assert connection["password"] == "mail-password"


@pytest.mark.timeout(1800)
def test_a_backup_has_what_each_service_keeps_and_stops_none_for_good(platform: Platform, backup: Path) -> None:
    dump = (backup / "backup.sql").read_text()
    assert "CREATE DATABASE history" in dump
    assert "CREATE TABLE public.dag_run" in dump

    def list_names(archive: str) -> set[str]:
        with tarfile.open(backup / archive) as opened:
            return {name.removeprefix("./").split("/")[0] for name in opened.getnames()}

    assert {"airflow", "var"} <= list_names("backup.tar.gz")
    assert "wal" in list_names("prometheus.tar.gz")
    assert "grafana.db" in list_names("grafana.tar.gz")
    assert (backup / "secrets" / "airflow_fernet_key").read_text().strip() == platform.secrets["airflow_fernet_key"]
    assert "BROKERPROOF_INSTALLATION" in (backup / "backup.env").read_text()
    label = f"com.docker.compose.project={platform.project}"
    running = {
        each["Labels"]["com.docker.compose.service"] for each in platform.client.containers(filters={"label": label})
    }
    assert {"prometheus", "grafana"} <= running


def test_a_backup_overwrites_nothing(platform: Platform, tmp_path: Path) -> None:
    done = subprocess.run(
        [PROJECT / "deploy" / "backup.sh", tmp_path],
        env=platform.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (3, f"{tmp_path} exists; name a new directory\n")
