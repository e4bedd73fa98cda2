"""The runtimes that there are."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from brokerproof.errors import MachineError, RunError
from brokerproof.run.directory import Run
from brokerproof.runtimes.protocols import MEANINGS, EmulatesLinks, LivesElsewhere, Runtime, SupervisesNodes

# Where the class of each runtime is, as MODULE:CLASS, by name. It is imported when a scenario names it: what talks to
# an engine takes half a second, which the embedded runtime does not need.
RUNTIMES: dict[str, str] = {
    "process": "brokerproof.runtimes.processes:ProcessRuntime",
    "docker": "brokerproof.runtimes.containers:ContainerRuntime",
}


def load_runtime(name: str) -> type[Runtime]:
    """The class of a runtime. Raises MachineError where there is none of this name."""
    if name not in RUNTIMES:
        raise MachineError(f"no runtime is called `{name}` here; use one of: {', '.join(RUNTIMES)}")
    module, _, attribute = RUNTIMES[name].partition(":")
    runtime: type[Runtime] = getattr(import_module(module), attribute)
    return runtime


def runtimes_that_can(ability: type) -> list[str]:
    """The names of the runtimes that have an ability, given as its protocol."""
    return [name for name in RUNTIMES if issubclass(load_runtime(name), ability)]


def make_runtime(run: Run) -> Runtime:
    """Where the run's nodes live."""
    return load_runtime(run.scenario.runtime)(Path(run.path("nodes")))


def make_all_runtimes(nodes: Path) -> Iterator[Runtime]:
    """Every runtime, for a directory of nodes of which nothing says where they were."""
    return (load_runtime(name)(nodes) for name in RUNTIMES)


def remove_left_elsewhere(below: Path | None) -> list[str]:
    """End and remove what runs left where no process shows it. Returns the names of the nodes that still ran."""
    runtimes = (load_runtime(name) for name in RUNTIMES)
    return [name for one in runtimes if issubclass(one, LivesElsewhere) for name in one.remove_left(below)]


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
