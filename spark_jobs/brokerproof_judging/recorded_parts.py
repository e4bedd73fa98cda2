"""The recorded tables of a run, part by part. Each task opens the files of its own part, so no row crosses a process.

The jobs write these tables in parts (brokerproof/run/division.py). If a run's tables are not divided, or not all in the
same way, tasks that each read some of the files divide them first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import fsspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from brokerproof.errors import RunError
from brokerproof.run.directory import Run
from brokerproof.run.division import DIVIDED_TABLES, IDENTITY, DividedWriter, Division, commit_files, list_part_files
from brokerproof.run.table_rows import count_rows
from brokerproof.run.tables import SCHEMAS, Batches
from pyspark.sql import SparkSession

from brokerproof_judging.table_io import Replacement

_ROWS_A_BATCH = 50_000
# A task divides about this many rows.
_ROWS_A_TASK = 2_000_000


@dataclass(frozen=True, kw_only=True)
class RecordedParts:
    """The files of divided tables: `directories` and names of `files`, by table.

    There may be fewer `parts` than parts of the division. Then part 1 of 3 has the files of the parts 1, 4, 7 and so
    on.
    """

    division: Division
    parts: int
    directories: Mapping[str, str]
    files: Mapping[str, Sequence[str]]

    def read(self, table: str, part: int, columns: Sequence[str]) -> pa.RecordBatchReader:
        """Return the part's rows of a table, with these columns and with times in µs since the Unix epoch.

        Raises RunError if a file holds a message of another part.
        """
        schema = pa.schema([(name, _use_microseconds(SCHEMAS[table].field(name).type)) for name in columns])
        return pa.RecordBatchReader.from_batches(schema, self._read_batches(table, part, schema))

    def join(self, parts: int) -> RecordedParts:
        """Return the same files as at most this many parts."""
        return replace(self, parts=min(parts, self.division.parts))

    def list_files(self, table: str, part: int) -> Sequence[str]:
        """Return the names of the files of a part."""
        divided = range(part, self.division.parts, self.parts)
        return [name for each in divided for name in list_part_files(self.files[table], each)]

    def list_parts_of(self, part: int, parts: int) -> Sequence[int]:
        """Return which of `parts` parts have messages of a part, if the same files were joined to this many."""
        return sorted({divided % parts for divided in range(part, self.division.parts, self.parts)})

    def compute_parts(self, batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """Return the part of each row of a batch with the columns `IDENTITY`."""
        parts = self.division.compute_parts(batch)
        return parts if self.parts == self.division.parts else parts % self.parts

    def count_rows(self, part: int) -> int:
        """Return the number of the part's rows in all tables."""
        count = 0
        for table in self.files:
            for name in self.list_files(table, part):
                filesystem, place = fsspec.url_to_fs(f"{self.directories[table]}/{name}")
                with filesystem.open(place, "rb") as opened:
                    count += pq.read_metadata(opened).num_rows
        return count

    def read_whole(self, table: str, part: int, columns: Sequence[str]) -> pa.Table:
        """Return the part's rows of a table like `read`, in the same order, but at once and with texts as dictionaries.

        The rows may be of messages of another part.
        """
        whole = [self._read_whole_file(table, name, columns) for name in self.list_files(table, part)]
        schema = pa.schema([(name, _use_dictionaries(SCHEMAS[table].field(name).type)) for name in columns])
        return pa.concat_tables([schema.empty_table(), *whole]).unify_dictionaries().combine_chunks()

    def _read_whole_file(self, table: str, name: str, columns: Sequence[str]) -> pa.Table:
        schema = pa.schema([(column, _use_dictionaries(SCHEMAS[table].field(column).type)) for column in columns])
        texts = [field.name for field in schema if pa.types.is_dictionary(field.type)]
        filesystem, place = fsspec.url_to_fs(f"{self.directories[table]}/{name}")
        with filesystem.open(place, "rb") as opened:
            file = pq.ParquetFile(opened, coerce_int96_timestamp_unit="us", read_dictionary=texts)
            held = file.schema_arrow.names
            found = file.read([column for column in columns if column in held], use_threads=False)
        return pa.table(
            [
                found.column(field.name).cast(SCHEMAS[table].field(field.name).type).cast(field.type)
                if field.name in held and found.schema.field(field.name).type != field.type
                else found.column(field.name)
                if field.name in held
                else pa.nulls(len(found), field.type)
                for field in schema
            ],
            schema=schema,
        )

    def _read_batches(self, table: str, part: int, schema: pa.Schema) -> Batches:
        names = list(dict.fromkeys([*IDENTITY, *schema.names]))
        for name in self.list_files(table, part):
            for batch in read_file(f"{self.directories[table]}/{name}", SCHEMAS[table], names):
                if (self.compute_parts(batch) != part).any():
                    raise RunError(f"The file {name} of the table {table} holds messages of another part.")
                columns = [
                    batch.column(field.name).cast(field.type)
                    if batch.schema.field(field.name).type != field.type
                    else batch.column(field.name)
                    for field in schema
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _use_microseconds(kind: pa.DataType) -> pa.DataType:
    return pa.int64() if pa.types.is_timestamp(kind) else kind


def _use_dictionaries(kind: pa.DataType) -> pa.DataType:
    return pa.dictionary(pa.int32(), kind) if pa.types.is_string(kind) else _use_microseconds(kind)


def read_file(path: str, schema: pa.Schema, names: Sequence[str], groups: Sequence[int] | None = None) -> Batches:
    """Yield columns of a Parquet file with the types of `schema`. A column that the file lacks is null.

    `groups` are the row groups to read, all by default.
    """
    filesystem, place = fsspec.url_to_fs(path)
    with filesystem.open(place, "rb") as opened:
        # Spark writes times as 96 bits, which would otherwise be nanoseconds and reach only from 1677 to 2262.
        file = pq.ParquetFile(opened, coerce_int96_timestamp_unit="us")
        held = set(file.schema_arrow.names)
        columns = [name for name in names if name in held]
        for batch in file.iter_batches(_ROWS_A_BATCH, row_groups=groups, columns=columns):
            yield pa.RecordBatch.from_arrays(
                [
                    batch.column(name).cast(schema.field(name).type)
                    if name in held
                    else pa.nulls(len(batch), schema.field(name).type)
                    for name in names
                ],
                schema=pa.schema([schema.field(name) for name in names]),
            )


def divide_records(spark: SparkSession, run: Run, replacement: Replacement) -> RecordedParts:
    """Return the parts of the run's recorded tables. If they are not divided alike, they are divided into new files.

    The new files are intermediate tables of `replacement`, which removes them.
    """
    files = {table: run.list_files(table) for table in DIVIDED_TABLES}
    names = [name for each in files.values() for name in each]
    if (division := Division.from_names(names)) is not None:
        return RecordedParts(
            division=division,
            parts=division.parts,
            directories={table: run.table(table) for table in DIVIDED_TABLES},
            files=files,
        )
    division = Division.for_messages(max(count_rows(run, table) for table in DIVIDED_TABLES))
    directories = {table: replacement.locate_beside(f"divided_{table}") for table in DIVIDED_TABLES}
    tasks = [
        (table, f"{run.table(table)}/{name}", groups)
        for table in DIVIDED_TABLES
        for name in files[table]
        for groups in _plan_groups(f"{run.table(table)}/{name}")
    ]

    def divide(numbers: Iterable[int]) -> Iterator[tuple[str, str]]:
        for number in numbers:
            table, path, groups = tasks[number]
            with DividedWriter(directories[table], table, division) as writer:
                for batch in read_file(path, SCHEMAS[table], SCHEMAS[table].names, groups):
                    writer.add(batch)
            yield from ((table, name) for name in writer.names)

    context, count = spark.sparkContext, len(tasks)
    written = context.parallelize(range(count), count).mapPartitions(divide).collect() if tasks else []
    divided = {table: [name for its, name in written if its == table] for table in DIVIDED_TABLES}
    for table, committed in divided.items():
        commit_files(directories[table], committed)
    return RecordedParts(division=division, parts=division.parts, directories=directories, files=divided)


def _plan_groups(path: str) -> Iterator[list[int]]:
    """Yield the row groups of a file in lists of about `_ROWS_A_TASK` rows."""
    filesystem, place = fsspec.url_to_fs(path)
    with filesystem.open(place, "rb") as opened:
        footer = pq.read_metadata(opened)
    groups: list[int] = []
    rows = 0
    for group in range(footer.num_row_groups):
        groups.append(group)
        rows += footer.row_group(group).num_rows
        if rows >= _ROWS_A_TASK:
            yield groups
            groups, rows = [], 0
    if groups:
        yield groups
