"""Reads the rows of one message from a run's tables, and the producers and seqs that a run has.

Only row groups that may hold the message by their statistics are read, and of these first the two columns that name it.
Rows are decoded batch by batch, so that memory does not grow with the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from brokerproof.errors import RunError
from brokerproof.run.directory import Run
from brokerproof.run.tables import SCHEMAS

# A limit, because a message that is delivered again and again may have any number of rows.
_MOST_ROWS = 10_000
_BATCH_ROWS = 65_536
_READ_AHEAD: dict[str, Any] = {"batch_size": _BATCH_ROWS, "batch_readahead": 2, "fragment_readahead": 1}
_NAMED_BY = ("producer", "seq")
_LARGEST_SEQ = 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class FoundRows:
    """Rows of a table, with times in microseconds, and a sentence for each file that could not be read."""

    rows: tuple[dict[str, Any], ...]
    problems: tuple[str, ...] = ()


def read_message_rows(
    run: Run,
    table: str,
    producer: str,
    seq: int,
    *,
    columns: Sequence[str] | None = None,
    most_rows: int = _MOST_ROWS,
) -> FoundRows:
    """Return at most `most_rows` rows of a message in a table. A file that cannot be read becomes a problem.

    The rows have the given columns, or else all except those that name the run and the message.
    """
    if not 0 <= seq <= _LARGEST_SEQ:
        return FoundRows(rows=())
    wanted = columns or [name for name in SCHEMAS[table].names if name not in ("run_id", *_NAMED_BY)]

    def read(file: ds.ParquetFileFragment) -> Iterator[dict[str, Any]]:
        return _read_message(file, table, producer, seq, wanted)

    return _read_rows(run, table, read, most_rows)


def read_all_rows(run: Run, table: str, *, most_rows: int = _MOST_ROWS) -> FoundRows:
    """Return all rows of a small table, at most `most_rows`. A file that cannot be read becomes a problem."""

    def read(file: ds.ParquetFileFragment) -> Iterator[dict[str, Any]]:
        return _read_file(file, table)

    return _read_rows(run, table, read, most_rows)


def count_rows(run: Run, table: str) -> int:
    """Return the number of rows of a table, from its files' footers. Raises RunError if one cannot be read."""
    with _readable(run, table):
        content = _open_table(run, table)
        return 0 if content is None else int(content.count_rows())


def list_publishers(run: Run) -> set[str]:
    """Return the producers of `publishes`. Row groups of a single producer are not opened.

    Raises RunError if the table cannot be read.
    """
    names: set[str] = set()
    with _readable(run, "publishes"):
        for group in _list_row_groups(run, "publishes"):
            statistics = group.row_groups[0].statistics.get("producer", {})
            if statistics and statistics["min"] == statistics["max"]:
                names.add(statistics["min"])
                continue
            for batch in group.scanner(schema=SCHEMAS["publishes"], columns=["producer"], **_READ_AHEAD).to_batches():
                names.update(pc.unique(batch["producer"]).drop_null().to_pylist())
    return names


def find_seqs(run: Run, table: str, producer: str) -> tuple[int, int] | None:
    """Return the lowest and the highest seq of a producer in a table, None if it has no row.

    Raises RunError if the table cannot be read.
    """
    ends: list[int] = []
    condition = ds.field("producer") == producer
    with _readable(run, table):
        for group in _list_row_groups(run, table, condition):
            scanner = group.scanner(schema=SCHEMAS[table], columns=["seq"], filter=condition, **_READ_AHEAD)
            for batch in scanner.to_batches():
                found = pc.min_max(batch["seq"]).as_py()
                ends = [seq for seq in (*ends, found["min"], found["max"]) if seq is not None]
                ends = [min(ends), max(ends)] if ends else []
    return (ends[0], ends[-1]) if ends else None


def _read_rows(
    run: Run, table: str, read: Callable[[ds.ParquetFileFragment], Iterator[dict[str, Any]]], most_rows: int
) -> FoundRows:
    rows: list[dict[str, Any]] = []
    problems: list[str] = []
    try:
        content = _open_table(run, table)
    except OSError as error:
        return FoundRows(rows=(), problems=(f"The table {table} cannot be read: {_describe(error)}.",))
    for file in () if content is None else content.get_fragments():
        try:
            for row in read(file):
                if len(rows) == most_rows:
                    problems.append(f"Only {most_rows:,} rows of the table {table} are read, and there are more.")
                    return FoundRows(rows=tuple(rows), problems=tuple(problems))
                rows.append(row)
        except (OSError, pa.ArrowException, RunError) as error:
            name = file.path.rsplit("/", 1)[-1]
            problems.append(f"The file {name} of the table {table} cannot be read: {_describe(error)}.")
    return FoundRows(rows=tuple(rows), problems=tuple(problems))


def _read_file(file: ds.ParquetFileFragment, table: str) -> Iterator[dict[str, Any]]:
    with file.open() as source:
        for batch in pq.ParquetFile(source, metadata=file.metadata).iter_batches(_BATCH_ROWS):
            yield from _to_rows(batch, table, SCHEMAS[table].names)


def _read_message(
    file: ds.ParquetFileFragment, table: str, producer: str, seq: int, columns: Sequence[str]
) -> Iterator[dict[str, Any]]:
    # A missing column would be read as null, and no row would match the message.
    if lacking := [name for name in _NAMED_BY if name not in file.physical_schema.names]:
        raise RunError(f"it has no column {lacking[0]}")
    condition = (ds.field("producer") == producer) & (ds.field("seq") == seq)
    groups = [part.row_groups[0].id for part in file.split_by_row_group(filter=condition, schema=SCHEMAS[table])]
    with file.open() as source:
        content = pq.ParquetFile(source, metadata=file.metadata)
        for group in groups:
            found = [
                first + index
                for first, batch in _read_batches(content, group, _NAMED_BY)
                for index in _find_rows(batch, producer, seq)
            ]
            # Most row groups do not hold the message, and the columns that name it are a small part of their size.
            for first, batch in _read_batches(content, group, columns) if found else ():
                here = [index - first for index in found if first <= index < first + batch.num_rows]
                yield from _to_rows(batch.take(here), table, columns) if here else ()
                if first + batch.num_rows > found[-1]:
                    break


def _read_batches(content: pq.ParquetFile, group: int, columns: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the batches of a row group, each with the number of its first row. A data set would decode all at once."""
    first = 0
    for batch in content.iter_batches(_BATCH_ROWS, row_groups=[group], columns=list(columns)):
        yield first, batch
        first += batch.num_rows


def _find_rows(batch: pa.RecordBatch, producer: str, seq: int) -> list[int]:
    is_message = pc.and_(pc.equal(batch["seq"], seq), pc.equal(batch["producer"], producer))
    found: list[int] = pc.indices_nonzero(is_message).to_pylist()
    return found


def _to_rows(batch: pa.RecordBatch, table: str, columns: Sequence[str]) -> list[dict[str, Any]]:
    """Return rows with these columns and times in microseconds. A column that the file lacks is null."""
    values = []
    for name in columns:
        kind = SCHEMAS[table].field(name).type
        column = (batch[name] if name in batch.schema.names else pa.nulls(batch.num_rows)).cast(kind)
        values.append((column.cast(pa.int64()) if pa.types.is_timestamp(kind) else column).to_pylist())
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]


def _list_row_groups(run: Run, table: str, condition: ds.Expression | None = None) -> Iterator[ds.Fragment]:
    content = _open_table(run, table)
    for file in () if content is None else content.get_fragments():
        yield from file.split_by_row_group(filter=condition, schema=SCHEMAS[table])


def _open_table(run: Run, table: str) -> ds.Dataset | None:
    filesystem, root = fsspec.url_to_fs(run.table(table))
    if not filesystem.exists(root):
        return None
    return ds.dataset(root, schema=SCHEMAS[table], filesystem=filesystem, format="parquet")


@contextmanager
def _readable(run: Run, table: str) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise RunError(f"the table {table} of {run.directory} cannot be read: {_describe(error)}") from None


def _describe(error: Exception) -> str:
    # Arrow's messages have several lines and repeat the name of the file.
    return str(error).partition("\n")[0].rstrip(".")
