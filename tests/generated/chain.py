"""Does the steps of a run in the order of its DAG, without Airflow, and with threads in the place of Spark's tasks.

What is done to nodes, by clients and to tables is the same as in a run of Airflow, and so is judging, which has a real
session of Spark that several runs share. A run takes its phases and some eight seconds instead of a minute more.
"""

from __future__ import annotations

import ctypes
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

import consume
import load
import pyarrow.parquet as pq
import read_back
from brokerproof import lifecycle
from brokerproof.checks import load_scenario
from brokerproof.clients.table_recovery import recover_tables
from brokerproof.clock import now_us
from brokerproof.directories import Directories
from brokerproof.errors import BrokerproofError, RunError
from brokerproof.experiment.fault import TASK_RETRY
from brokerproof.orchestration.steps import compute_time_limit
from brokerproof.run.directory import Run
from brokerproof.run.judgement import Judgement, JudgingFailure, write_judgement
from brokerproof.run.records import PhaseTimes, StepSeconds, read_record, write_record
from brokerproof.run.step_record import record_step
from brokerproof.run.tables import SCHEMAS, Batches
from spark_session import SparkTasks

Task = TypeVar("Task")
Judge = Callable[[Run], Judgement]

# What a run of this size may take beside its phases and its settling: the start of nodes and clients, the three steady
# seconds before the phases, and waits for an answer.
MARGIN_S = 60.0
# Runs that end at one moment are judged one after the other.
_JUDGE_S = 300.0
# As Spark repeats a stage whose tasks run at once.
_ATTEMPTS, _LOOK_EVERY_S = 4, 0.05
# A step that goes on for so long after its processes were ended never ends.
_LAST_WAIT_S = 20.0


class TaskBarrier:
    """Where the tasks of a job wait for each other, as Spark's barrier is for its tasks."""

    def __init__(self, tasks: int) -> None:
        self._barrier = threading.Barrier(tasks)
        self._messages: list[str] = []

    def barrier(self) -> None:
        """Wait for all others."""
        self._barrier.wait()

    def allGather(self, message: str) -> list[str]:  # noqa: N802
        """The messages of all tasks."""
        self._messages.append(message)
        self._barrier.wait()
        return list(self._messages)

    def abort(self) -> None:
        """A task has failed, and the others wait no longer."""
        self._barrier.abort()


class TaskKilledError(BaseException):
    """Ends a task because another one of its job has failed, as Spark ends it."""


class ThreadTasks(SparkTasks):
    """Runs the tasks of a job as threads; like Spark it throws the rows of all of them away where one raises."""

    def __init__(self, name: str, *, attempts: int = 1) -> None:
        """If a task that runs at once with others raises, all are ended and repeated, up to `attempts` in all."""
        self._name, self._attempts = name, attempts

    def run(
        self, run: Run, table: str, tasks: Sequence[Task], work: Callable[..., Batches], *, at_once: bool = False
    ) -> None:
        """As `SparkTasks.run`. Raises the first exception of a task."""
        for attempt in range(1, self._attempts + 1):
            try:
                self._attempt(run, table, tasks, work, at_once=at_once)
            except Exception:
                if not at_once or attempt == self._attempts:
                    raise
            else:
                return

    def _attempt(
        self, run: Run, table: str, tasks: Sequence[Task], work: Callable[..., Batches], *, at_once: bool
    ) -> None:
        barrier = TaskBarrier(len(tasks))
        errors: list[BaseException] = []
        written: list[Path] = []

        def do(number: int, task: Task) -> None:
            rows = work(Run(run.directory), task, barrier) if at_once else work(Run(run.directory), task)
            # Readers skip files whose names begin so.
            file = Path(run.table(table)) / f".part-{number}.parquet"
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                with pq.ParquetWriter(file, SCHEMAS[table]) as writer:
                    for batch in rows:
                        writer.write_batch(batch)
                written.append(file)
            except BaseException as error:
                if not isinstance(error, threading.BrokenBarrierError | TaskKilledError):
                    errors.append(error)
                barrier.abort()

        threads = [
            threading.Thread(target=do, args=each, name=f"{self._name}-{each[0]}", daemon=True)
            for each in enumerate(tasks)
        ]
        for thread in threads:
            thread.start()
        if at_once and self._attempts > 1:
            while not errors and any(thread.is_alive() for thread in threads):
                time.sleep(_LOOK_EVERY_S)
            _end_threads(threads)
        for thread in threads:
            thread.join()
        if errors:
            for file in written:
                file.unlink()
            raise errors[0]
        for file in written:
            file.rename(file.with_name(file.name.removeprefix(".")))

    def stop(self) -> None:
        """Threads have ended by then."""


def _end_threads(threads: Sequence[threading.Thread]) -> None:
    """Raise TaskKilledError in each thread that runs. A thread that waits for something else gets it afterwards."""
    for thread in threads:
        if thread.is_alive() and thread.ident is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(TaskKilledError))


@dataclass(frozen=True, kw_only=True)
class StepEnd:
    """How a step ended: its seconds, and the exception that it raised, None without one. `hangs`: it did not end."""

    seconds: float
    limit_s: float
    error: BaseException | None = None
    trace: str = ""
    hangs: bool = False


@dataclass(kw_only=True)
class ChainEnd:
    """A run that has ended: its directory, how each of its steps ended, and its judgement, None without one."""

    run: Run
    seconds: float = 0.0
    steps: dict[str, StepEnd] = field(default_factory=dict)
    judgement: Judgement | None = None


def run_chain(
    file: Path, topologies: Directories, directory: Path, judge: Judge, *, margin_s: float = MARGIN_S
) -> ChainEnd:
    """Do the run of a scenario's file, whose steps may take `margin_s` beside their phases.

    No exception of a step is let through. Raises what `reserve` raises.
    """
    started = time.monotonic()
    scenario, topology = load_scenario(file, topologies)
    began_at = now_us()
    run = lifecycle.reserve(scenario, topology, directory=str(directory), run_id=directory.name)
    write_record(run, StepSeconds(step="reserve", started_at=began_at, finished_at=now_us()))
    chain = _Chain(run, margin_s)
    try:
        if chain.do(provision=lambda: lifecycle.provision(run)) and chain.do(
            configure=lambda: lifecycle.configure(run)
        ):
            arguments = [run.directory]
            repeats = any(fault.kind == TASK_RETRY for fault in scenario.faults)
            start = partial(ThreadTasks, attempts=_ATTEMPTS if repeats else 1)
            chain.do(
                load=lambda: load.main(arguments, start),
                consume=lambda: consume.main(arguments, start),
                break_it=lambda: lifecycle.break_it(run),
            )
            if _has_phases(run):
                chain.do(read_back=lambda: read_back.main(arguments, ThreadTasks))
    finally:
        chain.do(release=lambda: lifecycle.release(run), verify=lambda: chain.judge(judge))
    chain.end.seconds = time.monotonic() - started
    return chain.end


def _has_phases(run: Run) -> bool:
    """Whether the step read_back is not skipped: a record that is damaged was left."""
    try:
        return read_record(run, PhaseTimes) is not None
    except RunError:
        return True


class _Chain:
    """Does steps side by side, each with its record, and keeps how each ended."""

    def __init__(self, run: Run, margin_s: float) -> None:
        self.end = ChainEnd(run=run)
        self._margin_s = margin_s

    def do(self, **steps: Callable[[], object]) -> bool:
        """Do steps side by side. Returns whether all of them succeeded."""
        threads = {
            step: threading.Thread(target=self._do_step, args=(step, work), name=step, daemon=True)
            for step, work in steps.items()
        }
        begun = time.monotonic()
        for thread in threads.values():
            thread.start()
        for step, thread in threads.items():
            # Airflow would end it after this time.
            limit_s = compute_time_limit(step, self.end.run.scenario).total_seconds()
            thread.join(max(0.0, begun + min(limit_s, 1200) - time.monotonic()))
            if thread.is_alive():
                lifecycle.end_run(self.end.run.directory)
                thread.join(_LAST_WAIT_S)
                self.end.steps[step] = StepEnd(seconds=time.monotonic() - begun, limit_s=self._limit(step), hangs=True)
        return all(self.end.steps[step].error is None and not self.end.steps[step].hangs for step in steps)

    def judge(self, judge: Judge) -> None:
        """The step verify, as spark_jobs/verify.py does it."""
        run = self.end.run
        try:
            recover_tables(run)
            self.end.judgement = judge(run)
            write_judgement(run, self.end.judgement)
        except Exception as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            write_judgement(run, JudgingFailure(why=f"The run could not be judged: {reason}", error=repr(error)[:2000]))
            raise

    def _do_step(self, step: str, work: Callable[[], object]) -> None:
        begun, found, trace = time.monotonic(), None, ""
        try:
            with record_step(self.end.run, step):
                work()
        except BaseException as error:
            found = error
            trace = "" if isinstance(error, BrokerproofError) else traceback.format_exc()
        self.end.steps[step] = StepEnd(
            seconds=time.monotonic() - begun, limit_s=self._limit(step), error=found, trace=trace
        )

    def _limit(self, step: str) -> float:
        """The seconds that a step of so small a run may take."""
        scenario = self.end.run.scenario
        under_load = scenario.phases.total_s + scenario.settle_s + self._margin_s
        limits = {"load": under_load, "consume": under_load, "break_it": under_load, "verify": _JUDGE_S}
        return limits.get(step, self._margin_s)
