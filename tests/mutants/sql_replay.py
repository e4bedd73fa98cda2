"""Finds the tests for which a mutant of a SQL file can matter, by repeating only the queries of this file.

`Recorder` keeps the tables that the queries of each test read. `Replay` repeats the queries of one file on these tables
with changed SQL. If every query has the rows that it had without the change, no test can notice the mutant.
"""

from __future__ import annotations

import hashlib
import pickle
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Timer
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import sqlglot

# A repeated query may take this time.
_LIMIT_S = 30

# A statement that defines a macro or a value, with its parameters.
Definition = tuple[str, Sequence[Any]]


@dataclass(frozen=True, kw_only=True)
class Call:
    """A query that tests made with the SQL of a file. `before` and `after` are the query's texts around the file's."""

    before: str
    after: str
    definitions: Sequence[Definition]
    tables: Mapping[str, pa.Table]
    # The tests that made this query with these tables.
    tests: list[str] = field(default_factory=list)


class Recorder:
    """A plugin of pytest that keeps the queries of all tests, by the file of their SQL. Equal queries are kept once."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts, self._connect = texts, duckdb.connect
        self._tests: list[str] = []
        self.calls: dict[str, dict[str, Call]] = {file: {} for file in texts}

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self._tests = [item.nodeid]
        duckdb.connect = lambda **options: _Connection(self._connect(**options), self)  # type: ignore[assignment]

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Iterator[None]:
        """Let the queries of a fixture that several tests share belong to all of them."""
        before = self._tests
        if fixturedef.scope != "function":
            self._tests = [
                item.nodeid
                for item in request.session.items
                if any(fixturedef in each for each in item._fixtureinfo.name2fixturedefs.values())  # type: ignore[attr-defined]
            ]
        yield
        self._tests = before

    def keep(self, connection: duckdb.DuckDBPyConnection, sql: str, definitions: list[Definition]) -> None:
        """Keep a query if it has the SQL of a file."""
        for file, text in self._texts.items():
            before, found, after = sql.partition(text)
            if not found:
                continue
            if before.startswith("INSERT"):
                # Only the rows that are added depend on the file.
                before = ""
            names = connection.execute("SELECT table_name FROM information_schema.tables").fetchall()
            tables = {}
            made = _list_made(before + text)
            for (name,) in sorted(names):
                if name not in made and re.search(rf"\b{name}\b", text + after):
                    tables[name] = _copy(connection.execute(f'FROM "{name}"').to_arrow_table())
                    if name.startswith("recorded_"):
                        # Its rows could be read only once.
                        connection.register(name, tables[name])
            call = Call(before=before, after=after, definitions=list(definitions), tables=tables)
            content = {name: table.to_pydict() for name, table in tables.items()}
            key = hashlib.sha256(pickle.dumps((before, after, call.definitions, content))).hexdigest()
            tests = self.calls[file].setdefault(key, call).tests
            tests += [test for test in self._tests if test not in tests]

    def write(self, file: Path) -> None:
        unfinished = file.with_suffix(".new")
        unfinished.write_bytes(pickle.dumps({name: list(calls.values()) for name, calls in self.calls.items()}))
        unfinished.rename(file)


class _Connection:
    """A connection that has a `Recorder` keep its queries."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, recorder: Recorder) -> None:
        self._connection, self._recorder = connection, recorder
        self._definitions: list[Definition] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def __enter__(self) -> _Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> duckdb.DuckDBPyConnection:
        self._recorder.keep(self._connection, sql, self._definitions)
        if "CREATE MACRO" in sql or sql.startswith("SET VARIABLE"):
            self._definitions.append((sql, parameters))
        return self._connection.execute(sql, parameters)


class Replay:
    """The recorded queries of one file, which can be repeated with changed SQL."""

    def __init__(self, calls: Sequence[Call], original: str) -> None:
        self._calls, self._original = calls, original
        self._connection = duckdb.connect(config={"threads": "1", "preserve_insertion_order": "false"})
        self._is_ordered = bool(sqlglot.parse(original, dialect="duckdb")[-1].args.get("order"))  # type: ignore[union-attr]
        for number, call in enumerate(calls):
            self._connection.execute(f"CREATE SCHEMA call_{number}")
            self._connection.execute(f"SET schema = 'call_{number}'")
            for sql, parameters in call.definitions:
                self._connection.execute(sql, parameters)
            for name, table in call.tables.items():
                self._connection.register("arriving", table)
                self._connection.execute(f'CREATE TABLE "{name}" AS FROM arriving')
                self._connection.unregister("arriving")
        self._usual = [self._run(number, original) for number in range(len(calls))]

    def find_tests(self, sql: str) -> Iterator[str]:
        """Yield the tests with a query that has other rows than usual. Raises DuckDB's error if it refuses the SQL."""
        for number, call in enumerate(self._calls):
            try:
                is_usual = self._run(number, sql) == self._usual[number]
            except (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException):
                raise
            except duckdb.Error:
                is_usual = False
            if not is_usual:
                yield from call.tests

    def _run(self, number: int, sql: str) -> list[Any]:
        call, run = self._calls[number], self._connection.execute
        run(f"SET schema = 'call_{number}'")
        for definition, parameters in call.definitions:
            if definition.startswith("SET VARIABLE"):
                run(definition, parameters)
        query = call.before + sql + call.after
        query = query if _list_made(query) else f"CREATE TABLE replayed AS {query}"
        order = "* (rowid + 1)" if self._is_ordered else ""
        run("BEGIN")
        late = Timer(_LIMIT_S, self._connection.interrupt)
        late.start()
        try:
            run(query)
            # As texts, because an empty list and null have one hash.
            sums = f"count(*), sum(hash(made::VARCHAR)::HUGEINT {order})"
            return [run(f"SELECT {sums} FROM {name} made").fetchall() for name in _list_made(query)]
        finally:
            late.cancel()
            run("ROLLBACK")


def _copy(table: pa.Table) -> pa.Table:
    """Return a copy without the memory of DuckDB, whose tables have 16 MB for each column of few rows."""
    return table.take(pa.array(range(len(table)), pa.int64()))


def _list_made(query: str) -> list[str]:
    """Return the tables and views that a query makes."""
    return re.findall(r"CREATE (?:OR REPLACE )?(?:TABLE|VIEW) (\w+)", query)


def read_calls(file: Path) -> Mapping[str, Sequence[Call]]:
    """Return the queries that a `Recorder` wrote, by file."""
    return pickle.loads(file.read_bytes())
