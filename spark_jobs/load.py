"""Publishes the workload, open-loop, and records every attempt: `spark-submit load.py RUN_DIR`.

Each producer has a Spark task, and all tasks run at once. A task starts a client process (brokerproof.clients), and
turns the process's growing record into rows of the table `publishes`. It also records the producer's end. The job
records the end of the whole load.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from brokerproof import clock
from brokerproof.clients.client_life import ClientLife
from brokerproof.clients.producing import ProducerTask, complete_publishes, plan_producers
from brokerproof.clients.record import leave_read, read_end, remove_records
from brokerproof.experiment.workload import ClientRole
from brokerproof.run.directory import Run
from brokerproof.run.records import (
    ClientRecordRead,
    LoadEnd,
    PhaseTimes,
    ProducerEnd,
    read_record,
    remove_record,
    write_record,
)
from brokerproof.run.seals import seal_tables
from brokerproof.run.tables import Batches
from pyspark import BarrierTaskContext
from spark_session import SparkTasks, end_job, join_problems, leave_end, open_job_run

# A producer that still runs this many seconds after its last answer was due hangs, and is killed.
_OVERDUE_S = 30.0


def publish_messages(run: Run, task: ProducerTask, barrier: BarrierTaskContext | None = None) -> Batches:
    """Run one producer as a Spark task, and yield rows of the table `publishes`.

    All producers start together: they wait for each other at `barrier`, by default that of the Spark task.
    """
    context = barrier or BarrierTaskContext.get()
    life = ClientLife(
        run,
        ClientRole.PRODUCER,
        task.number,
        module="brokerproof.clients.producing",
        is_overdue=lambda: _is_overdue(run),
    )
    for before in life.earlier:
        # An earlier client may still write, so its record never counts as complete.
        yield from before.count(complete_publishes(run, task, before, before.read_rest(), lambda: False))
    remove_record(run, ProducerEnd, task.number)
    # All producers begin at the same moment.
    agree = lambda: max(float(at) for at in context.allGather(str(clock.now_s()))) + 0.1  # noqa: E731
    for reader, segments in life.live(agree):
        has_ended = partial(_has_ended, run, task.number, reader.epoch)
        yield from reader.count(complete_publishes(run, task, reader, segments, has_ended))
    leave_read(run, task.client, life.readers)
    leave_end(run, ProducerEnd, task.number, life.epoch, lambda: _make_end(task, life))


def _has_ended(run: Run, number: int, epoch: int) -> bool:
    return read_end(run, ProducerEnd, number, epoch) is not None


def _is_overdue(run: Run) -> bool:
    phases = read_record(run, PhaseTimes)
    return phases is not None and clock.now_us() > phases.ends_at + (run.scenario.settle_s + _OVERDUE_S) * 1e6


def _make_end(task: ProducerTask, life: ClientLife) -> ProducerEnd:
    """Return the record of the end of a producer whose last process left none. A fault that ended it, or that never
    started it, is no problem.

    The counts are None, because only the rows in the table `publishes` show what was published.
    """
    return ProducerEnd(
        task=task.number,
        producer=task.producer,
        scheduled=None,
        acked=None,
        failed=None,
        unknown=None,
        fault=life.ended_by,
        problem=None if life.is_excused else f"{task.producer}: its process {life.end}",
        at=clock.now_us(),
    )


def conclude_load(run: Run, tasks: list[ProducerTask]) -> LoadEnd:
    """Return the record of the load's end.

    The load has not finished if a producer had a problem or left no record of its end.
    """
    ends = [(task, read_record(run, ProducerEnd, task.number)) for task in tasks]
    why = join_problems((task.producer, end) for task, end in ends)
    producers = tuple(end for _, end in ends if end is not None)
    return LoadEnd(
        finished=not why,
        why=why,
        scheduled=sum(end.scheduled or 0 for end in producers),
        producers=producers,
        at=clock.now_us(),
    )


def main(arguments: Sequence[str] | None = None, start: Callable[[str], SparkTasks] = SparkTasks) -> None:
    """Publish, and seal `publishes`. Raises RunError with the producers' problems, unless the timeline failed."""
    run = open_job_run(arguments)
    tasks = plan_producers(run)
    for task in tasks:
        # A record from an earlier start of this job would count for this one.
        remove_record(run, ProducerEnd, task.number)
        remove_record(run, ClientRecordRead, task.client)
    spark = start("load")
    spark.run(run, "publishes", tasks, publish_messages, at_once=True)
    seal_tables(run, "publishes")
    remove_records(run, "load")
    end = conclude_load(run, tasks)
    write_record(run, end)
    end_job(run, end.why)


if __name__ == "__main__":
    main()
