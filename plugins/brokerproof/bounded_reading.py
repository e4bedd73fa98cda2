"""Reads files that somebody else may have written: users' files, and the files of a run's directory.

Such a file may be a bomb: a few bytes that take gigabytes or minutes to read. So every file has limits of size, depth
and number of values, which are checked before the content is built. Each limit is a constant of this module. A file
that exceeds one, that is damaged, or that is no regular file raises `ContentError`; callers add the file's name.
"""

from __future__ import annotations

import json
import os
import stat
import struct
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import fsspec
import yaml
from fsspec.implementations.local import LocalFileSystem

from brokerproof.errors import BrokerproofError, shorten

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.parquet import FileMetaData

# A user's file. The largest shipped one has 2.4 kB and about 150 values. A topology of 500 nodes, written out, has
# 35 kB and 4,500 values. 50,000 values take about one second to read.
MOST_YAML_BYTES = 1 << 20
MOST_YAML_VALUES = 50_000
# Each alias repeats the value of its anchor. Files that users write have a few, and one for each node at most.
MOST_ALIASES = 2_000
# A record of a run, or a suite. The largest record of a run of six minutes has 35 kB, and a run that lasts a day has
# seals of 9,000 files (1.5 MB). 500,000 values take less than 200 MB.
MOST_JSON_BYTES = 16 << 20
MOST_JSON_VALUES = 500_000
# Lists and mappings inside each other, in YAML and JSON. Files of Brokerproof have less than ten levels.
DEEPEST = 100
# Python refuses to convert more digits into a decimal number. In YAML, `1:1:…` is a number too, of any length.
LONGEST_NUMBER = 4_300
# A file of a client's record has what the client did within half a second: 4 MB for 50,000 messages.
MOST_SEGMENT_BYTES = 64 << 20
# A Parquet file's footer describes its row groups. Spark makes row groups of 128 MiB, with about 2 kB of footer each.
# DuckDB takes 20 µs and 5 kB for each column of a row group.
MOST_FOOTER_BYTES = 8 << 20
MOST_ROW_GROUPS = 1_000
MOST_COLUMNS = 100
# The bytes of a row group before compression. Spark's row groups have 128 MiB.
MOST_ROW_GROUP_BYTES = 512 << 20
# A file may state this many rows, and one row more for each of its bytes. So a file of a few bytes states few rows,
# and a run may have any number of rows. A row takes at least 8 bytes, because no two messages have the same hash.
MOST_ROWS_OF_ANY_FILE = 100_000
# A text or list in a table. The longest ones are errors, and answers of a cluster of hundreds of nodes.
LONGEST_CELL_BYTES = 64 << 10

# After a mistake, the loader in Python reads the text again, because it names the right line. It takes 15 µs a byte.
_MOST_BYTES_READ_AGAIN = 50_000
# libyaml reads ten times faster than Python.
_LOADER = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader

# The first and the last bytes of an Arrow file.
_ARROW = b"ARROW1"

_TOO_DEEP = "lists and mappings are nested too deep"
_MEND_SYNTAX = "mend the syntax"


class ContentError(BrokerproofError, ValueError):
    """A file cannot be read, or its content is damaged or exceeds a limit. `line` is 0 if it is not known."""

    def __init__(self, problem: str, *, line: int = 0, remedy: str = "mend the file") -> None:
        super().__init__(problem)
        self.problem, self.line, self.remedy = problem, line, remedy

    @property
    def field(self) -> str:
        return f"line {self.line}" if self.line else ""


# Files


@contextmanager
def open_regular(location: str | Path) -> Iterator[IO[bytes]]:
    """Open a file for reading. `location` is a local path, or any path or URL that fsspec knows.

    Raises FileNotFoundError if there is no such file. Raises ContentError if it cannot be opened or read, or if it is
    no regular file: a process that opens a named pipe waits until another process writes to it.
    """
    try:
        if isinstance(location, Path):
            filesystem, path = None, str(location)
        else:
            filesystem, path = fsspec.url_to_fs(location)
        if filesystem is None or isinstance(filesystem, LocalFileSystem):
            check_regular(Path(path))
            with Path(path).open("rb") as file:
                yield file
        else:
            with filesystem.open(path, "rb") as file:
                yield file
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ContentError(f"cannot be read: {error.strerror or error}") from None


def check_regular(path: Path) -> None:
    """Raises ContentError if `path` is neither a regular file nor a link to one.

    Raises OSError if nothing is there.
    """
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode):
        kinds = ((stat.S_ISDIR, "a directory"), (stat.S_ISFIFO, "a named pipe"), (stat.S_ISSOCK, "a socket"))
        kind = next((name for has_kind, name in kinds if has_kind(mode)), "a device")
        raise ContentError(f"is {kind} and no regular file", remedy="put a file in its place")


def read_bytes(location: str | Path, most: int) -> bytes:
    """Return the content of a file. Raises FileNotFoundError, or ContentError if it has more than `most` bytes."""
    with open_regular(location) as file:
        size = file.seek(0, os.SEEK_END)
        if size > most:
            raise ContentError(f"has more than {most:,} bytes", remedy="divide it, or leave out what is not needed")
        file.seek(0)
        return file.read(size)


def read_text(location: str | Path, most: int) -> str:
    """Return the content of a UTF-8 file. Raises the errors of `read_bytes`, and ContentError if it is not UTF-8."""
    try:
        return read_bytes(location, most).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ContentError(f"cannot be read: {error}") from None


# YAML


def load_yaml(text: str) -> Any:
    """Return the content of a YAML text. Raises ContentError if it is not valid, or exceeds a limit."""
    try:
        _check_events(text)
        return yaml.load(text, Loader=_LOADER)
    except yaml.YAMLError as error:
        raise _describe_mistake(text, error) from None
    except ContentError:
        raise
    except RecursionError:
        raise ContentError(_TOO_DEEP, remedy=_MEND_SYNTAX) from None
    except (ValueError, ArithmeticError, LookupError, AttributeError, TypeError) as error:
        # A date that does not exist, or a tag such as `!!int` before something else. PyYAML does not expect them.
        raise ContentError(f"cannot be read: {shorten(str(error), 200)}") from None


def _check_events(text: str) -> None:
    """Raises ContentError if the text, with the values that its aliases repeat, exceeds a limit."""
    # By anchor: the number of values that an alias repeats, and their depth.
    repeated: dict[str, tuple[int, int]] = {}
    # For each open list or mapping: its anchor, the number of values before it, and its depth so far.
    opened: list[tuple[str | None, int]] = []
    depths = [0]
    values = aliases = 0
    for event in yaml.parse(text, Loader=_LOADER):
        line, depth = _find_line(event), 0
        if isinstance(event, yaml.AliasEvent):
            aliases += 1
            if any(anchor == event.anchor for anchor, _ in opened):
                raise ContentError(f"`*{event.anchor}` repeats a value that contains it", line=line)
            # The loader refuses an alias without an anchor.
            size, depth = repeated.get(str(event.anchor), (0, 0))
            values += size
        elif isinstance(event, yaml.CollectionStartEvent):
            opened.append((event.anchor, values))
            depths.append(0)
            values += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = opened.pop()
            depth = depths.pop() + 1
            if anchor is not None:
                repeated[anchor] = values - before, depth
        elif isinstance(event, yaml.ScalarEvent):
            values += 1
            _check_number(event)
            if event.anchor is not None:
                repeated[event.anchor] = 1, 0
        depths[-1] = max(depths[-1], depth)
        if len(opened) + depth > DEEPEST:
            raise ContentError(_TOO_DEEP, line=line, remedy=f"use at most {DEEPEST} levels")
        if aliases > MOST_ALIASES:
            remedy = "write the values out, or use `extends`"
            raise ContentError(f"has more than {MOST_ALIASES:,} aliases", line=line, remedy=remedy)
        if values > MOST_YAML_VALUES:
            with_aliases = ", with those that its aliases repeat" if aliases else ""
            remedy = "use fewer aliases" if aliases else "divide it, or leave out what is not needed"
            raise ContentError(f"has more than {MOST_YAML_VALUES:,} values{with_aliases}", line=line, remedy=remedy)


def _find_line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 0


def _check_number(event: yaml.ScalarEvent) -> None:
    """Raises ContentError for a number with too many digits."""
    text = event.value
    if len(text) <= LONGEST_NUMBER:
        return
    kinds = [event.tag] if event.tag else []
    if not kinds and event.implicit[0]:
        resolvers = yaml.SafeLoader.yaml_implicit_resolvers.get(text[0], [])
        kinds = [tag for tag, pattern in resolvers if pattern.match(text)]
    if any(kind.endswith((":int", ":float")) for kind in kinds):
        problem = f"a number has {len(text):,} characters"
        raise ContentError(problem, line=_find_line(event), remedy="put it in quotes, or shorten it")


def _describe_mistake(text: str, error: yaml.YAMLError) -> ContentError:
    """Return the error for a text that is no YAML. The loader in Python names the line if the text is short."""
    if len(text) <= _MOST_BYTES_READ_AGAIN:
        try:
            for _ in yaml.compose_all(text, Loader=yaml.SafeLoader):
                pass
        except yaml.YAMLError as again:
            error = again
        except (ValueError, RecursionError):
            pass
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "cannot be read"
    return ContentError(f"not valid YAML: {problem}", line=mark.line + 1 if mark else 0, remedy=_MEND_SYNTAX)


# JSON


def load_json(text: str) -> Any:
    """Return the content of a JSON text. Raises ContentError if it is not valid, or exceeds a limit.

    An object that has a name twice is refused, because a reader would see only one of the two values. NaN and infinite
    numbers are read, and models refuse them with the name of the field.
    """
    # Each value follows one of these characters. Those in texts are counted too, which is faster than to tell them.
    if sum(map(text.count, ",[{")) > MOST_JSON_VALUES:
        remedy = "divide it, or leave out what is not needed"
        raise ContentError(f"has more than {MOST_JSON_VALUES:,} values", remedy=remedy)
    try:
        content = json.loads(text, object_pairs_hook=_make_object)
    except json.JSONDecodeError as error:
        raise ContentError(f"not valid JSON: {error}", remedy=_MEND_SYNTAX) from None
    except RecursionError:
        raise ContentError(_TOO_DEEP, remedy=_MEND_SYNTAX) from None
    except ContentError:
        raise
    except ValueError as error:
        # A number has more than 4,300 digits.
        raise ContentError(f"cannot be read: {error}") from None
    if _is_deeper(content):
        raise ContentError(_TOO_DEEP, remedy=f"use at most {DEEPEST} levels")
    if "\\ud" in text or "\\uD" in text:
        _check_characters(content)
    return content


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise ContentError(f"an object has `{shorten(twice)}` twice", remedy="keep one")
    return found


def _is_deeper(content: Any) -> bool:
    """Whether lists and objects are nested deeper than `DEEPEST`."""
    level = [content]
    for _ in range(DEEPEST + 1):
        level = [
            item
            for each in level
            if isinstance(each, dict | list)
            for item in (each.values() if isinstance(each, dict) else each)
            if isinstance(item, dict | list)
        ]
        if not level:
            return False
    return True


def _check_characters(content: Any) -> None:
    """Raises ContentError if a text has half of a character, which cannot be written or printed."""
    try:
        json.dumps(content, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise ContentError("a text has half of a character, such as `\\ud800`") from None


# Parquet


def read_footer(file: IO[bytes]) -> FileMetaData:
    """Return what the footer of a Parquet file states. Only the footer is read.

    Raises ContentError if the file is no Parquet file, or if its rows, columns or row groups exceed a limit.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - 8, 0))
    end = file.read(8)
    length = int.from_bytes(end[:4], "little")
    if size < 12 or end[4:] != b"PAR1" or length > size - 12:
        raise ContentError("is no Parquet file, or its end is missing")
    if length > MOST_FOOTER_BYTES:
        raise ContentError(f"has a footer of {length:,} bytes, and at most {MOST_FOOTER_BYTES:,} are read")
    file.seek(0)
    try:
        footer = pq.read_metadata(file)
        _check_footer(footer, size)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ContentError(f"its footer cannot be read: {shorten(str(error), 200)}") from None
    return footer


def _check_footer(footer: FileMetaData, size: int) -> None:
    most_rows = MOST_ROWS_OF_ANY_FILE + size
    for found, most, what in (
        (footer.num_columns, MOST_COLUMNS, "columns"),
        (footer.num_row_groups, MOST_ROW_GROUPS, "row groups"),
        (footer.num_rows, most_rows, f"rows in {size:,} bytes"),
    ):
        if not 0 <= found <= most:
            raise ContentError(f"states {found:,} {what}, and at most {most:,} are read")
    rows = 0
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        rows += group.num_rows
        if not 0 <= group.num_rows <= most_rows or not 0 <= group.total_byte_size <= MOST_ROW_GROUP_BYTES:
            raise ContentError(
                f"states a row group of {group.num_rows:,} rows and {group.total_byte_size:,} bytes, and at most "
                f"{most_rows:,} and {MOST_ROW_GROUP_BYTES:,} are read"
            )
    if rows != footer.num_rows:
        raise ContentError(f"states {footer.num_rows:,} rows, and its row groups have {rows:,}")


def check_columns(footer: FileMetaData, expected: pa.Schema) -> None:
    """Raises ContentError if a column of a Parquet file has another type than in `expected`.

    A column may be missing, because older versions wrote fewer.
    """
    import pyarrow as pa

    try:
        found = footer.schema.to_arrow_schema()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ContentError(f"its columns cannot be read: {shorten(str(error), 200)}") from None
    for field in expected:
        for index in found.get_all_field_indices(field.name):
            if not _is_same_type(found.field(index).type, field.type):
                kind = shorten(str(found.field(index).type))
                raise ContentError(f"its column {field.name} has the type {kind} instead of {field.type}")
        if len(found.get_all_field_indices(field.name)) > 1:
            raise ContentError(f"it has two columns called {field.name}")


def _is_same_type(found: pa.DataType, expected: pa.DataType) -> bool:
    """Whether two types have the same values. Writers differ in units of time, and in the names of a list's items."""
    import pyarrow as pa

    if pa.types.is_list(expected):
        return pa.types.is_list(found) and _is_same_type(found.value_type, expected.value_type)
    return bool(found == expected or (pa.types.is_timestamp(found) and pa.types.is_timestamp(expected)))


# Arrow


def read_segment(content: bytes, schemas: Collection[pa.Schema]) -> tuple[pa.RecordBatch, dict[bytes, bytes]]:
    """Return the only batch of an Arrow file, and the metadata of its columns. No memory is allocated for its rows.

    Raises ContentError if the file is damaged, if its columns are not those of one of `schemas`, or if it is
    compressed: clients do not compress it, and a few compressed bytes can become gigabytes.
    """
    import pyarrow as pa

    if len(content) < 24 or not content.startswith(_ARROW) or not content.endswith(_ARROW):
        raise ContentError("is no Arrow file, or its end is missing")
    try:
        source = pa.BufferReader(pa.py_buffer(content).slice(8))
        schema = pa.ipc.read_schema(pa.ipc.read_message(source))
        plain = schema.remove_metadata()
        if plain not in schemas:
            raise ContentError("its columns are not those of a table")
        message = pa.ipc.read_message(source)
        if _is_compressed(message.metadata.to_pybytes()):
            raise ContentError("its rows are compressed")
        rows = pa.ipc.read_record_batch(message, plain)
        # A damaged batch may point outside its memory, and the first use of its rows would then end the process.
        rows.validate(full=True)
    except (pa.ArrowException, OSError, EOFError, struct.error) as error:
        raise ContentError(shorten(str(error) or repr(error), 200)) from None
    return rows, schema.metadata or {}


def _is_compressed(header: bytes) -> bool:
    """Whether the header of an Arrow batch says that its rows are compressed. Arrow would decompress them at once.

    The header is a FlatBuffer, see Message.fbs of Arrow. A table begins with the distance back to a list of 16-bit
    offsets of its fields. A field that is left out has the offset 0.
    """

    def find(table: int, field: int) -> int | None:
        (distance,) = struct.unpack_from("<i", header, table)
        (size,) = struct.unpack_from("<H", header, table - distance)
        place = 4 + 2 * field
        offset = struct.unpack_from("<H", header, table - distance + place)[0] if place < size else 0
        return table + offset if offset else None

    (message,) = struct.unpack_from("<I", header, 0)
    # The third field of a message is its batch, and the fourth field of a batch is its compression.
    pointer = find(message, 2)
    if pointer is None:
        raise ContentError("its rows are missing")
    (distance,) = struct.unpack_from("<I", header, pointer)
    return find(pointer + distance, 3) is not None
