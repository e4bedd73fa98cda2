"""The runtimes that there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from brokerproof.errors import MachineError
from brokerproof.run.directory import Run
from brokerproof.runtimes.processes import ProcessRuntime
from brokerproof.runtimes.protocols import Runtime

# By name, what makes a runtime from the directory of a run's nodes.
RUNTIMES: Mapping[str, Callable[[Path], Runtime]] = {"process": ProcessRuntime}


def runtime_of(run: Run) -> Runtime:
    """Where the run's nodes live."""
    name = run.scenario.runtime
    if name not in RUNTIMES:
        raise MachineError(f"no runtime is called `{name}` here; use one of: {', '.join(RUNTIMES)}")
    return RUNTIMES[name](Path(run.path("nodes")))
