"""Makes the tables of jobs that did not finish, from the records of their clients."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import fsspec
import psutil

from brokerproof.clients.consuming import ConsumerTask, complete_deliveries, plan_consumers
from brokerproof.clients.producing import ProducerTask, complete_publishes, plan_producers
from brokerproof.clients.record import RecordReader, leave_read, list_clients, list_epochs, read_end, remove_records
from brokerproof.machine.files import describe_failure
from brokerproof.machine.processes import end_processes, find_marked_processes, read_mark
from brokerproof.run.directory import Run
from brokerproof.run.division import DividedWriter, Division, commit_files
from brokerproof.run.records import ProducerEnd, TableSeal, read_record
from brokerproof.run.seals import seal_tables
from brokerproof.run.tables import Batches

Task = TypeVar("Task", ProducerTask, ConsumerTask)

# A function that makes the rows of a client's epoch from its record.
Complete = Callable[[Run, Task, RecordReader], Batches]

# A client whose task is gone ends by itself within this many seconds.
_CLIENTS_END_S = 5.0


def recover_tables(run: Run) -> list[str]:
    """Write and seal the tables `publishes` and `deliveries` from the clients' records, if their jobs did not.

    Return the names of the recovered tables. Without records, as in runs of an old version, a table is left as it is.
    Raises RunError if a record is damaged, MachineError if a table cannot be written.
    """
    return [
        *_recover(run, "load", "publishes", plan_producers(run), _complete_publishes),
        *_recover(run, "consume", "deliveries", plan_consumers(run), _complete_deliveries),
    ]


def _recover(run: Run, job: str, table: str, tasks: Iterable[Task], complete: Complete[Task]) -> list[str]:
    """Recover a table that its job did not seal, if the job's clients left records.

    Return a list with the table's name, or an empty list if it was not recovered.
    """
    if not list_clients(run, job) or read_record(run, TableSeal, table) is not None:
        return []
    _end_clients(run, job)
    readers = {
        task: [RecordReader(run, task.client, epoch=epoch) for epoch in list_epochs(run, task.client)] for task in tasks
    }
    _replace_table(
        run, table, (reader.count(complete(run, task, reader)) for task, each in readers.items() for reader in each)
    )
    for task, each in readers.items():
        leave_read(run, task.client, each)
    seal_tables(run, table)
    remove_records(run, job)
    return [table]


def _complete_publishes(run: Run, task: ProducerTask, reader: RecordReader) -> Batches:
    # A process that left no end of its own may have sent every message that it reserved.
    has_ended = read_end(run, ProducerEnd, task.number, reader.epoch) is not None
    return complete_publishes(run, task, reader, reader.read_rest(), lambda: has_ended)


def _complete_deliveries(run: Run, task: ConsumerTask, reader: RecordReader) -> Batches:
    return complete_deliveries(reader.read_rest())


def _end_clients(run: Run, job: str) -> None:
    """Wait until the job's clients on this machine have ended, and kill those that hang. Their task is already gone."""
    directory = Path(run.directory).absolute()
    ours = [
        process
        for process in find_marked_processes(directory)
        if (mark := read_mark(process)) is not None and mark.name.startswith(f"client {job}-")
    ]
    _, hanging = psutil.wait_procs(ours, timeout=_CLIENTS_END_S)
    end_processes(hanging)


def _replace_table(run: Run, table: str, rows: Iterable[Batches]) -> None:
    """Replace a table's files by files with the given rows, divided by message."""
    directory = run.table(table)
    filesystem, root = fsspec.url_to_fs(directory)
    if filesystem.exists(root):
        filesystem.rm(root, recursive=True)
    try:
        with DividedWriter(directory, table, Division.for_run(run)) as writer:
            for batches in rows:
                for batch in batches:
                    writer.add(batch)
        commit_files(directory, writer.names)
    except OSError as error:
        raise describe_failure(directory, error) from error
