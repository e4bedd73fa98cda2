"""Seals of a run's tables. A seal lists the files of a table with their sizes, numbers of rows and checksums.

The process that writes a table also seals it. Before judging, the tables are compared with their seals. If a file is
missing, added or changed, the verdict is `unknown`, and a sentence names the file. The checksums find accidental
changes. They are no signature.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from os import SEEK_END
from typing import IO

import xxhash

from brokerproof import clock
from brokerproof.bounded_reading import ContentError, open_regular, read_footer
from brokerproof.errors import RunError
from brokerproof.run.directory import Run
from brokerproof.run.records import (
    ClustersConfigured,
    FaultsUndone,
    LoadEnd,
    LogsRead,
    ObservationsWritten,
    Record,
    SealedFile,
    SubscriptionDrains,
    TableSeal,
    TimelineProcess,
    read_record,
    write_record,
)

# By table: the step or process that writes and seals it, and the record that it leaves at its end.
WRITERS: Mapping[str, tuple[str, type[Record]]] = {
    "publishes": ("load", LoadEnd),
    "deliveries": ("consume", SubscriptionDrains),
    "outputs": ("consume", SubscriptionDrains),
    "stored": ("read_back", LogsRead),
    "faults": ("break_it", FaultsUndone),
    "copies": ("break_it", FaultsUndone),
    "observations": ("the monitor", ObservationsWritten),
}
# By table: the record that proves that the table's writer has begun, even if it was killed before its first row. The
# other tables need none: if the record of their writer's end is missing, the verdict is `unknown` and names it.
_BEGUN: Mapping[str, type[Record]] = {
    "faults": TimelineProcess,
    "copies": TimelineProcess,
    "observations": ClustersConfigured,
}
_BLOCK = 1 << 20
_READERS = 4


def seal_tables(run: Run, *tables: str) -> None:
    """Write the seal of each given table, which must be complete. It replaces an earlier seal.

    Raises RunError if a file of a table cannot be read, MachineError if a seal cannot be written.
    """
    for table in tables:
        write_record(run, TableSeal(table=table, files=tuple(_read_files(run, table)), at=clock.now_us()))


@dataclass(frozen=True, kw_only=True)
class SealCheck:
    """The tables that differ from their seals or have none (`broken`), and a sentence for each problem.

    A table whose writer never began is in `broken`, but has no sentence in `problems`.
    """

    broken: frozenset[str]
    problems: tuple[str, ...]


def check_seals(run: Run, tables: Iterable[str] = tuple(WRITERS), *, checksums: bool = True) -> SealCheck:
    """Compare tables of a run with their seals.

    For a run of an older version, which wrote no seals, no table counts as broken. Without `checksums`, only names,
    sizes and numbers of rows are compared, which reads only the footer of each file.
    """
    broken: set[str] = set()
    problems: list[str] = []
    for table in tables if run.facts.sealed else ():
        if not _has_writer(run, table):
            continue
        try:
            seal = read_record(run, TableSeal, table)
            found = list(_check_table(run, seal, checksums) if seal else _describe_missing_seal(run, table))
        except RunError as error:
            seal, found = None, [f"The table {table} cannot be compared with its seal: {error}."]
        problems += found
        if found or seal is None:
            broken.add(table)
    return SealCheck(broken=frozenset(broken), problems=tuple(problems))


def _has_writer(run: Run, table: str) -> bool:
    """Return whether the scenario has clients that write the table. All tables but those of consumers have a writer."""
    subscriptions = run.scenario.workload.subscriptions
    if table == "outputs":
        return run.scenario.workload.writes_outputs
    return table != "deliveries" or bool(subscriptions)


def _describe_missing_seal(run: Run, table: str) -> Iterator[str]:
    writer, record = WRITERS[table]
    if run.list_files(table):
        yield f"The table {table} has no seal, because {writer} did not get to its end."
    elif read_record(run, record) is not None:
        yield f"The table {table} is missing, and so is its seal, although {writer} has ended."
    elif (begun := _BEGUN.get(table)) is not None and read_record(run, begun) is not None:
        yield f"The table {table} is missing, because {writer} ended before it wrote anything."


def _check_table(run: Run, seal: TableSeal, checksums: bool) -> Iterator[str]:
    table, found = seal.table, {file.name: file for file in _read_files(run, seal.table, checksums)}
    for file in seal.files:
        if file.name not in found:
            yield f"A file of the table {table} is missing: {file.name} with {file.rows:,} rows."
        elif difference := _describe_difference(file, found[file.name]):
            yield f"A file of the table {table} is not the one that was sealed: {file.name} {difference}."
    for name in sorted(found.keys() - {file.name for file in seal.files}):
        yield f"A file was added to the table {table} after it was sealed: {name} with {found[name].rows:,} rows."


def _describe_difference(sealed: SealedFile, found: SealedFile) -> str:
    if found.size != sealed.size:
        return f"has {found.size:,} bytes instead of {sealed.size:,}"
    if found.checksum and found.checksum != sealed.checksum:
        return "has another content"
    return "" if found.rows == sealed.rows else f"has {found.rows:,} rows instead of {sealed.rows:,}"


def _read_files(run: Run, table: str, checksums: bool = True) -> list[SealedFile]:
    """Return all files of a table as they are now, sorted by name. Raises RunError if a file cannot be read."""
    with ThreadPoolExecutor(max_workers=_READERS) as pool:
        return list(pool.map(lambda name: _read_file(run.table(table), name, checksums), run.list_files(table)))


def _read_file(directory: str, name: str, checksum: bool) -> SealedFile:
    """Return a file of a table as it is now. The checksum is empty if `checksum` is false.

    Raises RunError if the file cannot be read.
    """
    try:
        with open_regular(f"{directory}/{name}") as file:
            digest = _digest(file) if checksum else ""
            size = file.seek(0, SEEK_END)
            rows = _count_rows(file)
    except FileNotFoundError:
        raise RunError(f"{directory}/{name} cannot be read: it is gone") from None
    except ContentError as error:
        raise RunError(f"{directory}/{name} {error}") from None
    return SealedFile(name=name, rows=rows, size=size, checksum=digest)


def _digest(file: IO[bytes]) -> str:
    digest = xxhash.xxh3_128()
    for block in _read_blocks(file):
        digest.update(block)
    return digest.hexdigest()


def _read_blocks(file: IO[bytes]) -> Iterable[bytes]:
    return iter(lambda: file.read(_BLOCK), b"")


def _count_rows(file: IO[bytes]) -> int:
    """Return the number of rows that a Parquet file's footer states; 0 if the footer cannot be read or is refused."""
    try:
        return int(read_footer(file).num_rows)
    except ContentError:
        return 0
