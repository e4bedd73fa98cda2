"""The runtimes that there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from brokerproof.errors import MachineError, RunError
from brokerproof.run.directory import Run
from brokerproof.runtimes.processes import ProcessRuntime
from brokerproof.runtimes.protocols import EmulatesLinks, Runtime

# By name, what makes a runtime from the directory of a run's nodes.
RUNTIMES: Mapping[str, Callable[[Path], Runtime]] = {"process": ProcessRuntime}


def runtime_of(run: Run) -> Runtime:
    """Where the run's nodes live."""
    name = run.scenario.runtime
    if name not in RUNTIMES:
        raise MachineError(f"no runtime is called `{name}` here; use one of: {', '.join(RUNTIMES)}")
    return RUNTIMES[name](Path(run.path("nodes")))


def links_of(runtime: Runtime) -> EmulatesLinks:
    """The runtime as one that puts links between regions. Raises RunError where it cannot."""
    if not isinstance(runtime, EmulatesLinks):
        raise RunError(f"the runtime {type(runtime).__name__} cannot put links between regions; use `process`")
    return runtime
