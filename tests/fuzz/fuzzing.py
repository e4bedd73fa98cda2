"""Gives mutated files to the readers of Brokerproof, and reports each reader that neither reads nor refuses one.

Usage: PYTHONPATH=tests/fuzz:tests/installations python tests/fuzz/fuzzing.py --count 10000 --seed 0 [--family NAME]…

A reader runs in a child process, because a decoder may end its process. A finding is an input for which the process
ended, gave no answer, took more than `LONGEST_S` of processor time or `MOST_MB` of memory, or raised another error than
one of Brokerproof. The inputs of findings are kept in a directory. The exit status is 1 if there are findings.
"""

from __future__ import annotations

import argparse
import gc
import resource
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from brokerproof.errors import BrokerproofError
from hypothesis import HealthCheck, Phase, given, seed, settings
from mutations import File, mutants
from readers import FAMILIES, Read

LONGEST_S = 2.0
MOST_MB = 200
# A child gives no answer for this long if it waits for something, or if the machine is busy with other programs.
SILENT_S = 30.0
# More than `MOST_MB`, because libraries reserve memory that they do not use. A child that needs more fails at once.
_MOST_RESERVED = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Finding:
    """An input that a reader neither read nor refused as it must, with the reason."""

    reason: str
    file: File


@dataclass(kw_only=True)
class Fuzzed:
    """The result for one family: the findings, and the largest figures of all inputs."""

    family: str
    inputs: int = 0
    longest_s: float = 0.0
    most_mb: float = 0.0
    findings: list[Finding] = field(default_factory=list)


def serve(connection: Connection, make_reader: Callable[[Path], Read]) -> None:
    """Read the files that come through the connection, and answer with (error or "", seconds, MB) for each."""
    with tempfile.TemporaryDirectory(prefix="fuzzed-") as directory:
        read = make_reader(Path(directory))
        limit = _read_kb("VmSize") * 1024 + _MOST_RESERVED
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        with suppress(EOFError):
            while True:
                connection.send(_try_file(read, connection.recv()))
                # The first file is not mutated. What was imported for it stays, so the collector need not look at it.
                gc.freeze()


def _try_file(read: Read, file: File) -> tuple[str, float, float]:
    """Return the first error of the uses, or "", and the most seconds and MB of one use."""
    problem, seconds, megabytes = "", 0.0, 0.0
    with read(*file) as uses:
        for use in uses:
            gc.collect()
            # Sets the peak of memory to what is in use now, see proc_pid_clear_refs(5).
            Path("/proc/self/clear_refs").write_text("5")
            before, started = _read_kb("VmRSS"), time.process_time()
            try:
                use()
            except BrokerproofError:
                pass
            except BaseException as error:
                place = traceback.extract_tb(error.__traceback__)[-1]
                problem = problem or f"{type(error).__name__} in {Path(place.filename).name}:{place.lineno}"
            seconds = max(seconds, time.process_time() - started)
            megabytes = max(megabytes, (_read_kb("VmHWM") - before) / 1024)
    return problem, seconds, megabytes


def _read_kb(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


class Child:
    """A process in which a reader reads. After a crash or a hang, the next input gets a new process."""

    def __init__(self, make_reader: Callable[[Path], Read], sound: File, *, silent_s: float = SILENT_S) -> None:
        self._make_reader, self._sound, self._silent_s = make_reader, sound, silent_s
        self._process: Any = None
        self._connection: Any = None

    def try_file(self, file: File) -> tuple[str, float, float]:
        """Return the reason why the input is a finding, or "", and the seconds and MB that it took."""
        if self._process is None:
            self._start()
        problem, seconds, megabytes = self._ask(file, self._silent_s)
        if not problem and seconds > LONGEST_S:
            problem = f"more than {LONGEST_S:g} s"
        if not problem and megabytes > MOST_MB:
            problem = f"more than {MOST_MB} MB"
        return problem, seconds, megabytes

    def close(self) -> None:
        if self._process is not None:
            self._connection.close()
            self._process.join(timeout=5)
            self._process.kill()
            self._process.join()
            self._process = None

    def _start(self) -> None:
        context = get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, self._make_reader), daemon=True)
        self._process.start()
        theirs.close()
        problem, _, _ = self._ask(self._sound, 120)
        if problem:
            raise RuntimeError(f"the reader does not read a file that was not mutated: {problem}")

    def _ask(self, file: File, silent_s: float) -> tuple[str, float, float]:
        try:
            self._connection.send(file)
            if self._connection.poll(silent_s):
                answer: tuple[str, float, float] = self._connection.recv()
                return answer
            problem = "no answer"
            self._process.kill()
        except (EOFError, ConnectionError):
            problem = "the process ended"
        self._process.join()
        if problem == "the process ended":
            problem += f" with status {self._process.exitcode}"
        self._process = None
        return problem, 0.0, 0.0


def fuzz(family: str, count: int, first_seed: int) -> Fuzzed:
    """Give `count` mutated files to the reader of a family. The same seed makes the same files."""
    result = Fuzzed(family=family)
    with tempfile.TemporaryDirectory(prefix="to-mutate-") as directory:
        files = FAMILIES[family].list_files(Path(directory))
    child = Child(FAMILIES[family].make_reader, files[0])

    @seed(first_seed)
    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(file=mutants(family, files))
    def try_one(file: File) -> None:
        problem, seconds, megabytes = child.try_file(file)
        result.inputs += 1
        result.longest_s = max(result.longest_s, seconds)
        result.most_mb = max(result.most_mb, megabytes)
        if problem:
            result.findings.append(Finding(reason=problem, file=file))

    try:
        try_one()
    finally:
        child.close()
    return result


def describe(result: Fuzzed) -> str:
    """Return the figures of a family, and how often each reason of a finding occurred."""
    figures = f"{result.inputs:,} inputs, at most {result.longest_s:.2f} s and {result.most_mb:.0f} MB"
    reasons = Counter(finding.reason for finding in result.findings)
    lines = [f"{result.family}: {figures}, {len(result.findings)} findings"]
    return "\n".join([*lines, *(f"  {times:5,} × {reason}" for reason, times in reasons.most_common())])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=10_000, help="inputs for each family (10000)")
    parser.add_argument("--seed", type=int, default=0, help="the same seed makes the same inputs")
    parser.add_argument("--family", action="append", choices=FAMILIES, help="only this one; may be repeated")
    options = parser.parse_args(arguments)
    found = 0
    for family in options.family or FAMILIES:
        result = fuzz(family, options.count, options.seed)
        print(describe(result), flush=True)
        found += len(result.findings)
        kept = Path(tempfile.mkdtemp(prefix=f"fuzz-{family}-")) if result.findings else None
        for number, finding in enumerate(result.findings if kept else ()):
            (kept / f"{number:05}-{Path(finding.file[0]).name}").write_bytes(finding.file[1])  # type: ignore[operator]
        if kept:
            print(f"  the inputs are in {kept}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
