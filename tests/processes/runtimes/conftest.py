"""Nodes for the tests of runtimes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from brokerproof.runtimes.process_runtime import ProcessRuntime
from brokerproof.runtimes.protocols import NodeSpec

MakeSpec = Callable[..., NodeSpec]


@pytest.fixture
def make_spec() -> MakeSpec:
    """Makes the spec of a node, by default of one that sleeps."""

    def make(name: str = "n1", code: str = "import time; time.sleep(600)", **changes: object) -> NodeSpec:
        values: dict[str, object] = {
            "name": name,
            "role": "broker",
            "region": "eu",
            "address": "127.0.0.1",
            "command": (sys.executable, "-S", "-c", code),
            **changes,
        }
        return NodeSpec(**values)  # type: ignore[arg-type]

    return make


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[ProcessRuntime]:
    runtime = ProcessRuntime(tmp_path / "nodes")
    yield runtime
    runtime.release()
