"""Reads the rows of a run's small tables without Spark: faults, samples, places of copies, measurements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import fsspec
import pyarrow as pa

from brokerproof.run.directory import Run
from brokerproof.run.tables import SCHEMAS

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset


def iterate_rows(run: Run, table: str, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """Yield the rows of a small table; none if the table does not exist.

    Times are microseconds since the epoch. Only one batch of rows is in memory at a time.
    """
    content = _open_table(run, table)
    if content is None:
        return
    for batch in content.to_batches(columns=None if columns is None else list(columns)):
        fields = [field.with_type(pa.int64()) if pa.types.is_timestamp(field.type) else field for field in batch.schema]
        yield from batch.cast(pa.schema(fields)).to_pylist()


def count_rows(run: Run, table: str) -> int:
    """Return the number of rows of a table. Only the footers of its files are read."""
    content = _open_table(run, table)
    return 0 if content is None else int(content.count_rows())


def read_first_rows(run: Run, table: str, count: int) -> list[dict[str, Any]]:
    """Return the first rows of a table of any size, at most `count`; none if the table does not exist."""
    content = _open_table(run, table)
    rows: list[dict[str, Any]] = [] if content is None else content.head(count, batch_size=count).to_pylist()
    return rows


def _open_table(run: Run, table: str) -> Dataset | None:
    # Imported here, because it also imports pandas, which takes half a second. Parsing of DAG files does not need it.
    from pyarrow.dataset import dataset

    filesystem, directory = fsspec.url_to_fs(run.table(table))
    if not filesystem.exists(directory):
        return None
    return dataset(directory, schema=SCHEMAS[table], filesystem=filesystem, format="parquet")
