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


def test_a_fault_that_waits_for_a_moment_needs_a_process_that_runs(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    targets = {"client": "consumer", "now": "in_batch"}
    fault = Fault.model_validate({"name": "killed_again", "kind": "kill", "targets": targets})
    clients = list_clients(fault.targets, run.scenario.workload, run.topology)
    (label,) = clients
    epoch = ClientEpoch(epoch=0, started_at=1, ready_at=2, ended_at=3, fault="killed")
    dead = {"epochs": (epoch,), "followed": 1, "state": ClientState.KILLED, "evidence": "", "over": False, "at": 4}
    write_record(run, ClientEpochs(client=clients[label].client, **dead))
    runtime = ClientRuntime(run=run, fault=fault, clients=clients, clock=SYSTEM_CLOCK)
    with pytest.raises(NodeError, match="was never at the moment `in_batch`, because its process does not run"):
        runtime.kill(label)
    assert read_record(run, ClientOrder, clients[label].client) is None
