"""The rows of a run's table, read without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from brokerproof.run.directory import Run


def read_rows(run: Run, table: str, columns: Sequence[str]) -> list[Mapping[str, Any]]:
    """The rows of a table, each by column; none where there is no table."""
    rows: list[Mapping[str, Any]] = []
    for file in sorted(Path(run.table(table)).rglob("*.parquet")):
        if not file.name.startswith((".", "_")):
            with suppress(FileNotFoundError):
                rows += pq.ParquetFile(file).read(columns=list(columns)).to_pylist()
    return rows
