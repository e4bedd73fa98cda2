"""docker-compose.yaml as tests start it: the program Compose, and passwords and keys of their own."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from missing_parts import leave_out

PROJECT = Path(__file__).resolve().parents[2]


def find_compose() -> Sequence[str]:
    """Compose as it is installed here: the second version, a plugin, or the first."""
    plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    if plugin.returncode == 0:
        return ("docker", "compose")
    program = shutil.which("docker-compose")
    if program is None:
        leave_out("no Docker Compose: install the package docker-compose")
    return (program,)


def make_installation(directory: Path, environment: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Run `make compose-secrets` for a directory; return an environment for Compose, and {name: content} of secrets."""
    subprocess.run([PROJECT / "deploy" / "make_secrets.sh", directory], env=environment, check=True)
    secrets = {file.name: file.read_text().strip() for file in (directory / "secrets").iterdir()}
    settings = read_settings(directory / ".env")
    return {**environment, **settings, "BROKERPROOF_SECRETS": str(directory / "secrets")}, secrets


def read_settings(file: Path) -> dict[str, str]:
    """The variables of a file `.env`."""
    lines = [line for line in file.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)
