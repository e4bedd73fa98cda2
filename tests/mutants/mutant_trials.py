"""Runs tests against mutants of judging, and says what becomes of each mutant.

pytest collects the tests once. A child process runs tests against each mutant, and ends with the first test that fails.
A mutant is killed if a test fails, or if the tests exceed their time. All other mutants survive, equivalent ones too.
Results are kept by the hash of the code, so a campaign that was ended continues. If the code or a test changed, every
mutant is tried again, and the test that killed it before the change runs first.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from enum import StrEnum
from importlib import import_module
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

ROOT = Path(__file__).resolve().parents[2]
# The tests run in this process and its children, and import modules from there.
sys.path[:0] = [
    str(ROOT / name) for name in ("plugins", "spark_jobs", "tests/systems", "tests/installations", "tests/mutants")
]
TESTS = "tests/unit/judging"
# A traceback with sources would take a tenth of the time of a mutant.
ARGUMENTS = (
    *("-p", "spark_in_process", "-p", "no:cacheprovider", "-n0", "-q", "-s", "--tb=native", f"--rootdir={ROOT}"),
)
CODE = ("spark_jobs/brokerproof_judging", "plugins/brokerproof", TESTS, "tests/mutants")
# Files that do not change what becomes of a mutant.
_NO_CODE = (
    *(f"tests/mutants/{name}" for name in ("mutant_t*.py", "*_campaign.py", "sql_replay.py", "*.json")),
    f"{TESTS}/test_sql_*.py",
)
# The random histories that judge mutants. The 2,000 of `make judging` would take four times as long.
HISTORIES = "500"
# The variable of the directory in which `kept_messages.py` keeps what judging finds about messages.
KEPT_MESSAGES = "BROKERPROOF_KEPT_MESSAGES"
# Modules that tests import late. Child processes need not import them again, which would take half of their time.
_IMPORTED_EARLY = ("brokerproof_judging.run_judging", "brokerproof.systems.pulsar.system", "pandas")
_MEMORY = 8 << 30
# The tests that killed most mutants of each part, and the largest number of tests of a part.
KILLS = ROOT / "tests" / "mutants" / "kills.json"
_MOST_KILLERS = 6
# Why mutants survive: {file and key: the change, and the reason}.
REASONS = KILLS.with_name("survivors.json")
# The tests against a mutant may take this many times their usual processor time, and some seconds more. If the usual
# time is not known, and while they wait, they may take the longest time. It is many times as long as all tests take.
_USUAL_TIMES, _SPARE_S, _LONGEST_S = 10, 30, 900
# For the order of tests: a mutant that was killed in the same file or part counts as much as this many others. A test
# that killed none counts as one. Beginning a test takes this many seconds.
_FILE_WEIGHT, _PART_WEIGHT, _UNTRIED, _START_S = 10, 100, 1, 0.02


class Fate(StrEnum):
    TEST = "killed by a test"
    TIME = "killed by time"
    SURVIVED = "survived"
    NO_MUTANT = "not a mutant"


class Mutant(Protocol):
    """A change of a file. `key` is the hash of the file's name and of the changed code.

    `part` is the part of the file that one test is likely to cover: a function, or all of a SQL file.
    """

    @property
    def file(self) -> str: ...
    @property
    def part(self) -> str: ...
    @property
    def change(self) -> str: ...
    @property
    def key(self) -> str: ...


M = TypeVar("M", bound=Mutant)
# Prepares a child process for its tests, and returns what it has to do after them if none failed.
Prepare = Callable[[pytest.Session], Callable[[], None]]


class Recording:
    """A plugin of pytest that runs the collected tests once, in a child process that `prepare` has keep something."""

    def __init__(self, prepare: Prepare) -> None:
        self._prepare = prepare

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        with Trial(session, session.items, self._prepare) as trial:
            fate, why = trial.conclude(limit_s=3600)
        if fate is not Fate.SURVIVED:
            raise pytest.UsageError(f"Without a change, a test fails ({fate} {why}).")
        return True


class Campaign:
    """A plugin of pytest that runs the tests that may notice a mutant against each mutant, instead of once.

    The test that killed the mutant in an earlier campaign runs first, then the tests of the file `test_<changed file>`.
    The others run in the order of the mutants that they are likely to kill in a second. `mutants` has the tests that
    may notice each mutant, none if all may. If one of `partly` survives its tests, all others run too.
    """

    def __init__(
        self,
        mutants: Mapping[Any, Sequence[str]],
        prepare: Callable[[Any], Prepare],
        results: Path,
        options: argparse.Namespace,
        *,
        refused: tuple[type[Exception], ...] = (),
        partly: Set[Any] = frozenset(),
        usual: Mapping[str, float] | None = None,
    ) -> None:
        """`usual` has the processor seconds that tests take without a change."""
        self._partly, self._usual = set(partly), usual
        self._mutants, self._prepare, self._refused = dict(mutants), prepare, refused
        self._results, self._options = results, options
        # By part, by file and in all, how many mutants each test killed.
        self._kills: dict[str, Counter[str]] = defaultdict(Counter)
        self._killers = read_killers(results.parent)
        for file, parts in read_kills().items():
            for part, kills in parts.items():
                for place in {part, file, ""}:
                    self._kills[place].update(kills)
        for row in _read_rows(results):
            self._count_kill(Fate(row["fate"]), row["why"], row["file"], "")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        collected = {item.nodeid: item for item in session.items}
        waiting, running = list(self._mutants)[::-1], dict[Any, tuple[Mutant, Trial]]()
        ends_at = time.monotonic() + 60 * self._options.minutes
        while running or (waiting and time.monotonic() < ends_at):
            while waiting and len(running) < self._options.processes and time.monotonic() < ends_at:
                mutant = waiting.pop()
                # The test that killed the mutant before may be gone.
                tests = [test for test in self._mutants[mutant] if test in collected]
                items = [collected[test] for test in tests] or session.items
                items = self._sort_tests(mutant, items)
                limit_s = _LONGEST_S
                if self._usual is not None:
                    limit_s = _SPARE_S + int(_USUAL_TIMES * sum(self._usual[item.nodeid] for item in items))
                trial = Trial(session, items, self._prepare(mutant), self._refused, limit_s)
                running[trial.answer] = (mutant, trial)
            ready = wait(list(running), timeout=1)
            late = [answer for answer, (_, trial) in running.items() if trial.seconds > _LONGEST_S]
            for answer in {*ready, *late}:
                mutant, trial = running.pop(answer)
                with trial:
                    fate, why = trial.conclude(limit_s=0)
                self._count_kill(fate, why, *{mutant.part, mutant.file, ""})
                if fate is Fate.SURVIVED and mutant in self._partly:
                    self._partly.remove(mutant)
                    self._mutants[mutant] = ()
                    waiting.append(mutant)
                    continue
                write_result(self._results, mutant, fate, why, trial.seconds)
                print(f"{len(waiting)} left: {mutant.file}: {fate} {why} after {trial.seconds:.0f} s", flush=True)
            for answer in [each for each, (_, trial) in running.items() if trial.seconds > self._options.seconds]:
                mutant, trial = running.pop(answer)
                with trial:
                    print(f"{len(waiting)} left: {mutant.file}: left open: {mutant.change}", flush=True)
        return True

    def _sort_tests(self, mutant: Mutant, items: Sequence[pytest.Item]) -> list[pytest.Item]:
        killer = self._killers.get(mutant.key)
        weights = {"": 1, mutant.file: _FILE_WEIGHT, mutant.part: _PART_WEIGHT}
        own_tests = f"/test_{Path(mutant.file).stem}.py::"

        def sort_key(item: pytest.Item) -> tuple[bool, bool, float]:
            name = item.nodeid
            seconds = 1 if self._usual is None else self._usual[name] + _START_S
            kills = sum(weight * self._kills[each][name] for each, weight in weights.items())
            return name != killer, own_tests not in name, -(kills + _UNTRIED) / seconds

        return sorted(items, key=sort_key)

    def _count_kill(self, fate: Fate, test: str, *places: str) -> None:
        for place in places:
            self._kills[place][test] += fate is Fate.TEST


class Trial:
    """A child process that runs tests, after `prepare` changed what they test, until one fails."""

    def __init__(
        self,
        session: pytest.Session,
        items: Sequence[pytest.Item],
        prepare: Prepare,
        refused: tuple[type[Exception], ...] = (),
        limit_s: int = 3600,
    ) -> None:
        """Start the process. It ends after `limit_s` processor seconds."""
        self._directory = tempfile.TemporaryDirectory(prefix="brokerproof-mutants-")
        self.answer, end = multiprocessing.Pipe(duplex=False)
        self._started = time.monotonic()
        arguments = (session, items, prepare, refused, limit_s, self._directory.name, end)
        self._process = multiprocessing.get_context("fork").Process(target=_run_tests, args=arguments)
        self._process.start()
        end.close()

    def __enter__(self) -> Trial:
        return self

    def __exit__(self, *_: object) -> None:
        """End the process and those that it started, such as Spark's."""
        # It may not lead its group yet.
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # type: ignore[arg-type]
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
            self._process.join()
            if self._process.exitcode == -signal.SIGXCPU:
                return Fate.TIME, ""
            # It exceeded its memory, or DuckDB crashed.
            return Fate.TEST, "(the process ended)"
        return Fate(fate), why


def _run_tests(
    session: pytest.Session,
    items: Sequence[pytest.Item],
    prepare: Prepare,
    refused: tuple[type[Exception], ...],
    limit_s: int,
    directory: str,
    answer: Connection,
) -> None:
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s + 5))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    tempfile.tempdir = directory
    session.config._tmp_path_factory._basetemp = Path(directory)  # type: ignore[attr-defined]
    observer = FirstFailure(refused)
    session.config.pluginmanager.register(observer)
    logging.getLogger().addHandler(observer)
    end = prepare(session)
    for item, following in zip(items, [*items[1:], None], strict=True):
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if observer.fate is not Fate.SURVIVED:
            break
    # A recording without the tests after a failed one would show too few effects of mutants.
    if observer.fate is Fate.SURVIVED:
        end()
    answer.send((str(observer.fate), observer.test))
    os._exit(0)


class FirstFailure(logging.Handler):
    """Keeps what the first failed test says about a mutant. Suites log the error that makes their verdict `unknown`.

    A change that ends with an error of the classes `refused` is no mutant.
    """

    def __init__(self, refused: tuple[type[Exception], ...]) -> None:
        super().__init__()
        self.fate, self.test, self._refused = Fate.SURVIVED, "", refused
        self._is_refused = False

    def emit(self, record: logging.LogRecord) -> None:
        self._is_refused |= bool(record.exc_info) and self._refuses(record.exc_info[1])  # type: ignore[index]

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        yield
        error = None if call.excinfo is None else call.excinfo.value
        if error is not None and self.fate is Fate.SURVIVED and not isinstance(error, pytest.skip.Exception):
            self.test = item.nodeid
            self.fate = Fate.NO_MUTANT if self._is_refused or self._refuses(error) else Fate.TEST

    def _refuses(self, error: BaseException | None) -> bool:
        return error is not None and (
            isinstance(error, self._refused) or self._refuses(error.__cause__ or error.__context__)
        )


def run_pytest(tests: Sequence[str], plugin: object) -> None:
    """Run tests without Spark, with a plugin. Raises SystemExit if pytest cannot run them."""
    for name in _IMPORTED_EARLY:
        import_module(name)
    if any("/suites" in test for test in tests):
        # Great Expectations is imported late, and takes five seconds.
        for name in ("brokerproof_judging.suites.evaluation", "great_expectations"):
            import_module(name)
    status = pytest.main([*ARGUMENTS, *tests], plugins=[plugin])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise SystemExit(f"The campaign with {', '.join(tests)} ended with the status {status}.")


def keep_messages(results: Path, *, kept: bool) -> None:
    """Have tests judge the messages of each planted run once, if no mutant can change what judging finds about them."""
    if kept:
        os.environ[KEPT_MESSAGES] = str(results.with_name(f"{results.stem}-judged"))
    else:
        os.environ.pop(KEPT_MESSAGES, None)


def find_results() -> Path:
    """Return the file of results, which is named after a hash of all files on which a mutant's fate depends."""
    total = hashlib.sha256()
    for folder in CODE:
        for file in sorted((ROOT / folder).rglob("*")):
            is_code = file.suffix in (".py", ".sql", ".yaml", ".json", ".jsonl")
            if is_code and not any(file.match(name) for name in _NO_CODE):
                total.update(f"{file.relative_to(ROOT)} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    results = ROOT / "var" / "mutants" / f"{total.hexdigest()[:16]}.jsonl"
    results.parent.mkdir(parents=True, exist_ok=True)
    return results


def write_result(results: Path, mutant: Mutant, fate: Fate, why: str, seconds: float = 0) -> None:
    row = {"mutant": mutant.key, "file": mutant.file, "change": mutant.change, "fate": fate, "why": why}
    with results.open("a", encoding="utf-8") as opened:
        opened.write(json.dumps({**row, "seconds": round(seconds, 1)}) + "\n")


def read_results(file: Path) -> dict[str, tuple[Fate, float]]:
    """Return the fates and seconds that an earlier campaign wrote, by mutant. A line that was cut off is left out."""
    return {row["mutant"]: (Fate(row["fate"]), row["seconds"]) for row in _read_rows(file)}


def _read_rows(file: Path) -> Iterator[dict[str, Any]]:
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        try:
            yield json.loads(line)
        except ValueError:
            continue


def read_killers(folder: Path) -> dict[str, str]:
    """Return the test that killed each mutant in the latest campaign that killed it, with any version of the code."""
    killers: dict[str, str] = {}
    for file in sorted(folder.glob("*.jsonl"), key=lambda file: file.stat().st_mtime):
        killers |= {row["mutant"]: row["why"] for row in _read_rows(file) if row["fate"] == Fate.TEST}
    return killers


def read_kills() -> Mapping[str, Mapping[str, Mapping[str, int]]]:
    """Return {file: {part: {test: number of mutants that it killed}}}, as `write_kills` wrote it."""
    return json.loads(KILLS.read_text(encoding="utf-8")) if KILLS.exists() else {}


def write_kills(mutants: Iterable[Mutant], results: Path) -> None:
    """Write for each part the tests that killed most of its mutants. The next campaign runs them first."""
    named = {mutant.key: mutant for mutant in mutants}
    kills: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for row in _read_rows(results):
        if row["fate"] == Fate.TEST and (mutant := named.get(row["mutant"])) is not None:
            kills[mutant.file, mutant.part][row["why"]] += 1
    content: dict[str, dict[str, dict[str, int]]] = {}
    for (file, part), tests in sorted(kills.items()):
        content.setdefault(file, {})[part] = dict(tests.most_common(_MOST_KILLERS))
    KILLS.write_text(f"{json.dumps(content, indent=1, ensure_ascii=False)}\n", encoding="utf-8")


def report(mutants: Sequence[Mutant], known: Mapping[str, tuple[Fate, float]], reasons: Mapping[str, str]) -> int:
    """Print the survivors with their reasons, and a table. Return 1 if a mutant was not tried, or a reason is stale."""
    fates = {mutant: known[mutant.key] for mutant in mutants if mutant.key in known}
    for mutant, (fate, _) in fates.items():
        if fate is Fate.SURVIVED:
            reason = reasons.get(name_survivor(mutant), "no reason is known")
            print(f"survived: {name_survivor(mutant)}: {mutant.change}: {reason}")
    is_whole = len(fates) == len(mutants)
    stale = find_stale_reasons(reasons, {mutant: fate for mutant, (fate, _) in fates.items()}) if is_whole else []
    for sentence in stale:
        print(sentence)
    if not is_whole:
        print(f"{len(mutants) - len(fates)} mutants were not tried; the next call continues.")
    width = max((len(mutant.file) for mutant in fates), default=0)
    print(f"{'file':{width}} {'mutants':>8} {'killed':>7} {'by time':>8} {'refused':>8} {'share':>7} {'seconds':>8}")
    files = sorted({mutant.file for mutant in fates})
    for file in [*files, ""]:
        rows = [row for mutant, row in fates.items() if file in ("", mutant.file)]
        print(f"{file or 'all':{width}} {summarize(rows)}")
    return 1 if stale or not is_whole else 0


def summarize(rows: Sequence[tuple[Fate, float]]) -> str:
    """Return the columns of a table, from the number of mutants to the seconds. Refused changes are no mutants."""
    counts = Counter(fate for fate, _ in rows)
    mutants = len(rows) - counts[Fate.NO_MUTANT]
    killed = mutants - counts[Fate.SURVIVED]
    share = f"{killed / mutants:.1%}" if mutants else "none"
    seconds = sum(seconds for _, seconds in rows)
    times, refused = counts[Fate.TIME], counts[Fate.NO_MUTANT]
    return f"{mutants:8} {killed:7} {times:8} {refused:8} {share:>7} {seconds:8.0f}"


def find_stale_reasons(reasons: Mapping[str, str], fates: Mapping[Any, Fate]) -> list[str]:
    """Return a sentence for each reason of a mutant that does not survive or that does not exist."""
    names = {name_survivor(mutant): fate for mutant, fate in fates.items()}
    return [
        f"The reason for `{name}` is stale: {names.get(name, 'there is no such mutant')}."
        for name in reasons
        if names.get(name) is not Fate.SURVIVED
    ]


def name_survivor(mutant: Mutant) -> str:
    return f"{mutant.file} {mutant.key}"


def read_reasons(file: Path = REASONS) -> Mapping[str, str]:
    return json.loads(file.read_text(encoding="utf-8"))


def set_survivors_aside(mutants: Iterable[M], results: Path, options: argparse.Namespace) -> list[M]:
    """Return the mutants without a reason why they survive. Those with a reason count as survivors without a trial.

    With the option `--all`, return all mutants. A survivor takes as long as fifty killed mutants.
    """
    reasons = {} if options.all else read_reasons()
    tried: list[M] = []
    for mutant in mutants:
        if name_survivor(mutant) in reasons:
            write_result(results, mutant, Fate.SURVIVED, "it has a reason")
        else:
            tried.append(mutant)
    return tried


def make_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser of the options that both campaigns have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--all", action="store_true", help="try mutants with a reason why they survive, too")
    parser.add_argument("--minutes", type=float, default=600, help="no mutant is begun later")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--seconds",
        type=float,
        default=float("inf"),
        help="a mutant that no test kills in this time is named and left to a later call, because it may survive",
    )
    return parser
