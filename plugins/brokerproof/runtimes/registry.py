"""The runtimes that there are."""

from __future__ import annotations

from pathlib import Path

from brokerproof.errors import MachineError
from brokerproof.run.directory import Run
from brokerproof.runtimes.processes import ProcessRuntime

RUNTIMES = ("process",)


def runtime_of(run: Run) -> ProcessRuntime:
    """Where the run's nodes live."""
    if run.scenario.runtime != "process":
        raise MachineError(f"no runtime is called `{run.scenario.runtime}` here; use `process`")
    return ProcessRuntime(Path(run.path("nodes")))
