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


def make_secrets(file: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """What `make compose-secrets` writes into a file."""
    subprocess.run([PROJECT / "deploy" / "make_secrets.sh", file], env=environment, check=True)
    lines = [line for line in file.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)
