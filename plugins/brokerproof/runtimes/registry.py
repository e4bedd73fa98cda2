"""The registry of the runtimes."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from brokerproof.errors import MachineError, RunError
from brokerproof.run.directory import Run
from brokerproof.runtimes.protocols import MEANINGS, EmulatesLinks, LivesElsewhere, Runtime, SupervisesNodes

# {name: class of the runtime, as MODULE:CLASS}. A class is imported only if its runtime is needed, because the library
# for Docker takes half a second to import.
RUNTIMES: dict[str, str] = {
    "process": "brokerproof.runtimes.process_runtime:ProcessRuntime",
    "docker": "brokerproof.runtimes.container_runtime:ContainerRuntime",
}


def load_runtime(name: str) -> type[Runtime]:
    """Return the class of a runtime. Raises MachineError if no runtime has this name."""
    if name not in RUNTIMES:
        raise MachineError(f"no runtime is called `{name}` here; use one of: {', '.join(RUNTIMES)}")
    module, _, attribute = RUNTIMES[name].partition(":")
    runtime: type[Runtime] = getattr(import_module(module), attribute)
    return runtime


def runtimes_that_can(ability: type) -> list[str]:
    """Return the names of the runtimes that implement `ability`, a protocol."""
    return [name for name in RUNTIMES if issubclass(load_runtime(name), ability)]


def make_runtime(run: Run) -> Runtime:
    """Return the runtime that the run's scenario names."""
    return load_runtime(run.scenario.runtime)(run.nodes)


def make_all_runtimes(nodes: Path) -> Iterator[Runtime]:
    """Yield a runtime of each kind for one directory of nodes, because it is unknown which kind the nodes belong to."""
    return (load_runtime(name)(nodes) for name in RUNTIMES)


def remove_left_elsewhere(below: Path | None) -> list[str]:
    """Remove the containers, networks and volumes that runs left in engines such as Docker's.

    If `below` is given, only runs whose directories are below it count. Returns the names of the nodes that still ran.
    """
    runtimes = (load_runtime(name) for name in RUNTIMES)
    return [name for one in runtimes if issubclass(one, LivesElsewhere) for name in one.remove_left(below)]


def require_links(runtime: Runtime) -> EmulatesLinks:
    """Return `runtime`, typed as one that emulates links. Raises RunError if the runtime cannot do this."""
    if not isinstance(runtime, EmulatesLinks):
        raise RunError(f"the runtime {type(runtime).__name__} cannot {MEANINGS[EmulatesLinks]}; use another one")
    return runtime


def require_supervision(runtime: Runtime) -> SupervisesNodes:
    """Return `runtime`, typed as one with a service manager. Raises RunError if the runtime has none."""
    if not isinstance(runtime, SupervisesNodes):
        raise RunError(f"the runtime {type(runtime).__name__} cannot {MEANINGS[SupervisesNodes]}; use another one")
    return runtime
