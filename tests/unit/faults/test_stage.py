"""What a timeline prepares before its first fault."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

RECORD_FIRST_FAULT = """
import sys
from types import SimpleNamespace
from brokerproof.clock import SYSTEM_CLOCK
from brokerproof.faults.stage import Stage
from brokerproof.run.directory import Run

directory, prepared = sys.argv[1], sys.argv[2] == "True"
parts = dict.fromkeys(("administration", "observation", "runtime", "link", "show", "waits"))
nodes = SimpleNamespace(specs=dict)
stage = Stage(run=Run(directory), provisioning=nodes, clock=SYSTEM_CLOCK, **parts)
if prepared:
    stage.warm_up()
before = set(sys.modules)
stage.run.append("faults", [{"fault": "owner_lost"}])
print("pandas" in set(sys.modules) - before)
"""


@pytest.mark.parametrize("prepared", [True, False])
def test_no_fault_waits_for_the_import_of_pandas(tmp_path: Path, *, prepared: bool) -> None:
    asked = [sys.executable, "-c", RECORD_FIRST_FAULT, str(tmp_path / "run"), str(prepared)]
    ended = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=120)
    assert (ended.stdout.strip(), ended.returncode) == (str(not prepared), 0), ended.stderr
