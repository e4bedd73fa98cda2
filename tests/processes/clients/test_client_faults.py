"""Faults of clients: what they do to real processes, and that what these recorded is whole afterwards."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from brokerproof import clock
from brokerproof.clock import SYSTEM_CLOCK, wait_until
from brokerproof.errors import NodeError
from brokerproof.experiment.fault import Fault
from brokerproof.faults.client_runtime import ClientRuntime
from brokerproof.faults.targets import list_clients
from brokerproof.machine.processes import is_stopped
from brokerproof.run.directory import Run
from brokerproof.run.records import (
    ClientEpochs,
    ClientState,
    ClustersConfigured,
    ConsumerEnd,
    ConsumersStop,
    FaultsUndone,
    ProducerEnd,
    read_record,
    write_record,
)
from builders import make_run

from .test_processes_of_clients import (
    Task,
    await_record,
    await_rows,
    clients_of,
    consuming,
    outcomes,
    publishing,
    steady,
)

PRODUCER, CONSUMER = "mycluster-p0", "audit-c0"


@pytest.fixture
def make(tmp_path: Path, endless: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Run]]:
    monkeypatch.setenv("ENDLESS_END", str(tmp_path / "run" / "end"))
    made: list[Run] = []

    def make_with(kind: str, **targets: Any) -> Run:
        run = make_run(
            tmp_path / "run",
            "sync_nominal",
            {
                "settle_s": 1,
                "workload.rate": 1000,
                "workload.producers": 1,
                "overrides.system": "endless",
                "faults": [{"name": "f", "kind": kind, "targets": targets}],
            },
            sealed=True,
        )
        write_record(run, ClustersConfigured(at=0))
        steady(run)
        made.append(run)
        return run

    yield make_with
    for run in made:
        assert not clients_of(run)


def act_on(run: Run) -> ClientRuntime:
    (fault,) = run.scenario.faults
    return ClientRuntime(run=run, fault=fault, clients=select(run, fault), clock=SYSTEM_CLOCK)


def select(run: Run, fault: Fault) -> Any:
    return list_clients(fault.targets, run.scenario.workload, run.topology)


def restart(run: Run, runtime: ClientRuntime, name: str) -> None:
    spec = runtime.make_specs()[name]
    runtime.start(spec)
    assert runtime.is_healthy(spec)


def end(run: Run, task: Task) -> list[dict[str, Any]]:
    write_record(run, FaultsUndone(undone=True, problems=(), at=clock.now_us()))
    Path(run.path("end")).touch()
    write_record(run, ConsumersStop(at=clock.now_us()))
    steady(run, ends_in_s=0.5)
    rows = task.join()
    assert task.error is None
    return rows


def read_epochs(run: Run, client: str) -> ClientEpochs:
    answer = read_record(run, ClientEpochs, client)
    assert answer is not None
    return answer


def test_a_producer_that_a_fault_kills_and_starts_goes_on_behind_what_it_had_reserved(make: Any) -> None:
    run = make("kill", client="producer")
    task = publishing(run)
    await_rows(task)
    runtime = act_on(run)
    runtime.kill(PRODUCER)
    assert clients_of(run) == []
    assert "was ended by SIGKILL" in str(runtime.evidence_of_death(runtime.make_specs()[PRODUCER]))
    restart(run, runtime, PRODUCER)
    before = len(task.rows)
    wait_until(lambda: len(task.rows) > before + 300, timeout_s=60, what="rows of the next process")
    rows = end(run, task)
    found = outcomes(rows)
    assert Counter(row["epoch"] for row in rows).keys() == {0, 1}
    assert max(row["seq"] for row in rows if row["epoch"] == 0) < min(row["seq"] for row in rows if row["epoch"] == 1)
    assert "acked" in {found[row["seq"]] for row in rows if row["epoch"] == 1}
    epochs = read_epochs(run, "load-0")
    assert [(each.epoch, each.fault) for each in epochs.epochs] == [(0, "f"), (1, None)]
    assert epochs.over
    produced = read_record(run, ProducerEnd, 0)
    assert produced is not None
    assert (produced.epoch, produced.problem, produced.fault) == (1, None, None)


def test_a_producer_that_a_fault_stops_sends_nothing_more_and_leaves_no_reserved_message(make: Any) -> None:
    run = make("stop", client="producer")
    task = publishing(run)
    await_rows(task)
    runtime = act_on(run)
    runtime.stop(PRODUCER, grace_s=30)
    sent = len(task.rows)
    restart(run, runtime, PRODUCER)
    rows = end(run, task)
    outcomes(rows)
    first = [row for row in rows if row["epoch"] == 0]
    # Every seventh message has no answer, and none was reserved in vain.
    assert {row["seq"] for row in first if row["outcome"] == "unknown"} == {
        row["seq"] for row in first if row["seq"] % 7 == 0
    }
    assert len(first) >= sent
    assert [each.fault for each in read_epochs(run, "load-0").epochs] == ["f", None]


def test_a_client_that_a_fault_freezes_does_nothing_until_it_goes_on(make: Any) -> None:
    run = make("pause", client="producer")
    task = publishing(run)
    await_rows(task)
    runtime = act_on(run)
    runtime.pause(PRODUCER)
    assert runtime.is_paused(PRODUCER)
    assert not runtime.is_healthy(runtime.make_specs()[PRODUCER])
    (client,) = clients_of(run)
    assert client.status() == "stopped"
    runtime.resume(PRODUCER)
    assert runtime.is_healthy(runtime.make_specs()[PRODUCER])
    rows = end(run, task)
    outcomes(rows)
    assert [each.fault for each in read_epochs(run, "load-0").epochs] == [None]


@pytest.mark.parametrize("moment", ["holds_unacknowledged", "in_batch"])
def test_a_consumer_is_killed_at_the_moment_and_has_recorded_whatever_it_acknowledged(
    make: Any, moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENDLESS_ACKS", str(tmp_path / "acks"))
    run = make("kill", client="consumer", now=moment)
    task = consuming(run)
    await_record(run)
    runtime = act_on(run)
    runtime.kill(CONSUMER)
    evidence = str(runtime.evidence_of_death(runtime.make_specs()[CONSUMER]))
    held, of_all = map(int, re.findall(r"holding (\d+) of (\d+) messages", evidence)[0])
    assert held == of_all if moment == "holds_unacknowledged" else held == of_all - 1
    rows = end(run, task)
    acked = [int(line) for line in (tmp_path / "acks").read_text().split()]
    assert set(acked) <= {row["seq"] for row in rows}
    consumed = read_record(run, ConsumerEnd, 0)
    assert consumed is not None
    # It stays dead, and that is no problem of the instrument.
    assert (consumed.problem, consumed.fault, consumed.delivered) == (None, "f", None)


def test_a_consumer_that_is_killed_and_started_has_another_incarnation(make: Any) -> None:
    run = make("kill", client="consumer", names=[CONSUMER])
    task = consuming(run)
    await_record(run)
    runtime = act_on(run)
    runtime.kill(CONSUMER)
    restart(run, runtime, CONSUMER)
    await_record(run, files=len(list(Path(run.path("clients")).glob("*/*.arrow"))) + 3)
    rows = end(run, task)
    assert {row["incarnation"] for row in rows} == {0, 1}
    consumed = read_record(run, ConsumerEnd, 0)
    assert consumed is not None
    assert (consumed.epoch, consumed.problem, consumed.fault) == (1, None, None)


def test_a_client_that_dies_by_itself_is_a_problem_although_a_fault_acts_on_clients(make: Any) -> None:
    run = make("pause", client="producer")
    task = publishing(run)
    await_rows(task)
    clients_of(run)[0].kill()
    task.join()
    produced = read_record(run, ProducerEnd, 0)
    assert produced is not None
    assert (produced.problem, produced.fault) == (f"{PRODUCER}: its process was ended by SIGKILL", None)
    assert read_epochs(run, "load-0").state is ClientState.RUNNING
    with pytest.raises(NodeError, match="mycluster-p0 was not paused"):
        act_on(run).pause(PRODUCER)


def test_a_moment_that_does_not_come_is_told(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("brokerproof.clients.client_life._MOMENT_S", 0.5)
    monkeypatch.setattr("brokerproof.clients.client_process.ClientProcess.await_moment", lambda *_: None)
    run = make("kill", client="consumer", now="in_batch")
    task = consuming(run)
    await_record(run)
    with pytest.raises(NodeError, match="audit-c0 was not killed: it never met the moment `in_batch`"):
        act_on(run).kill(CONSUMER)
    assert len(clients_of(run)) == 1
    end(run, task)


# A client whose thread reaches a moment, and then goes on, while its main thread waits.
_AT_A_MOMENT = """
import os, sys, threading
from brokerproof.clients.client_process import Parent
from brokerproof.experiment.fault import ClientMoment

parent = Parent(int(sys.argv[1]))
parent.awaited = ClientMoment.IN_BATCH
def act():
    parent.reach(ClientMoment.IN_BATCH, "7 messages")
    os.write(1, b"went on")
threading.Thread(target=act).start()
"""


def test_the_thread_that_reaches_a_moment_goes_no_further() -> None:
    for _ in range(10):
        reading, writing = os.pipe()
        command = [sys.executable, "-c", _AT_A_MOMENT, str(writing)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, pass_fds=[writing])
        os.close(writing)
        try:
            wait_until(lambda pid=process.pid: is_stopped(pid), timeout_s=20, what="the client to freeze itself")
            assert os.read(reading, 100) == b"7 messages"
            os.set_blocking(process.stdout.fileno(), False)  # type: ignore[union-attr]
            assert process.stdout.read() is None  # type: ignore[union-attr]
        finally:
            process.kill()
            process.wait()
            os.close(reading)
