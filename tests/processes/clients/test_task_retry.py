"""A fault makes a Spark task fail once: real Spark repeats all tasks of the job, and the faults own what it ended."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from brokerproof import clock
from brokerproof.clock import SYSTEM_CLOCK, wait_until
from brokerproof.faults.client_runtime import ClientRuntime
from brokerproof.faults.targets import list_clients
from brokerproof.machine.java import find_spark_java_home
from brokerproof.machine.processes import read_mark
from brokerproof.run.directory import Run
from brokerproof.run.records import ClientEpochs, ClustersConfigured, FaultsUndone, LoadEnd, read_record, write_record
from brokerproof_judging.client_lives import list_epochs_ended_by_faults
from builders import ROOT, make_run

from .test_processes_of_clients import clients_of, steady

TARGET = "mycluster-p0"
CLIENTS = ("load-0", "load-1")


@pytest.fixture
def run(tmp_path: Path, endless: None) -> Iterator[Run]:
    fault = {"name": "again", "kind": "task_retry", "targets": {"client": "producer", "names": [TARGET]}}
    settings = {"settle_s": 1, "workload.rate": 500, "workload.producers": 2, "overrides.system": "endless"}
    run = make_run(tmp_path / "run", "sync_nominal", {**settings, "faults": [fault]}, sealed=True)
    write_record(run, ClustersConfigured(at=0))
    steady(run, ends_in_s=300)
    yield run
    assert not clients_of(run)


@pytest.fixture
def load(run: Run, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The job `load` on a Spark of its own."""
    options = "--master local[2] --conf spark.ui.enabled=false --conf spark.driver.host=127.0.0.1 pyspark-shell"
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_spark_java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": options,
        "SPARK_LOCAL_DIRS": str(tmp_path),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    process = subprocess.Popen([sys.executable, str(ROOT / "spark_jobs" / "load.py"), run.directory], env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def are_publishing(run: Run, epoch: int) -> bool:
    return all(list(Path(run.path("clients", client)).glob(f"{epoch}-00000[2-9].arrow")) for client in CLIENTS)


def act_on(run: Run) -> ClientRuntime:
    (fault,) = run.scenario.faults
    clients = list_clients(fault.targets, run.scenario.workload, run.topology)
    return ClientRuntime(run=run, fault=fault, clients=clients, clock=SYSTEM_CLOCK)


def read_epochs(run: Run, client: str) -> list[tuple[int, int, str | None]]:
    answer = read_record(run, ClientEpochs, client)
    assert answer is not None
    return [(each.epoch, each.attempt, each.fault) for each in answer.epochs]


def end(run: Run, load: subprocess.Popen[bytes]) -> list[dict[str, Any]]:
    """Let the load end in order, and return the rows of its table."""
    write_record(run, FaultsUndone(undone=True, problems=(), at=clock.now_us()))
    steady(run, ends_in_s=0.5)
    assert load.wait(120) == 0
    produced = read_record(run, LoadEnd)
    assert produced is not None
    assert (produced.finished, produced.why) == (True, "")
    rows: list[dict[str, Any]] = pq.read_table(run.table("publishes")).to_pylist()
    return rows


def test_spark_repeats_the_tasks_of_all_producers_and_the_fault_owns_the_processes_that_it_ended(
    run: Run, load: subprocess.Popen[bytes]
) -> None:
    wait_until(lambda: are_publishing(run, 0), timeout_s=180, what="the producers")
    runtime = act_on(run)
    runtime.fail_task(TARGET)
    wait_until(lambda: runtime.evidence_of_repetition(TARGET), timeout_s=120, what="another attempt")
    wait_until(lambda: are_publishing(run, 1), timeout_s=120, what="the producers of the second attempt")
    assert runtime.is_healthy(runtime.make_specs()[TARGET])
    rows = end(run, load)
    for number, client in enumerate(CLIENTS):
        assert read_epochs(run, client) == [(0, 0, "again"), (1, 1, None)]
        assert list_epochs_ended_by_faults(run, client) == {0}
        own = {row["seq"]: row["epoch"] for row in rows if row["producer"] == f"mycluster-p{number}"}
        assert sorted(own) == list(range(len(own)))
        assert max(seq for seq, epoch in own.items() if epoch == 0) < min(seq for seq in own if own[seq] == 1)
    assert len(rows) == len({(row["producer"], row["seq"]) for row in rows})


def test_a_task_that_spark_repeats_without_a_fault_is_not_excused(run: Run, load: subprocess.Popen[bytes]) -> None:
    wait_until(lambda: are_publishing(run, 0), timeout_s=180, what="the producers")
    # Only the worker of Spark is killed, as if the machine had too little memory.
    client = next(each for each in clients_of(run) if "client load-0" in str(read_mark(each)))
    worker = client.parent()
    assert worker is not None
    worker.kill()
    wait_until(lambda: are_publishing(run, 1), timeout_s=120, what="the producers of the second attempt")
    end(run, load)
    for client in CLIENTS:
        assert read_epochs(run, client) == [(0, 0, None), (1, 1, None)]
        assert list_epochs_ended_by_faults(run, client) == set()
