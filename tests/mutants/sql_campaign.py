"""Runs the tests of judging against each mutant of judging's SQL, and prints the share of mutants that a test notices.

The tests run once without a change, and what their queries read is kept (sql_replay.py). For each mutant, the queries
of its file are repeated first. If all have the rows that they had, the mutant survives. Otherwise a child process runs
the tests whose queries have other rows, and ends with the first test that fails.

A mutant is killed if a test fails, or if the tests exceed their time. SQL that DuckDB refuses to parse or to bind is no
mutant and does not count. All other mutants survive, equivalent ones too. Results are kept by the hash of the code, so
a campaign that was ended continues.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import multiprocessing
import os
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from importlib import import_module
from itertools import groupby, islice
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest

ROOT = Path(__file__).resolve().parents[2]
IMPORTED = ("plugins", "spark_jobs", "tests/systems", "tests/installations", "tests/mutants")
sys.path[:0] = [str(ROOT / name) for name in IMPORTED]

from brokerproof_judging import run_database  # noqa: E402
from brokerproof_judging.messages import message_columns  # noqa: E402
from sql_mutants import make_mutants, rewrite  # noqa: E402
from sql_replay import Recorder, Replay, read_calls  # noqa: E402

JUDGING = ROOT / "spark_jobs" / "brokerproof_judging"
TESTS = "tests/unit/judging"
# The tests that judge with the SQL of each package, the fastest first. They need no Spark; see spark_in_process.py.
PACKAGES: Mapping[str, Sequence[str]] = {
    "messages": (
        "messages/test_expected_rows.py",
        "messages/test_anomalies.py",
        "messages/test_legality.py",
        "messages/test_differential.py::test_spark_and_the_reference_agree",
        "messages/test_clean_messages.py::test_arrays_and_sql_find_what_sql_finds",
    ),
    "measurements": ("measurements",),
    "series": ("series",),
    "suites": ("suites/test_messages.py",),
}
# Modules that tests import late.
IMPORTED_EARLY = {"suites": "suites.evaluation"}
ARGUMENTS = ("-p", "spark_in_process", "-p", "no:cacheprovider", "-n0", "-q", "-s", f"--rootdir={ROOT}")
REASONS = Path(__file__).with_name("survivors.json")
CODE = ("spark_jobs/brokerproof_judging", "plugins/brokerproof", TESTS, "tests/mutants")
# Files that do not change what becomes of a mutant.
_NO_CODE = {REASONS, Path(__file__).resolve(), Path(__file__).resolve().with_name("sql_replay.py")}
_MEMORY = 8 << 30
# A mutant may take this time for its tests. Many times as long as all tests take.
_LIMIT_S = 900
# Of the tests that may notice a mutant, this many run.
_MOST_TESTS = 12
_REFUSED = (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException)


class Fate(StrEnum):
    TEST = "killed by a test"
    TIME = "killed by time"
    SURVIVED = "survived"
    NO_MUTANT = "not a mutant"


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A changed SQL file. `file` is its path below the package `brokerproof_judging`."""

    file: str
    change: str
    sql: str

    @property
    def key(self) -> str:
        return hashlib.sha256(f"{self.file}\n{self.sql}".encode()).hexdigest()[:16]


def list_mutants(package: str, pattern: str = "*.sql", share: float = 1, seed: int = 0) -> Iterator[Mutant]:
    """Yield a share of the mutants of each SQL file of a package, which the seed chooses."""
    for path in sorted((JUDGING / package).rglob("*.sql")):
        file = str(path.relative_to(JUDGING))
        if Path(file).match(pattern):
            chance = random.Random(f"{seed} {file}")
            for mutant in make_mutants(path.read_text(encoding="utf-8")):
                if chance.random() < share:
                    yield Mutant(file=file, change=str(mutant), sql=mutant.sql)


def rewrite_all(package: str) -> Mapping[str, str]:
    """Return the package's SQL, parsed and written again without a change."""
    files = sorted((JUDGING / package).rglob("*.sql"))
    return {str(path.relative_to(JUDGING)): rewrite(path.read_text(encoding="utf-8")) for path in files}


class Recording:
    """A plugin of pytest that runs the collected tests once without a change, and writes what their queries read."""

    def __init__(self, package: str, file: Path) -> None:
        self._package, self._file = package, file

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        with Trial(session, session.items, {}, self._record) as trial:
            fate, why = trial.conclude(limit_s=3600)
        if fate is not Fate.SURVIVED:
            raise pytest.UsageError(f"Without a change, the tests of `{self._package}` fail ({fate} {why}).")
        return True

    def _record(self, session: pytest.Session) -> Callable[[], None]:
        recorder = Recorder(_read_sql(self._package))
        session.config.pluginmanager.register(recorder)
        return partial(recorder.write, self._file)


class Campaign:
    """A plugin of pytest that runs the tests that a mutant may fail against each mutant, instead of once."""

    def __init__(self, mutants: dict[Mutant, Sequence[str]], results: Path, options: argparse.Namespace) -> None:
        self._mutants, self._results, self._options = mutants, results, options

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        waiting, running = list(self._mutants)[::-1], dict[Any, tuple[Mutant, Trial]]()
        ends_at = time.monotonic() + 60 * self._options.minutes
        while running or (waiting and time.monotonic() < ends_at):
            while waiting and len(running) < self._options.processes and time.monotonic() < ends_at:
                mutant = waiting.pop()
                tests = self._mutants[mutant]
                items = [item for item in session.items if not tests or item.nodeid in tests]
                trial = Trial(session, items, {mutant.file: mutant.sql})
                running[trial.answer] = (mutant, trial)
            ready = wait(list(running), timeout=1)
            late = [answer for answer, (_, trial) in running.items() if trial.seconds > _LIMIT_S]
            for answer in {*ready, *late}:
                mutant, trial = running.pop(answer)
                with trial:
                    fate, why = trial.conclude(limit_s=0)
                if fate is Fate.SURVIVED and len(self._mutants[mutant]) == _MOST_TESTS:
                    # Other tests may notice it.
                    self._mutants[mutant] = ()
                    waiting.append(mutant)
                    continue
                write_result(self._results, mutant, fate, why)
                print(f"{len(waiting)} left: {mutant.file}: {fate} {why} after {trial.seconds:.0f} s", flush=True)
        return True


def write_result(results: Path, mutant: Mutant, fate: Fate, why: str) -> None:
    row = {"mutant": mutant.key, "file": mutant.file, "change": mutant.change, "fate": fate, "why": why}
    with results.open("a", encoding="utf-8") as opened:
        opened.write(json.dumps(row) + "\n")


def screen(mutants: Sequence[Mutant], recording: Path, results: Path) -> dict[Mutant, Sequence[str]]:
    """Repeat the queries of each mutant's file. Write the fate of mutants without an effect, and of refused ones.

    Return the others, each with the tests that may fail; without a test if any may.
    """
    reached: dict[Mutant, Sequence[str]] = {}
    calls = read_calls(recording)
    for file, group in groupby(mutants, key=lambda mutant: mutant.file):
        if not calls.get(file):
            reached |= dict.fromkeys(group, ())
            continue
        replay = Replay(calls[file], (JUDGING / file).read_text(encoding="utf-8"))
        for mutant in group:
            try:
                tests = list(islice(replay.find_tests(mutant.sql), _MOST_TESTS))
            except _REFUSED as error:
                write_result(results, mutant, Fate.NO_MUTANT, str(error).partition("\n")[0])
                continue
            if tests:
                reached[mutant] = tests
            else:
                write_result(results, mutant, Fate.SURVIVED, "no query has other rows")
        print(f"{file}: {sum(mutant.file == file for mutant in reached)} mutants have an effect", flush=True)
    return reached


def _read_sql(package: str) -> Mapping[str, str]:
    paths = sorted((JUDGING / package).rglob("*.sql"))
    # Macros are no query, and every other file depends on them.
    return {str(path.relative_to(JUDGING)): path.read_text(encoding="utf-8") for path in paths if path.stem != "macros"}


class Trial:
    """A child process that runs the session's tests with changed SQL until one fails."""

    def __init__(
        self,
        session: pytest.Session,
        items: Sequence[pytest.Item],
        changed: Mapping[str, str],
        prepare: Callable[[pytest.Session], Callable[[], None]] = lambda _: lambda: None,
    ) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="brokerproof-mutants-")
        self.answer, end = multiprocessing.Pipe(duplex=False)
        self._started = time.monotonic()
        context = multiprocessing.get_context("fork")
        self._process = context.Process(
            target=_run_tests, args=(session, items, changed, self._directory.name, end, prepare)
        )
        self._process.start()
        end.close()

    def __enter__(self) -> Trial:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()
        self._directory.cleanup()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def conclude(self, limit_s: float) -> tuple[Fate, str]:
        """Return what becomes of the mutant, and the test that failed."""
        if not self.answer.poll(limit_s):
            return Fate.TIME, ""
        try:
            fate, why = self.answer.recv()
        except EOFError:
            # It exceeded its memory, or DuckDB crashed.
            return Fate.TEST, "(the process ended)"
        return Fate(fate), why


def _run_tests(
    session: pytest.Session,
    items: Sequence[pytest.Item],
    changed: Mapping[str, str],
    directory: str,
    answer: Connection,
    prepare: Callable[[pytest.Session], Callable[[], None]],
) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    tempfile.tempdir = directory
    session.config._tmp_path_factory._basetemp = Path(directory)  # type: ignore[attr-defined]
    change_sql(changed)
    observer = FirstFailure()
    session.config.pluginmanager.register(observer)
    logging.getLogger().addHandler(observer)
    end = prepare(session)
    for item, following in zip(items, [*items[1:], None], strict=True):
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if observer.fate is not Fate.SURVIVED:
            break
    end()
    answer.send((str(observer.fate), observer.test))
    os._exit(0)


class FirstFailure(logging.Handler):
    """Keeps what the first failed test says about a mutant. Suites log the error that makes their verdict `unknown`."""

    def __init__(self) -> None:
        super().__init__()
        self.fate, self.test = Fate.SURVIVED, ""
        self._is_refused = False

    def emit(self, record: logging.LogRecord) -> None:
        self._is_refused |= bool(record.exc_info) and _is_refused(record.exc_info[1])  # type: ignore[index]

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        yield
        error = None if call.excinfo is None else call.excinfo.value
        if error is not None and self.fate is Fate.SURVIVED and not isinstance(error, pytest.skip.Exception):
            self.test = item.nodeid.rpartition("/")[2]
            self.fate = Fate.NO_MUTANT if self._is_refused or _is_refused(error) else Fate.TEST


def _is_refused(error: BaseException | None) -> bool:
    return error is not None and (isinstance(error, _REFUSED) or _is_refused(error.__cause__ or error.__context__))


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


def hash_code() -> str:
    """Return a hash of all files on which a mutant's fate depends."""
    total = hashlib.sha256()
    for folder in CODE:
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix in (".py", ".sql", ".yaml", ".jsonl") and file.name not in (
                "sql_campaign.py",
                "sql_replay.py",
            ):
                total.update(f"{file.relative_to(ROOT)} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()[:16]


def read_results(file: Path) -> dict[str, Fate]:
    """Return the fates that an earlier campaign wrote, by mutant. A last line that was cut off is left out."""
    fates = {}
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        fates[row["mutant"]] = Fate(row["fate"])
    return fates


def summarize(fates: Sequence[Fate]) -> str:
    counts = Counter(fates)
    all_ = len(fates) - counts[Fate.NO_MUTANT]
    killed = all_ - counts[Fate.SURVIVED]
    share = f"{killed / all_:.1%}" if all_ else "nothing"
    return (
        f"{killed} of {all_} mutants killed ({share}), {counts[Fate.TIME]} of them by time; "
        f"{counts[Fate.NO_MUTANT]} were refused by DuckDB and do not count"
    )


def find_stale_reasons(reasons: Mapping[str, str], fates: Mapping[Mutant, Fate]) -> list[str]:
    """Return a sentence for each reason of a mutant that does not survive or that does not exist."""
    names = {name_survivor(mutant): fate for mutant, fate in fates.items()}
    return [
        f"The reason for `{name}` is stale: {names.get(name, 'there is no such mutant')}."
        for name in reasons
        if names.get(name) is not Fate.SURVIVED
    ]


def name_survivor(mutant: Mutant) -> str:
    return f"{mutant.file} {mutant.key}"


def run_package(package: str, mutants: Sequence[Mutant], results: Path, options: argparse.Namespace) -> None:
    os.environ["BROKERPROOF_HISTORIES"] = str(options.histories)
    recording = results.with_name(f"{results.stem}-{package}.pickle")
    if not recording.exists():
        run_tests(package, Recording(package, recording))
    print(f"{len(mutants)} mutants of `{package}`", flush=True)
    run_tests(package, Campaign(screen(mutants, recording, results), results, options))


def run_tests(package: str, plugin: object) -> None:
    # Child processes need not import it again, which would take seconds.
    import_module(f"brokerproof_judging.{IMPORTED_EARLY.get(package, 'run_judging')}")
    status = pytest.main([*ARGUMENTS, *(f"{TESTS}/{name}" for name in PACKAGES[package])], plugins=[plugin])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise SystemExit(f"The campaign of `{package}` ended with the status {status}.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="the share of all mutants that is tried")
    parser.add_argument("--seed", type=int, default=0, help="chooses the share")
    parser.add_argument("--packages", nargs="*", default=list(PACKAGES), choices=list(PACKAGES))
    parser.add_argument("--files", default="*.sql", help="the files to change, as a pattern of their names")
    parser.add_argument("--histories", type=int, default=2000, help="the number of random histories")
    parser.add_argument("--minutes", type=float, default=600, help="no mutant is begun later")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--results", type=Path, default=ROOT / "var" / "mutants")
    options = parser.parse_args()
    os.chdir(ROOT)
    results = options.results / f"{hash_code()}-{options.histories}.jsonl"
    results.parent.mkdir(parents=True, exist_ok=True)
    print(f"The results are in {results}.", flush=True)
    mutants = [
        mutant
        for package in options.packages
        for mutant in list_mutants(package, options.files, options.share, options.seed)
    ]
    for package in options.packages:
        known = read_results(results)
        todo = [each for each in mutants if each.file.startswith(f"{package}/") and each.key not in known]
        if todo:
            run_package(package, todo, results, options)
    is_whole = options.share == 1 and options.files == "*.sql" and set(options.packages) == set(PACKAGES)
    raise SystemExit(report(mutants, read_results(results), is_whole=is_whole))


def report(mutants: Sequence[Mutant], known: Mapping[str, Fate], *, is_whole: bool) -> int:
    """Print the survivors with their reasons and the shares. Return 1 if a mutant was not tried, or a reason is stale.

    Reasons can be stale only if the mutants are the `is_whole` list of all files.
    """
    fates = {mutant: known[mutant.key] for mutant in mutants if mutant.key in known}
    reasons = json.loads(REASONS.read_text(encoding="utf-8")) if REASONS.exists() else {}
    for mutant, fate in fates.items():
        if fate is Fate.SURVIVED:
            reason = reasons.get(name_survivor(mutant), "no reason is known")
            print(f"survived: {name_survivor(mutant)}: {mutant.change}: {reason}")
    for file in sorted({mutant.file for mutant in fates}):
        print(f"{file}: {summarize([fate for mutant, fate in fates.items() if mutant.file == file])}")
    stale = find_stale_reasons(reasons, fates) if is_whole else []
    for sentence in stale:
        print(sentence)
    if len(fates) < len(mutants):
        print(f"{len(mutants) - len(fates)} mutants were not tried; the next call continues.")
    print(summarize(list(fates.values())))
    return 1 if stale or len(fates) < len(mutants) else 0


if __name__ == "__main__":
    main()
