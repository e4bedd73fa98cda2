"""Judges the differential test's histories with each mutant of the messages' SQL, and prints the share that is killed.

A mutant is killed if judging fails or answers otherwise than the reference judge, or if it exceeds its time. SQL that
DuckDB refuses to parse or to bind is not a mutant and is not counted. All other mutants survive, equivalent ones too.
Results are kept by the hash of the code, so that a campaign that was ended continues.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import random
import resource
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import duckdb

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from differential_histories import Answer, Judge, write_histories  # noqa: E402
from judging_in_process import SQL, judge_messages  # noqa: E402
from sql_mutants import make_mutants, rewrite  # noqa: E402

CODE = ("spark_jobs/brokerproof_judging", "plugins/brokerproof", "tests/unit/judging", "tests/mutants")
_MEMORY = 4 << 30
_REFUSED = (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException)


class Fate(StrEnum):
    ANSWER = "killed by its answer"
    ERROR = "killed by an error"
    TIME = "killed by time"
    SURVIVED = "survived"
    NO_MUTANT = "not a mutant"


def find_fate(runs: Sequence[tuple[Any, Answer]], changed: Mapping[str, str], judge: Judge = judge_messages) -> Fate:
    """Return what becomes of a mutant: the SQL files that it changes, by name."""
    for run, expected in runs:
        try:
            if judge(run, changed) != expected:
                return Fate.ANSWER
        except _REFUSED:
            return Fate.NO_MUTANT
        except Exception:
            return Fate.ERROR
    return Fate.SURVIVED


def hash_code() -> str:
    """Return a hash of all files on which a mutant's fate depends."""
    total = hashlib.sha256()
    for folder in CODE:
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix in (".py", ".sql", ".yaml"):
                total.update(f"{file.relative_to(ROOT)} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()[:16]


class Judging:
    """A process that judges one mutant after the other. If a mutant exceeds its time, the process is replaced."""

    def __init__(self, runs: Sequence[tuple[Any, Answer]], limit_s: float, judge: Judge = judge_messages) -> None:
        self._runs, self._limit_s, self._judge = runs, limit_s, judge
        self._start()

    def find_fate(self, changed: Mapping[str, str]) -> Fate:
        self._pipe.send(changed)
        if self._pipe.poll(self._limit_s):
            try:
                return Fate(self._pipe.recv())
            except EOFError:
                # The process exceeded its memory and ended.
                self.end()
                self._start()
                return Fate.ERROR
        self.end()
        self._start()
        return Fate.TIME

    def end(self) -> None:
        self._process.kill()
        self._process.join()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, end = context.Pipe()
        self._process = context.Process(target=_serve, args=(end, self._runs, self._judge), daemon=True)
        self._process.start()
        end.close()


def _serve(pipe: Connection, runs: Sequence[tuple[Any, Answer]], judge: Judge) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    while True:
        pipe.send(str(find_fate(runs, pipe.recv(), judge)))


def list_mutants(share: float, seed: int, pattern: str = "*.sql") -> Iterator[tuple[str, str, str]]:
    """Yield (file, change, SQL) of a share of the mutants of each file, which the seed chooses."""
    for path in sorted(SQL.rglob(pattern)):
        chance = random.Random(f"{seed} {path.name}")
        for mutant in make_mutants(path.read_text(encoding="utf-8")):
            if chance.random() < share:
                yield str(path.relative_to(SQL)), str(mutant), mutant.sql


def read_results(file: Path) -> dict[str, Fate]:
    """Return the fates that an earlier campaign wrote. A last line that was cut off is left out."""
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


def run_campaign(options: argparse.Namespace, directory: Path) -> list[tuple[str, str, Fate]]:
    """Return (file, change, fate) of each mutant. Fates that are known from an earlier campaign are not worked out."""
    mutants = list(list_mutants(options.share, options.seed, options.files))
    results = options.results / f"{hash_code()}-{options.batches}.jsonl"
    results.parent.mkdir(parents=True, exist_ok=True)
    fates = read_results(results)
    keys = [hashlib.sha256(f"{file}\n{sql}".encode()).hexdigest()[:20] for file, _, sql in mutants]
    todo = [(key, mutant) for key, mutant in zip(keys, mutants, strict=True) if key not in fates]
    print(f"{len(mutants)} mutants, {len(mutants) - len(todo)} of them known from {results}", flush=True)
    runs = list(write_histories(directory, options.batches)) if todo else []
    rewritten = {str(path.relative_to(SQL)): rewrite(path.read_text(encoding="utf-8")) for path in SQL.rglob("*.sql")}
    if todo and (fate := find_fate(runs, rewritten)) is not Fate.SURVIVED:
        raise SystemExit(f"Judging without a change was {fate}, so no mutant can be judged.")
    waiting, lock, started = iter(todo), threading.Lock(), time.monotonic()
    done = 0

    def work() -> None:
        nonlocal done
        judging = Judging(runs, options.limit_s)
        try:
            while True:
                with lock:
                    key, (file, change, sql) = next(waiting, (None, ("", "", "")))
                if key is None:
                    return
                fate = judging.find_fate({file: sql})
                with lock, results.open("a", encoding="utf-8") as opened:
                    opened.write(json.dumps({"mutant": key, "file": file, "change": change, "fate": fate}) + "\n")
                    fates[key] = fate
                    done += 1
                    left = (time.monotonic() - started) / done * (len(todo) - done)
                    print(f"{done}/{len(todo)}, {left / 60:.0f} minutes left: {file}: {fate}", flush=True)
        finally:
            judging.end()

    threads = [threading.Thread(target=work) for _ in range(options.processes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [(file, change, fates[key]) for key, (file, change, _) in zip(keys, mutants, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="the share of all mutants that is judged")
    parser.add_argument("--seed", type=int, default=0, help="chooses the share")
    parser.add_argument("--files", default="*.sql", help="the files to change, as a pattern of their names")
    parser.add_argument("--batches", type=int, default=20, help="batches of 100 histories")
    parser.add_argument("--limit-s", type=float, default=300, help="seconds that a mutant may take")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--results", type=Path, default=ROOT / "var" / "mutants")
    with tempfile.TemporaryDirectory(prefix="brokerproof-mutants-") as directory:
        found = run_campaign(parser.parse_args(), Path(directory))
    for file, change, fate in found:
        if fate is Fate.SURVIVED:
            print(f"survived: {file}: {change}")
    for file in sorted({file for file, _, _ in found}):
        print(f"{file}: {summarize([fate for name, _, fate in found if name == file])}")
    print(summarize([fate for _, _, fate in found]))


if __name__ == "__main__":
    main()
