"""The processes that may be killed: every part of the platform, but none of the messaging system under test.

All of them are descendants of the process that types the command line, also those whose parents have ended, because it
asks the kernel to be the new parent of orphans. So no process hides, whatever session it leads and whatever name it
gave itself.
"""

from __future__ import annotations

import ctypes
import os
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from brokerproof.machine.processes import read_mark

_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans(*, adopt: bool = True) -> None:
    """Make this process the parent of every descendant whose own parent ends, or no longer."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, int(adopt), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "the kernel does not make this process the parent of orphans")


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A living process: its command, in one line, and what its mark calls it, "" for one without."""

    process: psutil.Process
    command: str
    mark: str


def list_candidates() -> list[Candidate]:
    """Every living descendant of this process. Orphans that have ended are reaped."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if process.status() == psutil.STATUS_ZOMBIE:
                _reap(process)
                continue
            mark = read_mark(process)
            command = " ".join(process.cmdline())
            found.append(Candidate(process=process, command=command, mark=mark.name if mark else ""))
    return found


def _reap(process: psutil.Process) -> None:
    """Read the exit status of an orphan. That of a process that this one started is for whoever started it."""
    if process.ppid() == os.getpid() and process.pid not in OWN:
        with suppress(ChildProcessError):
            os.waitpid(process.pid, os.WNOHANG)


# The processes that the chaos itself started and waits for.
OWN: set[int] = set()


def _runs(*words: str) -> Callable[[Candidate], bool]:
    return lambda candidate: not candidate.mark and all(word in candidate.command for word in words)


def _is_marked(start: str) -> Callable[[Candidate], bool]:
    return lambda candidate: candidate.mark.startswith(start)


def _is_python_job(candidate: Candidate) -> bool:
    first = Path(candidate.command.split(" ")[0]).name
    return first.startswith("python") and "/spark_jobs/" in candidate.command


def _is_jvm(candidate: Candidate) -> bool:
    return not candidate.mark and "org.apache.spark.deploy.SparkSubmit" in candidate.command


def _is_task(candidate: Candidate) -> bool:
    return candidate.command.startswith("airflow worker -- ") and "LocalExecutor" not in candidate.command


def _is_executor(candidate: Candidate) -> bool:
    return candidate.command.startswith("airflow worker -- LocalExecutor") and "<idle>" not in candidate.command


# Each part of the platform, and by what its processes are known.
PARTS: Mapping[str, Callable[[Candidate], bool]] = {
    "api-server": _runs("airflow api_server"),
    "scheduler": _runs("airflow scheduler"),
    "dag-processor": _runs("airflow dag-processor"),
    "supervisor of Airflow": _runs("brokerproof.orchestration.embedded.airflow_supervisor"),
    "executor": _is_executor,
    "task": _is_task,
    "Spark's JVM": _is_jvm,
    "Spark's driver": _is_python_job,
    "Spark's worker": _runs("pyspark.daemon"),
    "client": _is_marked("client "),
    "monitor": _is_marked("monitor"),
    "link": _is_marked("link"),
    "service manager": _is_marked("supervisor"),
    "command line": _runs("-m brokerproof run"),
    "all of Airflow": _runs("brokerproof.orchestration.embedded.airflow_supervisor"),
}
# Parts that are there from the first moment on, and those that a run starts.
_LASTING = ("api-server", "scheduler", "dag-processor", "supervisor of Airflow", "command line", "all of Airflow")


@dataclass(frozen=True, kw_only=True)
class Kill:
    """A part to kill `at_s` seconds after the run was typed, or so much `later_s` after it is there first."""

    part: str
    at_s: float
    later_s: float


def choose_kills(rng: random.Random, *, parts: Sequence[str], seconds: float) -> list[Kill]:
    """One to three parts and moments, at random."""
    return [
        Kill(
            part=rng.choice(parts),
            at_s=round(rng.uniform(0, seconds), 1),
            later_s=round(rng.choice([0.0, rng.uniform(0, 5)]), 1),
        )
        for _ in range(rng.choice([1, 1, 1, 2, 2, 3]))
    ]


@dataclass
class Killer:
    """Kills what is due, in a thread of its own, until it is told that the run is over."""

    kills: Sequence[Kill]
    rng: random.Random
    # What was killed, as it is told, with the seconds since the start.
    done: list[str] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._started = time.monotonic()
        self._thread = threading.Thread(target=self._work, name="killer")
        self._thread.start()

    def stop(self) -> None:
        """Kill nothing from here on."""
        self._over.set()
        self._thread.join()

    def _work(self) -> None:
        due: dict[int, float] = {number: kill.at_s for number, kill in enumerate(self.kills)}
        waited: set[int] = set()
        while due and not self._over.wait(0.2):
            now = time.monotonic() - self._started
            for number in [number for number, at_s in due.items() if now >= at_s]:
                kill = self.kills[number]
                victims = self._find_victims(kill.part)
                if not victims:
                    waited.add(number)
                elif number in waited and kill.later_s and kill.part not in _LASTING:
                    # It is there now: it has some time to get to work.
                    waited.discard(number)
                    due[number] = now + kill.later_s
                else:
                    del due[number]
                    self._kill(kill.part, victims)

    def _find_victims(self, part: str) -> list[psutil.Process]:
        candidates = list_candidates()
        found = [one.process for one in candidates if PARTS[part](one)]
        if part == "all of Airflow" and found:
            # The supervisor first, which would start again what dies.
            session = os.getsid(found[0].pid)
            return [*found, *(one.process for one in candidates if _read_session(one.process) == session)]
        return [self.rng.choice(sorted(found, key=lambda process: process.pid))] if found else []

    def _kill(self, part: str, victims: Sequence[psutil.Process]) -> None:
        for victim in victims:
            with suppress(psutil.Error):
                victim.kill()
        self.done.append(f"{part} at {time.monotonic() - self._started:.0f} s")


def _read_session(process: psutil.Process) -> int | None:
    try:
        return os.getsid(process.pid)
    except OSError:
        return None
