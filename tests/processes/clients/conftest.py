"""The system of this folder, for the tests and for the processes that they start."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from builders import ROOT

HERE = Path(__file__).parent


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system `endless`, whose clients are this process's and those of processes that it starts."""
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.setenv("BROKERPROOF_SYSTEMS", "endless=endless_system:SYSTEM")
    places = [str(HERE), str(ROOT / "plugins"), str(ROOT / "spark_jobs"), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(places))
