"""Faults of clients: what they do to real processes, and that what these recorded is whole afterwards."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from brokerproof import clock
from brokerproof.clients.client_life import ClientLife
from brokerproof.clock import SYSTEM_CLOCK, wait_until
from brokerproof.errors import NodeError, RunError
from brokerproof.experiment.fault import Fault
from brokerproof.experiment.workload import ClientRole
from brokerproof.faults.client_runtime import ClientRuntime
from brokerproof.faults.targets import list_clients
from brokerproof.machine.processes import is_stopped
from brokerproof.run.directory import Run
from brokerproof.run.records import (
    ClientEpoch,
    ClientEpochs,
    ClientOrder,
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

    def make_with(kind: str, on_restart: str | None = None, **targets: Any) -> Run:
        run = make_run(
            tmp_path / "run",
            "sync_nominal",
            {
                "settle_s": 1,
                "workload.rate": 1000,
                "workload.producers": 1,
                # Every seventh message has no answer, and a slow machine must not make the producer wait for one.
                "workload.client": {"on_restart": on_restart, "max_pending": 100_000},
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


@pytest.mark.parametrize("kind", ["kill", "stop"])
def test_a_producer_that_resends_sends_each_message_without_an_answer_again_and_no_other(make: Any, kind: str) -> None:
    run = make(kind, on_restart="resend", client="producer")
    task = publishing(run)
    await_rows(task)
    runtime = act_on(run)
    runtime.kill(PRODUCER) if kind == "kill" else runtime.stop(PRODUCER, grace_s=30)
    restart(run, runtime, PRODUCER)
    wait_until(lambda: task.rows[-1]["epoch"] == 1, timeout_s=60, what="rows of the next process")
    rows = end(run, task)
    first, second = ({row["seq"]: row for row in rows if row["epoch"] == epoch} for epoch in (0, 1))
    assert len(rows) == len(first) + len(second)
    unanswered = {seq for seq, row in first.items() if row["outcome"] == "unknown"}
    assert unanswered
    assert {seq for seq in second if seq <= max(first)} == unanswered
    assert sorted(first.keys() | second.keys()) == list(range(len(first.keys() | second.keys())))
    # Every seventh message has no answer in this system, and all others have one now.
    assert {second[seq]["outcome"] for seq in unanswered if seq % 7} <= {"acked"}
    assert all(row["scheduled_at"] <= row["sent_at"] for row in second.values() if row["sent_at"])
    assert [second[seq]["sent_at"] for seq in sorted(second)] == sorted(row["sent_at"] for row in second.values())


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


def test_a_second_producer_that_is_refused_is_recorded_and_the_first_one_goes_on(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make("fence", client="producer")
    task = publishing(run)
    await_rows(task)
    monkeypatch.setenv("ENDLESS_REFUSES", "yes")
    runtime = act_on(run)
    runtime.fence(PRODUCER)
    assert "was refused: mycluster-p0: ConnectionRefusedError: a producer" in str(runtime.evidence_of_fencing(PRODUCER))
    assert runtime.is_healthy(runtime.make_specs()[PRODUCER])
    before = len(task.rows)
    wait_until(lambda: len(task.rows) > before + 300, timeout_s=60, what="rows of the first process")
    rows = end(run, task)
    outcomes(rows)
    assert {row["epoch"] for row in rows} == {0}
    epochs = read_epochs(run, "load-0")
    assert [(each.epoch, each.fault) for each in epochs.epochs] == [(0, None), (1, "f")]
    assert epochs.epochs[1].ready_at is None
    produced = read_record(run, ProducerEnd, 0)
    assert produced is not None
    assert (produced.epoch, produced.problem, produced.fault) == (0, None, None)


@pytest.mark.parametrize("is_fenced", [True, False])
def test_a_second_producer_takes_over_behind_what_the_first_one_may_send(
    make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_fenced: bool
) -> None:
    if is_fenced:
        (tmp_path / "owner").touch()
        monkeypatch.setenv("ENDLESS_OWNER", str(tmp_path / "owner"))
    run = make("fence", client="producer")
    task = publishing(run)
    await_rows(task)
    runtime = act_on(run)
    runtime.fence(PRODUCER)
    evidence = str(runtime.evidence_of_fencing(PRODUCER))
    # A cluster that fences nobody is found out.
    assert re.search(
        r"; of what the earlier process sent after that: " + ("fenced" if is_fenced else "acked"), evidence
    )
    assert ("acked" in evidence) is not is_fenced
    assert runtime.is_healthy(runtime.make_specs()[PRODUCER])
    wait_until(lambda: task.rows[-1]["epoch"] == 1, timeout_s=60, what="rows of the second process")
    rows = end(run, task)
    found = outcomes(rows)
    assert max(row["seq"] for row in rows if row["epoch"] == 0) < min(row["seq"] for row in rows if row["epoch"] == 1)
    assert "acked" in {found[row["seq"]] for row in rows if row["epoch"] == 1}
    unsent = [row for row in rows if row["error"] == "another process took over before"]
    assert {(row["epoch"], row["outcome"], row["sent_at"]) for row in unsent} == {(0, "unknown", None)}
    first, second = read_epochs(run, "load-0").epochs
    assert (first.fault, second.fault) == ("f", None)
    # They ran together for a while.
    assert second.ready_at < first.ended_at
    produced = read_record(run, ProducerEnd, 0)
    assert produced is not None
    assert (produced.epoch, produced.problem, produced.fault) == (1, None, None)


def test_a_second_producer_that_dies_before_it_is_refused_is_no_effect(make: Any) -> None:
    run = make("fence", client="producer")
    task = publishing(run)
    await_rows(task)
    (first,) = clients_of(run)

    def kill_second() -> None:
        wait_until(lambda: len(clients_of(run)) > 1, timeout_s=60, what="the second process")
        next(each for each in clients_of(run) if each.pid != first.pid).kill()

    killing = threading.Thread(target=kill_second)
    killing.start()
    runtime = act_on(run)
    with pytest.raises(NodeError, match=r"mycluster-p0 was not fenced: process .* was neither connected nor refused"):
        runtime.fence(PRODUCER)
    killing.join()
    assert runtime.evidence_of_fencing(PRODUCER) is None
    end(run, task)


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
    assert held == of_all if moment == "holds_unacknowledged" else 0 < held < of_all
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


def test_a_task_that_a_fault_makes_fail_goes_on_in_its_second_attempt(make: Any) -> None:
    run = make("task_retry", client="consumer", count=1)
    task = consuming(run)
    await_record(run)
    runtime = act_on(run)
    runtime.fail_task(CONSUMER)
    task.join()
    assert isinstance(task.error, RunError)
    assert str(task.error) == "f makes this task fail, so that Spark repeats it"
    # Without another attempt, the fault has no effect.
    assert runtime.evidence_of_repetition(CONSUMER) is None
    assert not runtime.is_healthy(runtime.make_specs()[CONSUMER])
    task = consuming(run)
    evidence = wait_until(lambda: runtime.evidence_of_repetition(CONSUMER), timeout_s=60, what="the second attempt")
    assert evidence == "attempt 0 of its Spark task ended with process 0, and attempt 1 began with process 1"
    wait_until(lambda: runtime.is_healthy(runtime.make_specs()[CONSUMER]), timeout_s=60, what="the consumer")
    rows = end(run, task)
    # The second attempt reads the record of the first one.
    assert {row["incarnation"] for row in rows} >= {0}
    assert [(each.epoch, each.attempt, each.fault) for each in read_epochs(run, "consume-0").epochs] == [
        (0, 0, "f"),
        (1, 1, None),
    ]


def test_a_process_of_a_repeated_task_is_excused_only_if_its_record_proves_its_end(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("brokerproof.clients.client_life._EARLIER_END_S", 0.2)
    run = make("task_retry", client="producer", count=1)
    lives = {"epochs": (ClientEpoch(epoch=0, started_at=1, ready_at=2),), "followed": 1, "evidence": "", "over": False}
    write_record(run, ClientEpochs(client="load-0", state=ClientState.REPEATED, at=3, **lives))
    write_record(run, ClientOrder(client="load-0", number=1, state=ClientState.REPEATED, fault="f", at=3))

    def make_life() -> ClientLife:
        return ClientLife(run, ClientRole.PRODUCER, 0, module="", is_overdue=lambda: False)

    assert [each.fault for each in make_life()._epochs] == [None]
    counts = dict.fromkeys(("scheduled", "acked", "failed", "unknown"), 0)
    write_record(run, ProducerEnd(task=0, producer=PRODUCER, epoch=0, problem="", at=4, **counts))
    assert [(each.fault, each.ended_at) for each in make_life()._epochs] == [("f", 4)]


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
    monkeypatch.setattr("brokerproof.experiment.workload._MOMENT_S", 0.5)
    monkeypatch.setattr("brokerproof.clients.client_process.ClientProcess.await_moment", lambda *_: None)
    run = make("kill", client="consumer", now="in_batch")
    task = consuming(run)
    await_record(run)
    with pytest.raises(NodeError, match="audit-c0 was not killed: it never met the moment `in_batch`"):
        act_on(run).kill(CONSUMER)
    assert len(clients_of(run)) == 1
    end(run, task)


AT_ITS_MOMENT = """
import os, sys, threading
from brokerproof.clients.client_process import Parent
from brokerproof.experiment.fault import ClientMoment

parent = Parent(os.open(os.devnull, os.O_WRONLY))
for _ in range(3):
    threading.Thread(target=threading.Event().wait, daemon=True).start()

def work():
    parent.awaited = ClientMoment.IN_BATCH
    parent.reach(ClientMoment.IN_BATCH, "")
    os.write(1, b"went on")

threading.Thread(target=work).start()
"""


def test_a_client_does_nothing_after_its_moment(tmp_path: Path) -> None:
    # If the signal went to the process, another thread would take it, and the client would go on meanwhile.
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", AT_ITS_MOMENT], stdout=subprocess.PIPE)
        try:
            wait_until(lambda pid=process.pid: is_stopped(pid), timeout_s=20, what="the client to stop", every_s=0.001)
        finally:
            process.kill()
            output, _ = process.communicate()
        assert output == b""


def test_a_producer_that_a_fault_quiets_sends_nothing_until_it_is_healed(make: Any) -> None:
    run = make("quiet", client="producer")
    task = publishing(run)
    await_rows(task)
    runtime = act_on(run)
    assert runtime.evidence_of_rate([PRODUCER], is_quiet=True) is None
    runtime.set_rate([PRODUCER], is_quiet=True)
    quiet = lambda: runtime.evidence_of_rate([PRODUCER], is_quiet=True)  # noqa: E731
    wait_until(lambda: quiet() is not None, timeout_s=60, what="a quiet producer")
    quiet_at = clock.now_us()
    wait_until(lambda: clock.now_us() > quiet_at + 2_000_000, timeout_s=60, what="two quiet seconds")
    assert runtime.evidence_of_rate([PRODUCER], is_quiet=False) is None
    healed_at = clock.now_us()
    runtime.set_rate([PRODUCER], is_quiet=False)
    assert runtime.evidence_of_rate([PRODUCER], is_quiet=False) is None
    busy = lambda: runtime.evidence_of_rate([PRODUCER], is_quiet=False)  # noqa: E731
    wait_until(lambda: busy() is not None, timeout_s=60, what="a busy producer")
    before = len(task.rows)
    wait_until(lambda: len(task.rows) > before + 300, timeout_s=60, what="rows of the time after it")
    rows = end(run, task)
    outcomes(rows)
    times = [row[name].timestamp() * 1e6 for row in rows for name in ("scheduled_at", "sent_at")]
    assert not [at for at in times if quiet_at <= at <= healed_at]
    assert [at for at in times if at < quiet_at]
    assert [at for at in times if at > healed_at]
    assert all(row["scheduled_at"] <= row["sent_at"] for row in rows)


def test_a_fault_keeps_its_evidence_after_another_one_has_changed_the_client(make: Any) -> None:
    run = make("fence", client="producer")
    task = publishing(run)
    await_rows(task)
    fencing = act_on(run)
    fencing.fence(PRODUCER)
    evidence = fencing.evidence_of_fencing(PRODUCER)
    killing = replace(fencing, fault=fencing.fault.model_copy(update={"name": "g"}))
    assert killing.evidence_of_fencing(PRODUCER) is None
    killing.kill(PRODUCER)
    assert not fencing.is_alive(PRODUCER)
    assert "took over from process" in str(evidence)
    assert fencing.evidence_of_fencing(PRODUCER) == evidence
    restart(run, killing, PRODUCER)
    assert "SIGKILL" in str(killing.evidence_of_death(killing.make_specs()[PRODUCER]))
    outcomes(end(run, task))


def test_a_quiet_producer_whose_load_has_ended_needs_no_rate(make: Any) -> None:
    run = make("quiet", client="producer")
    task = publishing(run)
    await_rows(task)
    runtime = act_on(run)
    runtime.set_rate([PRODUCER], is_quiet=True)
    quiet = lambda: runtime.evidence_of_rate([PRODUCER], is_quiet=True)  # noqa: E731
    wait_until(lambda: quiet() is not None, timeout_s=60, what="a quiet producer")
    outcomes(end(run, task))
    assert runtime.evidence_of_rate([PRODUCER], is_quiet=False) is None, "the rate was not given back"
    runtime.set_rate([PRODUCER], is_quiet=False)
    evidence = lambda: runtime.evidence_of_rate([PRODUCER], is_quiet=False)  # noqa: E731
    wait_until(lambda: evidence() is not None, timeout_s=60, what="a producer that needs no rate")
    assert json.loads(evidence()) == {PRODUCER: "its load has ended"}
