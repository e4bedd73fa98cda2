"""Orders to clients: one that cannot be carried out is not given."""

from __future__ import annotations

from pathlib import Path

import pytest
from brokerproof.clock import SYSTEM_CLOCK
from brokerproof.errors import NodeError
from brokerproof.experiment.fault import Fault
from brokerproof.faults.client_runtime import ClientRuntime
from brokerproof.faults.targets import list_clients
from brokerproof.run.records import ClientEpoch, ClientEpochs, ClientOrder, ClientState, read_record, write_record
from builders import make_run

ENDED = ClientEpoch(epoch=0, started_at=1, ready_at=2, ended_at=3, fault="killed")


def make_runtime(directory: Path, *, over: bool) -> tuple[ClientRuntime, str]:
    """Return a runtime of a run whose only consumer was killed, and the consumer's label."""
    run = make_run(directory / "run")
    targets = {"client": "consumer", "now": "in_batch"}
    fault = Fault.model_validate({"name": "killed_again", "kind": "kill", "targets": targets})
    clients = list_clients(fault.targets, run.scenario.workload, run.topology)
    (label,) = clients
    dead = {"epochs": (ENDED,), "followed": 1, "state": ClientState.KILLED, "evidence": "", "over": over, "at": 4}
    write_record(run, ClientEpochs(client=clients[label].client, **dead))
    return ClientRuntime(run=run, fault=fault, clients=clients, clock=SYSTEM_CLOCK), label


def test_a_fault_that_waits_for_a_moment_needs_a_process_that_runs(tmp_path: Path) -> None:
    runtime, label = make_runtime(tmp_path, over=False)
    with pytest.raises(NodeError, match="was never at the moment `in_batch`, because its process does not run"):
        runtime.kill(label)
    assert read_record(runtime.run, ClientOrder, runtime.clients[label].client) is None


def test_a_dead_client_may_come_back_as_long_as_its_task_runs_and_never_afterwards(tmp_path: Path) -> None:
    for over in (False, True):
        runtime, label = make_runtime(tmp_path / str(over), over=over)
        spec = runtime.make_specs()[label]
        if over:
            with pytest.raises(NodeError, match="audit-c0 was not healthy: its task has ended"):
                runtime.is_healthy(spec)
        else:
            assert not runtime.is_healthy(spec)


def test_a_client_that_ended_by_itself_with_its_task_was_healthy(tmp_path: Path) -> None:
    runtime, label = make_runtime(tmp_path, over=True)
    lasting = ClientEpoch(epoch=1, started_at=4, ready_at=5, ended_at=6)
    answer = read_record(runtime.run, ClientEpochs, runtime.clients[label].client)
    assert answer is not None
    write_record(runtime.run, answer.model_copy(update={"epochs": (ENDED, lasting), "state": ClientState.RUNNING}))
    assert runtime.is_healthy(runtime.make_specs()[label])
