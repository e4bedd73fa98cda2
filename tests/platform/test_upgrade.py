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
from collections.abc import Iterator
from pathlib import Path

import pytest
from own_compose import PROJECT, read_settings

from .conftest import Platform, find_free_port

BEFORE = Path(__file__).parent / "version_before"
SCENARIO = "control_bookie_destroyed"


@pytest.fixture
def restored(platform: Platform, tmp_path: Path) -> Iterator[Platform]:
    """A second platform beside the first one, restored from the backup and not started yet."""
    backup = tmp_path / "backup"
    shutil.copytree(BEFORE, backup)
    (backup / "backup.sql").write_bytes(gzip.decompress((backup / "backup.sql.gz").read_bytes()))
    yield from restore(platform, backup, tmp_path)


def restore(platform: Platform, backup: Path, directory: Path) -> Iterator[Platform]:
    project = f"{platform.project}-restored"
    files = [PROJECT / "docker-compose.yaml", Path(__file__).parent / "override.yaml"]
    ports = {f"{name}_PORT": find_free_port() for name in ("AIRFLOW", "PROMETHEUS", "GRAFANA")}
    outside = {name: value for name, value in platform.environment.items() if not name.startswith("BROKERPROOF_")}
    environment = {
        **{name: value for name, value in outside.items() if name not in ("COMPOSE_FILE", "COMPOSE_PROJECT_NAME")},
        **ports,
        "COMPOSE_FILE": os.pathsep.join(map(str, files)),
        "COMPOSE_PROJECT_NAME": project,
        "BROKERPROOF_SETTINGS": str(directory / ".env"),
        "BROKERPROOF_SECRETS": str(directory / "secrets"),
    }
    done = subprocess.run(
        [PROJECT / "deploy" / "restore.sh", backup], env=environment, capture_output=True, text=True, check=False
    )
    up = Platform(platform.client, project, environment, {})
    try:
        assert done.returncode == 0, done.stderr[-3000:]
        environment |= read_settings(directory / ".env")
        up.secrets.update({file.name: file.read_text().strip() for file in (directory / "secrets").iterdir()})
        yield up
    finally:
        up.compose("down", "--volumes")


@pytest.mark.timeout(600)
def test_a_platform_of_the_version_before_is_upgraded_with_its_data(restored: Platform) -> None:
    done = restored.compose("up", "initialize")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    before = read_settings(BEFORE / "backup.env")
    assert restored.secrets["airflow_admin_password"] == before["AIRFLOW_ADMIN_PASSWORD"]
    assert "PASSWORD" not in Path(restored.environment["BROKERPROOF_SETTINGS"]).read_text()

    def ask(*command: str) -> str:
        answer = restored.compose("run", "--rm", "--no-deps", "-T", "scheduler", *command)
        assert answer.returncode == 0, answer.stderr[-2000:]
        return answer.stdout

    [run] = json.loads(ask("brokerproof", "history", SCENARIO, "--json"))
    assert run["run_id"] == f"{SCENARIO}-before"
    assert "run.json" in ask("ls", f"var/runs/{SCENARIO}-before")
    # Its password is encrypted with the key of the version before.
    [connection] = json.loads(ask("airflow", "connections", "get", "smtp_default", "--output", "json"))
    assert connection["password"] == "mail-password"
