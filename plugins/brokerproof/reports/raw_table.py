"""The page of a table of a run as it was recorded: its first rows, and its files for download."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import fsspec
import pyarrow as pa

from brokerproof import clock
from brokerproof.errors import InputError
from brokerproof.experiment.yaml_models import suggest_name
from brokerproof.reports.pages import Page, render
from brokerproof.run.directory import Run
from brokerproof.run.table_rows import iterate_rows
from brokerproof.run.tables import SCHEMAS

_ROWS = 50
_BLOCK = 1 << 20


@dataclass(frozen=True, kw_only=True)
class RawTable:
    """A table of a run. `files` are (name, size in bytes). `rows` are the first `_ROWS` rows, as {column: value}."""

    run_id: str
    name: str
    location: str
    files: tuple[tuple[str, int], ...]
    rows: tuple[dict[str, Any], ...]


def read_raw_table(run: Run, table: str) -> RawTable:
    """Return a table of a run. Raises InputError for an unknown table, and RunError for a damaged one."""
    files = tuple(_list_parts(run, table))
    times = [field.name for field in SCHEMAS[table] if pa.types.is_timestamp(field.type)]
    rows = [
        row | {name: clock.to_utc(row[name]) for name in times if row[name] is not None}
        for row in islice(iterate_rows(run, table), _ROWS)
    ]
    return RawTable(run_id=run.run_id, name=table, location=run.table(table), files=files, rows=tuple(rows))


def open_table_file(run: Run, table: str, name: str) -> Iterator[bytes]:
    """Return one file of a table, as an iterator of blocks. Raises InputError if the table has no such file."""
    names = [found for found, _ in _list_parts(run, table)]
    if name not in names:
        raise InputError(
            f"the table {table} has no file `{name}`", file=run.directory, remedy=suggest_name(name, names)
        )
    return _read_blocks(f"{run.table(table)}/{name}")


def render_table(table: RawTable, page: Page) -> str:
    return render("table.html.j2", page, {"table": table, "columns": SCHEMAS[table.name].names, "most": _ROWS})


def _list_parts(run: Run, table: str) -> Iterator[tuple[str, int]]:
    if table not in SCHEMAS:
        raise InputError(f"no run has a table `{table}`", field="table", remedy=suggest_name(table, SCHEMAS))
    filesystem, directory = fsspec.url_to_fs(run.table(table))
    for name in run.list_files(table):
        yield name, int(filesystem.size(f"{directory}/{name}") or 0)


def _read_blocks(location: str) -> Iterator[bytes]:
    with fsspec.open(location, "rb") as file:
        while block := file.read(_BLOCK):
            yield block
