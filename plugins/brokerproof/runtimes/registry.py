"""The runtimes that there are."""

from __future__ import annotations

from pathlib import Path

from brokerproof.errors import MachineError, RunError
from brokerproof.run.directory import Run
from brokerproof.runtimes.processes import ProcessRuntime
from brokerproof.runtimes.protocols import MEANINGS, EmulatesLinks, Runtime, SupervisesNodes

# By name.
RUNTIMES: dict[str, type[Runtime]] = {"process": ProcessRuntime}


def runtimes_that_can(ability: type) -> list[str]:
    """The names of the runtimes that have an ability, given as its protocol."""
    return [name for name, runtime in RUNTIMES.items() if issubclass(runtime, ability)]


def make_runtime(run: Run) -> Runtime:
    """Where the run's nodes live."""
    name = run.scenario.runtime
    if name not in RUNTIMES:
        raise MachineError(f"no runtime is called `{name}` here; use one of: {', '.join(RUNTIMES)}")
    return RUNTIMES[name](Path(run.path("nodes")))


def require_links(runtime: Runtime) -> EmulatesLinks:
    """The runtime as one that puts links between regions. Raises RunError where it cannot."""
    if not isinstance(runtime, EmulatesLinks):
        raise RunError(f"the runtime {type(runtime).__name__} cannot {MEANINGS[EmulatesLinks]}; use another one")
    return runtime


def require_supervision(runtime: Runtime) -> SupervisesNodes:
    """The runtime as one that starts nodes again that ended by themselves. Raises RunError where it cannot."""
    if not isinstance(runtime, SupervisesNodes):
        raise RunError(f"the runtime {type(runtime).__name__} cannot {MEANINGS[SupervisesNodes]}; use another one")
    return runtime
