"""Runs the tests of judging against each mutant of judging's SQL, and prints the share of mutants that a test notices.

The tests run once without a change, and what their queries read is kept (sql_replay.py). For each mutant, the queries
of its file are repeated first. If all have the rows that they had, the mutant survives. Otherwise a child process runs
the tests whose queries have other rows (mutant_trials.py). SQL that DuckDB refuses to parse or to bind is no mutant and
does not count.
"""

from __future__ import annotations

import argparse
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest
from brokerproof_judging import run_database
from brokerproof_judging.messages import message_columns
from mutant_trials import (
    HISTORIES,
    ROOT,
    TESTS,
    Campaign,
    Fate,
    Prepare,
    Recording,
    find_results,
    keep_messages,
    make_parser,
    read_killers,
    read_results,
    run_pytest,
    set_survivors_aside,
    write_result,
)
from sql_mutants import make_mutants, rewrite
from sql_replay import Recorder, Replay, read_calls

JUDGING = ROOT / "spark_jobs" / "brokerproof_judging"
# The tests that judge with the SQL of each package, the fastest first. They need no Spark; see spark_in_process.py.
PACKAGES: Mapping[str, Sequence[str]] = {
    "messages": (
        "messages/test_comparisons.py",
        "messages/test_expected_rows.py",
        "messages/test_anomalies.py",
        "messages/test_legality.py",
        "test_partitioned_sql.py::test_an_anomaly_at_a_place_without_facts_is_an_error",
        "test_evidence.py",
        "messages/test_differential.py::test_spark_and_the_reference_agree",
        "messages/test_clean_messages.py::test_arrays_and_sql_find_what_sql_finds",
    ),
    "measurements": ("measurements",),
    "series": ("series",),
    "suites": ("suites/test_messages.py",),
}
# Of the tests that may notice a mutant, this many run first.
_MOST_TESTS = 4
REFUSED = (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException)


@dataclass(frozen=True, kw_only=True)
class SqlMutant:
    """A changed SQL file. `file` is its path below the package `brokerproof_judging`."""

    file: str
    change: str
    sql: str

    @property
    def part(self) -> str:
        return self.file

    @property
    def key(self) -> str:
        return hashlib.sha256(f"{self.file}\n{self.sql}".encode()).hexdigest()[:16]


def list_mutants(package: str, pattern: str = "*.sql") -> Iterator[SqlMutant]:
    """Yield the mutants of each SQL file of a package."""
    for path in sorted((JUDGING / package).rglob("*.sql")):
        file = str(path.relative_to(JUDGING))
        if Path(file).match(pattern):
            for mutant in make_mutants(path.read_text(encoding="utf-8")):
                yield SqlMutant(file=file, change=str(mutant), sql=mutant.sql)


def screen(mutants: Sequence[SqlMutant], recording: Path, results: Path) -> dict[SqlMutant, Sequence[str]]:
    """Repeat the queries of each mutant's file. Write the fate of mutants without an effect, and of refused ones.

    Return the others, each with the tests that may fail; without a test if any may.
    """
    reached: dict[SqlMutant, Sequence[str]] = {}
    calls = read_calls(recording)
    for file, group in groupby(mutants, key=lambda mutant: mutant.file):
        if not calls.get(file):
            reached |= dict.fromkeys(group, ())
            continue
        replay = Replay(calls[file], rewrite((JUDGING / file).read_text(encoding="utf-8")))
        for mutant in group:
            try:
                tests = list(islice(replay.find_tests(mutant.sql), _MOST_TESTS))
            except REFUSED as error:
                write_result(results, mutant, Fate.NO_MUTANT, str(error).partition("\n")[0])
                continue
            if tests:
                reached[mutant] = tests
            else:
                write_result(results, mutant, Fate.SURVIVED, "no query has other rows")
        print(f"{file}: {sum(mutant.file == file for mutant in reached)} mutants have an effect", flush=True)
    return reached


def record(package: str, file: Path, session: pytest.Session) -> Callable[[], None]:
    """Have a child process keep the queries of the tests, with the SQL as a mutant without a change would have it."""
    paths = {str(path.relative_to(JUDGING)): path for path in sorted((JUDGING / package).rglob("*.sql"))}
    texts = {name: path.read_text(encoding="utf-8") for name, path in paths.items()}
    rewritten = {name: rewrite(text) for name, text in texts.items()}
    change_sql(rewritten)
    # Macros are no query, and every other file depends on them.
    recorder = Recorder({name: text for name, text in rewritten.items() if not name.endswith("/macros.sql")})
    session.config.pluginmanager.register(recorder)
    return partial(recorder.write, file)


def change(changed: Mapping[str, str]) -> Prepare:
    """Prepare a child process by having judging read changed SQL."""

    def prepare(session: pytest.Session) -> Callable[[], None]:
        del session
        change_sql(changed)
        return lambda: None

    return prepare


def change_sql(changed: Mapping[str, str]) -> None:
    """Have judging read the changed text of some SQL files, by their path below `brokerproof_judging`."""
    for module in (message_columns, run_database):
        module.files = lambda package: _ChangedSql(package.rpartition(".")[2], changed)  # type: ignore[attr-defined]
    message_columns.read_query.cache_clear()
    run_database.read_script.cache_clear()


@dataclass(frozen=True)
class _ChangedSql:
    package: str
    changed: Mapping[str, str]

    def joinpath(self, *names: str) -> Any:
        path = Path(self.package, *names)
        text = self.changed.get(str(path))
        return JUDGING / path if text is None else SimpleNamespace(read_text=lambda encoding: text)


def run_package(package: str, mutants: Sequence[SqlMutant], results: Path, options: argparse.Namespace) -> None:
    os.environ["BROKERPROOF_HISTORIES"] = HISTORIES
    keep_messages(results, kept=package != "messages")
    tests = [f"{TESTS}/{name}" for name in PACKAGES[package]]
    recording = results.with_name(f"{results.stem}-{package}.pickle")
    if not recording.exists():
        run_pytest(tests, Recording(partial(record, package, recording)))
    print(f"{len(mutants)} mutants of `{package}`", flush=True)
    killers = read_killers(results.parent)
    killed = {mutant: [killers[mutant.key]] for mutant in mutants if mutant.key in killers}
    reached = screen([mutant for mutant in mutants if mutant not in killed], recording, results)
    # Other tests may notice these too.
    partly = {*killed, *(mutant for mutant, tests in reached.items() if len(tests) == _MOST_TESTS)}

    def prepare(mutant: SqlMutant) -> Prepare:
        return change({mutant.file: mutant.sql})

    run_pytest(tests, Campaign(reached | killed, prepare, results, options, refused=REFUSED, partly=partly))


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--packages", nargs="*", default=list(PACKAGES), choices=list(PACKAGES))
    parser.add_argument("--files", default="*.sql", help="the files to change, as a pattern of their names")
    options = parser.parse_args()
    os.chdir(ROOT)
    results = find_results()
    print(f"The results are in {results}.", flush=True)
    for package in options.packages:
        known = read_results(results)
        mutants = [mutant for mutant in list_mutants(package, options.files) if mutant.key not in known]
        if todo := set_survivors_aside(mutants, results, options):
            run_package(package, todo, results, options)


if __name__ == "__main__":
    main()
