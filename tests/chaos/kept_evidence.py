"""The records of clients, kept by the tests while a run writes them, to compare with what the run makes of them.

A client's record is a row of files that are never changed. A second name of each file keeps its content, whoever
removes the first.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from brokerproof.run.directory import Run
from brokerproof.run.table_rows import iterate_rows

# By table, the job whose clients record its rows, and what tells one row from the others.
TABLES = {
    "publishes": ("load", ("producer", "epoch", "seq", "outcome")),
    "deliveries": ("consume", ("subscription", "consumer", "incarnation", "arrival", "producer", "seq")),
}
Row = tuple[Any, ...]


@dataclass
class EvidenceKeeper:
    """Keeps the records of all runs below a directory, in a thread of its own, until it is closed."""

    runs: Path
    kept: Path

    def __post_init__(self) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="evidence-keeper")
        self._thread.start()

    def close(self) -> None:
        """Keep nothing more."""
        self._over.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._over.wait(0.3):
            self._link_new()
        self._link_new()

    def _link_new(self) -> None:
        for file in self.runs.glob("*/clients/*/*.arrow"):
            if file.name.startswith("."):
                continue
            name = self.kept / file.relative_to(self.runs)
            if not name.exists():
                name.parent.mkdir(parents=True, exist_ok=True)
                # The run may remove the file in this moment, after its rows are in their table.
                with suppress(FileNotFoundError):
                    os.link(file, name)


def read_kept(kept: Path, table: str) -> set[Row]:
    """The rows that clients of one run recorded for a table."""
    job, columns = TABLES[table]
    rows: set[Row] = set()
    for file in sorted(kept.glob(f"clients/{job}-*/*.arrow")):
        batch = pa.ipc.open_file(pa.BufferReader(file.read_bytes())).get_batch(0)
        rows |= set(zip(*(batch.column(column).to_pylist() for column in columns), strict=True))
    return rows


def read_table(directory: Path, table: str, columns: tuple[str, ...]) -> Iterator[Row]:
    """The rows of a table of a run, as tuples of these columns."""
    return (tuple(row[column] for column in columns) for row in iterate_rows(Run(str(directory)), table, columns))


def find_lost_rows(directory: Path, kept: Path) -> Iterator[str]:
    """A sentence for each table that lacks rows that clients had recorded."""
    for table, (_, columns) in TABLES.items():
        recorded = read_kept(kept, table)
        missing = recorded - set(read_table(directory, table, columns))
        if missing:
            yield f"{len(missing)} of {len(recorded)} recorded rows are not in {table}, such as {min(missing, key=str)}"


def count_kept(kept: Path) -> Mapping[str, int]:
    """How many rows of each table the clients recorded."""
    return {table: len(read_kept(kept, table)) for table in TABLES}
