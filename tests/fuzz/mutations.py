"""Mutations of files, as strategies of Hypothesis: of bytes, of structure, and of what a file states about itself."""

from __future__ import annotations

import contextlib
import io
import json
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from hypothesis import strategies as st
from reading_child import File

# Bytes that mean something in one of the formats, and numbers at the ends of their ranges.
_TOKENS = [
    b"[", b"{", b"}", b"]", b'"', b"\\", b":", b",", b"- ", b"? ", b"&a ", b"*a", b"<<: *a", b"!!int ", b"!!set ",
    b"\x00", b"\xff", b"\xed\xa0\x80", b"\\ud800", b"null", b"NaN", b"-Infinity", b"1e999", b"9" * 5000, b"1:1", b"\n",
    b"\x00\x00\x00\x80", b"\xff\xff\xff\x7f", b"\xff" * 8, b"\x00" * 8, b"[" * 200, b"[" * 50_000, b"- " * 50_000,
]  # fmt: skip
# These texts become what JSON's writer of Python cannot write.
_DEEP, _LONG = "@deep", "@long"
_PLAIN: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, -1, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**30, 10**400, 253402300800000000]),
    st.floats(),
    st.sampled_from(["", "x" * 70_000, "\x00", "nan", "2026-02-30", "a/b", "../..", "é😀", "{{ x }}", _DEEP, _LONG]),
    st.text(max_size=8),
)
VALUES = st.recursive(_PLAIN, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner))
SEEDS = st.integers(min_value=0, max_value=2**62)


def mutate_bytes(content: bytes, chance: random.Random, *, start: int = 0) -> bytes:
    """Change a few places of the content, from `start` on."""
    changed = bytearray(content)
    for _ in range(chance.choice([1, 1, 1, 2, 3, 8])):
        low = min(start, len(changed))
        at = chance.randint(low, len(changed))
        length = chance.choice([1, 1, 2, 4, 8, 64, 1000])
        match chance.randrange(6):
            case 0:
                changed[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                del changed[at : at + length]
            case 2:
                changed[at:at] = changed[at : at + length]
            case 3:
                changed[at:at] = chance.choice(_TOKENS)
            case 4:
                token = chance.choice(_TOKENS)
                changed[at : at + len(token)] = token
            case 5:
                del changed[at:]
    return bytes(changed)


def _list_places(content: Any) -> list[tuple[Any, Any]]:
    """All (container, key or index) of a JSON value."""
    found: list[tuple[Any, Any]] = []
    waiting = [content]
    while waiting:
        each = waiting.pop()
        for key in list(each) if isinstance(each, dict) else range(len(each)) if isinstance(each, list) else ():
            found.append((each, key))
            waiting.append(each[key])
    return found


_NUMBERS = [0, 1, -1, 2, 10**3, 10**6, 10**9, 2**31, 2**53, 2**63 - 1, -(2**63), 10**18, 1_767_225_600_000_000]
_TEXTS = ["", "x", "a/b", "\x00", "é😀", "9" * 30, "2026-01-01T00:00:00", "9999-12-31T23:59:59+00:00", "x" * 70_000]


def _vary(value: Any, chance: random.Random, texts: Sequence[str]) -> Any:
    """Another value of the same type, which models accept more often than one of another type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return chance.choice([*_NUMBERS, value + 1, -value, value * 10**6, 10**30])
    if isinstance(value, float):
        return chance.choice([*map(float, _NUMBERS), -value, 1e-300, 1e300, float("inf"), float("nan"), 10**400])
    if isinstance(value, str):
        return chance.choice([*_TEXTS, *texts])
    if isinstance(value, list):
        return chance.choice([[], value * 2, value[::-1], value[:1] * 300])
    return {} if value else None


def mutate_json(content: bytes, chance: random.Random, value: Any) -> bytes:
    """Change one value of a JSON text, or its place. `value` is a new one."""
    loaded = json.loads(content)
    places = _list_places(loaded)
    if not places:
        return json.dumps(value).encode()
    texts = [text for each, key in places if isinstance(text := each[key], str)]
    container, key = chance.choice(places)
    match chance.randrange(10):
        case 0:
            container[key] = value
        case 6 | 7 | 8 | 9:
            for each, name in [(container, key), *chance.choices(places, k=chance.choice([0, 0, 1, 5]))]:
                with contextlib.suppress(LookupError):
                    each[name] = _vary(each[name], chance, texts)
        case 2:
            del container[key]
        case 3 if isinstance(container, dict):
            container[str(value)[:20]] = container.pop(key)
        case 4 if isinstance(container, list):
            container[key:key] = [container[key]] * chance.choice([1, 100, 10_000])
        case _:
            container[key] = [container[key]] if chance.randrange(2) else {"x": container[key]}
    text = json.dumps(loaded)
    if chance.randrange(10) == 0 and isinstance(container, dict):
        # The same name twice.
        text = text.replace("{", f'{{"{chance.choice(list(container) or ["x"])}": {json.dumps(value)},', 1)
    return _write_specials(text).encode()


def _write_specials(text: str) -> str:
    return text.replace(f'"{_DEEP}"', "[" * 2_000 + "]" * 2_000).replace(f'"{_LONG}"', "9" * 5_000)


def mutate_lines(content: bytes, chance: random.Random, value: Any) -> bytes:
    lines = content.splitlines()
    number = chance.randrange(len(lines))
    lines[number] = mutate_json(lines[number], chance, value)
    return b"\n".join(lines * chance.choice([1, 1, 100])) + b"\n"


_YAML_ENDS = [
    "\n".join(["x0: &x0 [a, a, a]", *(f"x{n}: &x{n} [*x{n - 1}, *x{n - 1}, *x{n - 1}]" for n in range(1, 30))]),
    "\n".join(["x0: &x0 {a: 1}", *(f"x{n}: &x{n} {{<<: [*x{n - 1}, *x{n - 1}], b{n}: 1}}" for n in range(1, 30))]),
    "\n".join(["x0: &x0 [a]", *(f"x{n}: &x{n} [*x{n - 1}]" for n in range(1, 300))]),
    "x: &x [*x]", "x: &x {<<: *x}", "x: &x 1\ny: &x 2\nz: *x", "? [a, b]\n: c", "? {a: b}\n: c", "<<: 1", "<<: [1]",
    "x: !!python/object/apply:os.system [ls]", "x: !!timestamp 5", "x: !!int ''", "x: !!bool y", "x: !!float a",
    "x: !!set [a]", "x: !!omap {a: b}", "x: !!pairs [a]", "x: !!binary ü", "x: !!null 1", "x: !!map 1", "x: !!seq a",
    "x: 1" + ":1" * 3_000, "x: 1" + ":1" * 2_000 + ".5", "x: 2026-13-45", "x: 0x" + "f" * 5_000, "x: .inf", "x: .nan",
    "--- a\n--- b", "%YAML 9.9\n---", "x: |\n  " + "a\n  " * 1_000, "x: '" + "a" * 100_000 + "'", "@x", "\tx: y",
]  # fmt: skip


def mutate_yaml(content: bytes, chance: random.Random, value: Any) -> bytes:
    """Change a line of a YAML text, or a value in it."""
    lines = content.decode().splitlines()
    number = chance.randrange(len(lines))
    written = _write_specials(json.dumps(value))
    match chance.randrange(8):
        case 0:
            lines.append(chance.choice(_YAML_ENDS))
        case 1:
            lines[number] = f"{lines[number].partition(':')[0]}: {written}"
        case 2 | 6 | 7:
            # One of the values in braces or brackets.
            values = list(re.finditer(r"(?<=: )[^,{}\[\]]+", lines[number]))
            if values:
                found = chance.choice(values)
                same_type = _vary(yaml.safe_load(found[0]), chance, list(re.findall(r"[a-z_]+", content.decode())))
                written = chance.choice([written, json.dumps(same_type, default=str)])
                lines[number] = f"{lines[number][: found.start()]}{written}{lines[number][found.end() :]}"
        case 3:
            del lines[number]
        case 4:
            lines[number] = chance.choice(["  ", "    ", "- "]) + lines[number]
        case _:
            lines[number:number] = [lines[number]] * chance.choice([1, 50, 5_000])
    return "\n".join(lines).encode(errors="surrogatepass") + b"\n"


# Tables


def _vary_cells(column: pa.ChunkedArray, chance: random.Random) -> pa.Array:
    """Change some values of a column, and none of its types."""
    values = column.cast(pa.int64()).to_pylist() if pa.types.is_timestamp(column.type) else column.to_pylist()
    texts = [text for text in values if isinstance(text, str)]
    for number in chance.choices(range(len(values)), k=3) if values else ():
        values[number] = chance.choice([None, _vary(values[number], chance, texts)])
    if pa.types.is_timestamp(column.type):
        return pa.array(values, pa.int64()).cast(column.type)
    return pa.array(values, column.type)


def _change_column(table: pa.Table, chance: random.Random) -> pa.Table:
    """Change the type, the values or the name of one column."""
    number = chance.randrange(table.num_columns)
    field, rows = table.schema.field(number), table.num_rows
    wide = pa.array(["x" * chance.choice([1, 100_000, 1_000_000])]).dictionary_encode().dictionary
    nested: Any = pa.array(["x"] * rows)
    for _ in range(chance.choice([1, 5, 60])):
        nested = pa.StructArray.from_arrays([nested], ["x"])
    columns: list[Callable[[], Any]] = [
        lambda: pa.nulls(rows, field.type),
        lambda: pa.nulls(rows),
        lambda: pa.array([2**63 - 1] * rows),
        lambda: pa.array([-(2**63)] * rows).cast(pa.timestamp("us", tz="UTC")),
        lambda: pa.array([2**62] * rows).cast(pa.timestamp("us")),
        lambda: pa.array([float("nan")] * rows),
        lambda: pa.array([b"\xff\xfe"] * rows),
        lambda: pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), wide),
        lambda: pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), wide).dictionary_decode(),
        lambda: pa.array([["x"] * chance.choice([0, 10, 50_000])] * rows),
        lambda: nested,
        lambda: pa.array(["x"] * rows),
    ]
    column = chance.choice([*columns, *[lambda: _vary_cells(table.column(number), chance)] * len(columns)])()
    match chance.randrange(5):
        case 0:
            first, *others = table.column_names
            return table.rename_columns([chance.choice(["x", "seq", "", first]), *others])
        case 1:
            return table.remove_column(number)
        case 2:
            return table.append_column(chance.choice(["x", field.name]), column)
        case _:
            return table.set_column(number, field.name, column)


def mutate_parquet(content: bytes, chance: random.Random, value: Any) -> bytes:
    """Write a table anew with another column, more rows, or another arrangement of them."""
    table = pq.read_table(io.BytesIO(content))
    if chance.randrange(4):
        table = _change_column(table, chance)
    if chance.randrange(3) == 0:
        repeats = chance.choice([0, 10, 1_000, 60_000])
        size = sum(column.nbytes for column in table.columns) * repeats
        table = pa.concat_tables([table] * (repeats if size < 20_000_000 else 1)) if repeats else table.slice(0, 0)
        table = table.combine_chunks()
    if chance.randrange(20) == 0:
        for number in range(chance.choice([50, 150])):
            table = table.append_column(f"more{number}", pa.nulls(table.num_rows, pa.int8()))
    file = io.BytesIO()
    group = chance.choice([None, None, 1]) if table.num_rows < 5_000 else None
    compression = chance.choice(["snappy", "none", "zstd", "gzip"])
    pq.write_table(
        table.replace_schema_metadata({"x": str(value)[:1000].encode(errors="replace")}),
        file,
        row_group_size=group,
        compression=compression,
        use_dictionary=chance.choice([True, False]),
        # Without it, a column of a dictionary counts as a column of texts.
        store_schema=chance.choice([True, False]),
    )
    written = file.getvalue()
    return mutate_bytes(written, chance) if chance.randrange(5) == 0 else written


def mutate_footer(content: bytes, chance: random.Random) -> bytes:
    """Change only the footer of a Parquet file, and keep its length right, so that it is read."""
    length = int.from_bytes(content[-8:-4], "little")
    start = len(content) - 8 - length
    footer = mutate_bytes(content[start:-8], chance)
    stated = chance.choice([len(footer)] * 9 + [2**31])
    return content[:start] + footer + stated.to_bytes(4, "little") + b"PAR1"


def mutate_segment(content: bytes, chance: random.Random, value: Any) -> bytes:
    """Write a segment anew with another column, compressed, or with other answers about acks."""
    if not content.startswith(b"ARROW1"):
        return mutate_json(content, chance, value)
    with pa.ipc.open_file(pa.BufferReader(content)) as file:
        table, metadata = file.read_all(), dict(file.schema.metadata)
    if chance.randrange(2):
        name, answers = next(iter(metadata.items()))
        metadata[name] = mutate_json(answers, chance, value)
    else:
        table = _change_column(table, chance)
    repeats = chance.choice([1, 1, 0, 1_000, 50_000])
    if repeats * table.nbytes < 5_000_000:
        table = pa.concat_tables([table] * repeats) if repeats else table.slice(0, 0)
    table = table.combine_chunks().replace_schema_metadata(metadata)
    buffer = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=chance.choice([None, None, "lz4", "zstd"]))
    with pa.ipc.new_file(buffer, table.schema, options=options) as writer:
        writer.write_table(table)
    return buffer.getvalue()


def mutate_header(content: bytes, chance: random.Random) -> bytes:
    """Change a few bytes of a segment's first messages, which say how its rows are stored."""
    changed = bytearray(content)
    for _ in range(chance.choice([1, 1, 2, 4])):
        at = chance.randrange(8, min(len(changed), 3_000)) if len(changed) > 8 else 0
        changed[at : at + 1] = bytes([chance.choice([0, 1, 4, 0x7F, 0x80, 0xFF, chance.randrange(256)])])
    return bytes(changed)


_STRUCTURES: dict[str, Callable[[bytes, random.Random, Any], bytes]] = {
    "yaml": mutate_yaml,
    "json": mutate_json,
    "lines": mutate_lines,
    "segments": mutate_segment,
    "parquet": mutate_parquet,
}
_STATEMENTS = {"parquet": mutate_footer, "segments": mutate_header}


@st.composite
def mutants(draw: st.DrawFn, family: str, files: Sequence[File]) -> File:
    """A file of the family after one or two mutations."""
    name, content = draw(st.sampled_from(files))
    kinds = ["structure", "structure", "bytes", *(["statements"] if family in _STATEMENTS else [])]
    chance = random.Random(draw(SEEDS))
    match draw(st.sampled_from(kinds)):
        case "structure":
            value = draw(VALUES)
            try:
                return name, _STRUCTURES[family](content, chance, value)
            except (pa.ArrowException, yaml.YAMLError, ValueError, TypeError, OverflowError):
                # This change cannot be written.
                return name, mutate_bytes(content, chance)
        case "statements":
            return name, _STATEMENTS[family](content, chance)
        case _:
            return name, mutate_bytes(content, chance)
