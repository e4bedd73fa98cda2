"""A child process in which files are read, and what its parent learns of each: error, time and memory.

It imports little, because each process of a test starts anew.
"""

from __future__ import annotations

import gc
import resource
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from brokerproof.errors import BrokerproofError

File = tuple[str, bytes]
# What users of Brokerproof do with a file.
Use = Callable[[], object]
Read = Callable[[str, bytes], AbstractContextManager[Sequence[Use]]]

LONGEST_S = 2.0
MOST_MB = 200
# A child gives no answer for this long if it waits for something, or if the machine is busy with other programs.
SILENT_S = 30.0
# A child keeps some memory of each input. Without this limit, it lacked memory for a large input after 9,000 others.
_INPUTS_OF_A_CHILD = 500
# More than `MOST_MB`, because libraries reserve memory that they do not use. A child that needs more fails at once.
_MOST_RESERVED = 1 << 30


def serve(connection: Connection, make_reader: Callable[[Path], Read]) -> None:
    """Read the files that come through the connection, and answer with (error or "", seconds, MB) for each."""
    with tempfile.TemporaryDirectory(prefix="fuzzed-") as directory:
        read = make_reader(Path(directory))
        limit = _read_kb("VmSize") * 1024 + _MOST_RESERVED
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        with suppress(EOFError):
            while True:
                connection.send(_try_file(read, connection.recv()))
                # What stays, such as imported modules, need not be looked at again.
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
    """A process in which a reader reads. After a crash or a hang, the next input gets a new process.

    Each process first reads the files `sound`, which are not mutated. So it has imported what a reader needs.
    """

    def __init__(
        self, make_reader: Callable[[Path], Read], sound: Sequence[File], *, silent_s: float = SILENT_S
    ) -> None:
        self._make_reader, self._sound, self._silent_s = make_reader, sound, silent_s
        self._process: Any = None
        self._connection: Any = None
        self._tried = 0

    def try_file(self, file: File) -> tuple[str, float, float]:
        """Return the reason why the input is a finding, or "", and the seconds and MB that it took."""
        if self._process is None:
            self._start()
        problem, seconds, megabytes = self._ask(file, self._silent_s)
        self._tried += 1
        if not problem and seconds > LONGEST_S:
            problem = f"more than {LONGEST_S:g} s"
        if not problem and megabytes > MOST_MB:
            problem = f"more than {MOST_MB} MB"
        if "Memory" in problem or megabytes > MOST_MB or self._tried >= _INPUTS_OF_A_CHILD:
            # The next input must not lack the memory that this one, or all of them, still hold.
            self.close()
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
        self._tried = 0
        self._process = context.Process(target=serve, args=(theirs, self._make_reader), daemon=True)
        self._process.start()
        theirs.close()
        for file in self._sound:
            if self._process is not None and (problem := self._ask(file, 120)[0]):
                raise RuntimeError(f"{file[0]} was not mutated, and it is not read: {problem}")

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
