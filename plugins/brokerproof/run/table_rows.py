"""The rows of a run's small tables, without Spark: faults, samples, places of copies, measurements."""

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
    """The rows of a table that has few; no row where there is no table.

    Times come as microseconds since the epoch. A part of the table at a time is in memory.
    """
    content = _open_table(run, table)
    if content is None:
        return
    for batch in content.to_batches(columns=None if columns is None else list(columns)):
        fields = [field.with_type(pa.int64()) if pa.types.is_timestamp(field.type) else field for field in batch.schema]
        yield from batch.cast(pa.schema(fields)).to_pylist()


def count_rows(run: Run, table: str) -> int:
    """The number of rows of a table, from Parquet's footers. No row is read."""
    content = _open_table(run, table)
    return 0 if content is None else int(content.count_rows())


def read_first_rows(run: Run, table: str, count: int) -> list[dict[str, Any]]:
    """Some rows of a table, as many as `count`, whatever its size; none where there is no table."""
    content = _open_table(run, table)
    rows: list[dict[str, Any]] = [] if content is None else content.head(count, batch_size=count).to_pylist()
    return rows


def _open_table(run: Run, table: str) -> Dataset | None:
    # It brings pandas along, for half a second, which whoever parses DAGs does not need.
    from pyarrow.dataset import dataset

    filesystem, directory = fsspec.url_to_fs(run.table(table))
    if not filesystem.exists(directory):
        return None
    return dataset(directory, schema=SCHEMAS[table], filesystem=filesystem, format="parquet")
