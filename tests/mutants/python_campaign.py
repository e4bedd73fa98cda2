"""Runs the tests of judging against each mutant of the Python code that decides verdicts, and prints a table.

mutmut makes the mutants, those of texts left out: each function gets a copy for each change, and the name of one mutant
says which copy is called. The files of the checkout do not change, because the changed modules are only in memory. The
tests run once without a change, and which test reaches which function is kept. A child process runs the tests that
reach the function of a mutant. Those run first that are likely to kill most in a second. The process ends with the
first test that fails.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

# `make mutants` installs mutmut there. The environment's own packages come first.
sys.path.append(str(Path(sys.prefix) / "mutmut"))

from mutant_trials import (
    HISTORIES,
    ROOT,
    Campaign,
    Fate,
    Prepare,
    Recording,
    find_results,
    keep_messages,
    make_parser,
    read_results,
    run_pytest,
    set_survivors_aside,
    write_result,
)
from mutmut.mutation import file_mutation, mutators, trampoline
from sql_mutants import find_difference

JUDGING = "spark_jobs/brokerproof_judging"
MESSAGES = "tests/unit/judging/messages"
# Names of groups of files, with the tests that run against their mutants.
GROUPS: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "messages": (
        [f"{JUDGING}/messages/{name}.py" for name in ("legality", "publish_record")],
        [
            *(f"{MESSAGES}/test_{name}.py" for name in ("publish_record", "legality", "expected_rows", "anomalies")),
            *(f"tests/unit/judging/test_{name}.py" for name in ("evidence", "instrument", "client_counts")),
        ],
    ),
    "evidence": (
        [f"{JUDGING}/{name}.py" for name in ("applicability", "client_counts", "evidence", "instrument", "wall_clock")],
        [
            f"tests/unit/judging/test_{name}.py"
            for name in ("applicability", "client_counts", "evidence", "instrument", "wall_clock")
        ],
    ),
    "measurements": (
        [
            f"{JUDGING}/measurements/{name}.py"
            for name in (
                *("catching_up", "failover", "interruption", "link", "losses", "measured_values", "placement"),
                *("publishing", "run_measurements", "run_times", "sampling", "samples", "standstills", "waiting"),
            )
        ],
        ["tests/unit/judging/measurements"],
    ),
    "suites": (
        [
            f"{JUDGING}/suites/{name}.py"
            for name in (
                *("cross_check", "evaluation", "expectation_answers", "measurement_expectation"),
                *("message_expectation", "message_groups", "row_expectation", "tally"),
            )
        ],
        [
            f"tests/unit/judging/suites/test_{name}.py"
            for name in (
                *("cross_check", "evaluation", "expectation_answers", "measurement_expectation", "measurements"),
                *("message_expectation", "messages", "not_applicable", "every_scenario", "standard_expectations"),
            )
        ],
    ),
    "verdicts": (
        [f"plugins/brokerproof/experiment/{name}.py" for name in ("guarantees", "verdict")],
        [
            *(f"{MESSAGES}/test_legality.py", "tests/unit/run/test_judgement.py"),
            *(f"tests/unit/judging/{name}.py" for name in ("test_evidence", "suites/test_not_applicable")),
        ],
    ),
}
# The groups whose files work on messages that were judged.
AFTER_MESSAGES = ("measurements", "suites")
# mutmut's changes of texts, which are for people or are names of columns.
mutators.mutation_operators[:] = [
    each for each in mutators.mutation_operators if each[1] is not mutators.operator_string
]


@dataclass(frozen=True, kw_only=True)
class PythonMutant:
    """A changed copy of a function. `name` is mutmut's name of it; `part` is that of all copies of the function."""

    file: str
    name: str
    part: str
    change: str
    key: str


def read_module_name(file: str) -> str:
    return ".".join(Path(file).with_suffix("").parts[1:])


def change_file(file: str) -> tuple[str, list[PythonMutant]]:
    """Return the code of a file with a copy of its functions for each change, and its mutants."""
    changed = file_mutation.mutate_file_contents(file, (ROOT / file).read_text(encoding="utf-8"))
    # The code of each copy, without its name.
    copies = {
        node.name: ast.unparse([*node.decorator_list, node.args, *node.body])  # type: ignore[arg-type]
        for node in ast.walk(ast.parse(changed.code))
        if isinstance(node, ast.FunctionDef)
    }
    return changed.code, list(_list_mutants(file, changed.mutant_names, copies))


def _list_mutants(file: str, names: Sequence[str], copies: Mapping[str, str]) -> Iterator[PythonMutant]:
    for name in names:
        function, code = name.partition("__mutmut_")[0], copies[name]
        before, after = find_difference(copies[f"{function}__mutmut_orig"], code)
        key = hashlib.sha256(f"{file}\n{function}\n{code}".encode()).hexdigest()[:16]
        module = read_module_name(file)
        yield PythonMutant(
            file=file,
            name=f"{module}.{name}",
            part=f"{module}.{function}",
            change=f"{function.removeprefix('x_')}: {before} → {after}",
            key=key,
        )


class ChangedModules(importlib.abc.MetaPathFinder):
    """Has Python import the changed code of some files."""

    def __init__(self, codes: Mapping[str, str]) -> None:
        self._files = {read_module_name(file): file for file in codes}
        self._codes = codes

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        del path, target
        if (file := self._files.get(name)) is None:
            return None
        loader = _Loader(name, str(ROOT / file), self._codes[file])
        return importlib.util.spec_from_file_location(name, ROOT / file, loader=loader)


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, code: str) -> None:
        super().__init__(name, path)
        self._code = code

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._code, self.get_filename(fullname), "exec", dont_inherit=True)


class Reach:
    """A plugin of pytest that keeps which functions each test and its fixtures reach, and how long the test takes.

    A fixture that several tests share runs for the first of them, but all of them may notice a mutant in it, and each
    may be the one that runs it.
    """

    def __init__(self) -> None:
        self._reached: set[str] = set()
        self._reached_by: dict[Any, set[str]] = defaultdict(set)
        self.tests: dict[str, set[str]] = defaultdict(set)
        self.seconds: dict[str, float] = defaultdict(float)
        # The seconds of each shared fixture, and of all of them so far.
        self._of_shared: dict[Any, float] = defaultdict(float)
        self._in_shared = 0.0
        trampoline.record_trampoline_hit = lambda name, caller=None: self._reached.add(name)
        trampoline.set_mutant_under_test("stats")

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        started = time.process_time() - self._in_shared
        yield
        named = item._fixtureinfo.name2fixturedefs.values()  # type: ignore[attr-defined]
        shared = [each for fixtures in named for each in fixtures]
        own = time.process_time() - self._in_shared - started
        self.seconds[item.nodeid] = own + sum(self._of_shared[each] for each in shared)
        for function in self._reached.union(*(self._reached_by[each] for each in shared)):
            self.tests[function].add(item.nodeid)
        self._reached.clear()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
        before, self._reached = self._reached, set()
        started = time.process_time()
        yield
        if fixturedef.scope != "function":
            self._reached_by[fixturedef] |= self._reached
            self._of_shared[fixturedef] += (seconds := time.process_time() - started)
            self._in_shared += seconds
        self._reached |= before

    def write(self, file: Path) -> None:
        tests = {name: sorted(tests, key=self.seconds.__getitem__) for name, tests in self.tests.items()}
        file.write_text(json.dumps({"tests": tests, "seconds": self.seconds}), encoding="utf-8")


def activate(mutant: PythonMutant) -> Prepare:
    """Prepare a child process by having it call the mutant instead of the function."""

    def prepare(session: pytest.Session) -> Callable[[], None]:
        del session
        trampoline.set_mutant_under_test(mutant.name)
        return lambda: None

    return prepare


def record_reach(file: Path, session: pytest.Session) -> Callable[[], None]:
    """Have a child process keep which functions the tests reach."""
    reach = Reach()
    session.config.pluginmanager.register(reach)
    return partial(reach.write, file)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--groups", nargs="*", default=list(GROUPS), choices=list(GROUPS))
    options = parser.parse_args()
    os.chdir(ROOT)
    # A process runs the mutants of one group, because the tests import the changed modules once.
    if len(options.groups) == 1:
        run_group(options.groups[0], options)
        return
    command = [sys.executable, __file__, "--minutes", str(options.minutes), "--processes", str(options.processes)]
    command += ["--seconds", str(options.seconds)]
    command += ["--all"] if options.all else []
    for group in options.groups:
        subprocess.run([*command, "--groups", group], check=True)


def run_group(group: str, options: argparse.Namespace) -> None:
    files, tests = GROUPS[group]
    changed = {file: change_file(file) for file in files}
    sys.meta_path.insert(0, ChangedModules({file: code for file, (code, _) in changed.items()}))
    trampoline.set_mutant_under_test("")
    os.environ["BROKERPROOF_HISTORIES"] = HISTORIES
    mutants = [mutant for _, some in changed.values() for mutant in some]
    results = find_results()
    keep_messages(results, kept=group in AFTER_MESSAGES)
    reach = results.with_name(f"{results.stem}-{group}.json")
    if not reach.exists():
        run_pytest(tests, Recording(partial(record_reach, reach)))
    recorded = json.loads(reach.read_text(encoding="utf-8"))
    known = read_results(results)
    new = set_survivors_aside([mutant for mutant in mutants if mutant.key not in known], results, options)
    todo = {mutant: recorded["tests"].get(mutant.part, []) for mutant in new}
    for mutant in [mutant for mutant, names in todo.items() if not names]:
        write_result(results, mutant, Fate.SURVIVED, "no test reaches it")
        del todo[mutant]
    if todo:
        run_pytest(tests, Campaign(todo, activate, results, options, usual=recorded["seconds"]))


if __name__ == "__main__":
    main()
