"""docs/first-scenario.md, followed word by word: a real Airflow, a real Spark, and a Pulsar cluster."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from builders import ROOT
from installation import Installation
from tutorial import TypedCommand, WrittenFile, read_tutorial


@pytest.mark.timeout(1200)
def test_every_file_is_written_and_every_command_prints_what_the_page_shows(
    installation: Installation, tmp_path: Path
) -> None:
    # An idle Airflow takes a quarter of a core.
    installation.airflow.stop()
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    environment = {
        # The settings of the other tests' installation are not those of a newcomer.
        **{name: value for name, value in os.environ.items() if not name.startswith(("BROKERPROOF_", "AIRFLOW_"))},
        "BROKERPROOF_VAR": str(tmp_path / "var"),
        "BROKERPROOF_DATABASE_URL": f"sqlite:///{tmp_path}/history.db",
        "AIRFLOW__API__PORT": "0",
        # As narrow as a terminal may be.
        "COLUMNS": "80",
    }
    exports: list[str] = []

    def type_in(command: str) -> subprocess.CompletedProcess[str]:
        line = "; ".join([*exports, command])
        return subprocess.run(["bash", "-c", line], cwd=tmp_path, env=environment, capture_output=True, text=True)

    try:
        for step in read_tutorial(ROOT / "docs" / "first-scenario.md"):
            if isinstance(step, WrittenFile):
                (tmp_path / step.path).write_text(step.content, encoding="utf-8")
                continue
            if step.command.startswith("export "):
                exports.append(step.command)
            done = type_in(step.command)
            assert done.returncode == 0, f"{step.command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
            assert step.shows(done.stdout), f"{step.command} printed:\n{done.stdout}"
    finally:
        type_in(".venv/bin/brokerproof airflow stop")


def test_an_output_that_the_page_does_not_show_is_found() -> None:
    step = TypedCommand(command="x", output="…\nbroker_killed …\n…\n")
    assert step.shows("a\nbroker_killed  passed\nb\n")
    assert not step.shows("a\nbroker_paused  passed\nb\n")
