"""An engine that is killed and started again under a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from brokerproof.errors import MachineError
from brokerproof.runtimes import engine
from brokerproof.runtimes.container_runtime import ContainerRuntime
from missing_parts import leave_out
from own_engine import OwnEngine, find_reason_against_own, run_own_engine

from .conftest import make_image
from .test_container_runtime import make_spec, start


@pytest.fixture
def own_engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[OwnEngine]:
    if reason := find_reason_against_own():
        leave_out(reason)
    with run_own_engine() as engine:
        monkeypatch.setenv("DOCKER_HOST", engine.host)
        yield engine


def test_what_a_run_left_is_found_after_the_engine_was_killed(own_engine: OwnEngine, tmp_path: Path) -> None:
    image = make_image(docker.from_env().api)
    runtime = ContainerRuntime(tmp_path / "nodes")
    spec = make_spec(image)
    start(runtime, spec)
    own_engine.kill()
    # Nobody knows how the node is, so nobody says that it is dead, and nobody forgets it.
    for ask in (lambda: runtime.is_alive("n1"), lambda: runtime.evidence_of_death(spec), runtime.release):
        with pytest.raises(MachineError, match="start Docker, or say in DOCKER_HOST"):
            ask()
    own_engine.start()
    runtime.release()
    runtime.forget()
    assert engine.list_runs_in_engine() == []
    # The slot's next run gets its addresses.
    after = ContainerRuntime(tmp_path / "after" / "nodes")
    start(after, spec)
    assert after.release() == ["n1"]
    after.forget()
