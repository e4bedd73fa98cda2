"""The steps of wall clocks during a run, and what rests on wall times.

The run's own times are of its time axis, which no step moves. These are not: `published_at`, which the system's client
writes into a message; what the system's servers say of their own times, which is only drawn; and, if the run's
processes were on several hosts, the place of one host's axis beside that of another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from brokerproof import clock
from brokerproof.clients.consuming import plan_consumers
from brokerproof.clients.producing import plan_producers
from brokerproof.errors import RunError
from brokerproof.run.directory import Run
from brokerproof.run.records import WallClockNote, WallClockStep, read_record
from brokerproof.run.time_axis import MONITOR

# A step of one machine's clock is found by each of its processes within two notes, with the same size.
_SAME_TIME_US = 3_000_000
_SAME_SIZE_US = 100_000


@dataclass(frozen=True, kw_only=True)
class WallClock:
    """The wall clock of one process: its steps, and the boot that it was noted on, None without a note."""

    process: str
    # Whether `published_at` rests on it: a producer's client writes that, and the monitor's clock is the machine's
    # before the first producer starts.
    is_of_publishing: bool
    boot_id: str | None
    steps: Sequence[WallClockStep]


@dataclass(frozen=True, kw_only=True)
class WallClocks:
    """The wall clocks of the run's processes; none for a run without a time axis."""

    clocks: Sequence[WallClock]

    def list_notes(self) -> list[str]:
        """A sentence for each step, and one if nothing says whether some clocks stepped."""
        sentences = [_describe(*each) for each in _group_steps(self.clocks)]
        if unknown := [each.process for each in self.clocks if each.boot_id is None]:
            sentences.append(f"Nothing says whether the wall clock of {_join(unknown)} stepped.")
        return sentences

    def doubt_publish_times(self) -> str:
        """Why `published_at` is in doubt, to complete the sentence "the expectation …"; empty if it is not."""
        notes = WallClocks(clocks=[each for each in self.clocks if each.is_of_publishing]).list_notes()
        return f"rests on wall times, and nothing is claimed of them: {' '.join(notes)}".rstrip(".") if notes else ""

    def doubt_hosts(self) -> str:
        """Why the times of several hosts are in doubt, as a sentence; empty if they are not, or with one host."""
        hosts = {each.boot_id for each in self.clocks if each.boot_id is not None}
        if len(hosts) < 2 or not any(each.steps for each in self.clocks):
            return ""
        return f"Times of {len(hosts)} hosts do not compare, because a wall clock stepped: {self.list_notes()[0]}"


def read_wall_clocks(run: Run) -> WallClocks:
    """Read the notes of the monitor and of all clients. A damaged note says nothing."""
    if run.facts.time_axis is None:
        return WallClocks(clocks=())
    names = {MONITOR: ("the monitor", True)}
    names |= {task.client: (task.producer, True) for task in plan_producers(run)}
    names |= {task.client: (f"{task.consumer} in {task.cluster}", False) for task in plan_consumers(run)}
    return WallClocks(clocks=[_read(run, key, *name) for key, name in names.items()])


def _read(run: Run, key: str, process: str, is_of_publishing: bool) -> WallClock:
    try:
        note = read_record(run, WallClockNote, key)
    except RunError:
        note = None
    return WallClock(
        process=process,
        is_of_publishing=is_of_publishing,
        boot_id=note.boot_id if note else None,
        steps=note.steps if note else (),
    )


def _group_steps(clocks: Sequence[WallClock]) -> Iterator[tuple[list[str], WallClockStep]]:
    """Each step with the processes that found it, in the order of time."""
    left = sorted(((step, each.process) for each in clocks for step in each.steps), key=lambda found: found[0].at)
    while left:
        first = left[0][0]
        same = [found for found in left if _is_same(found[0], first)]
        left = [found for found in left if not _is_same(found[0], first)]
        yield list(dict.fromkeys(process for _, process in same)), first


def _is_same(step: WallClockStep, other: WallClockStep) -> bool:
    return abs(step.at - other.at) < _SAME_TIME_US and abs(step.size_us - other.size_us) < _SAME_SIZE_US


def _describe(processes: Sequence[str], step: WallClockStep) -> str:
    at = f"{clock.to_utc(step.at):%Y-%m-%d %H:%M:%S}"
    return f"The wall clock of {_join(processes)} stepped by {step.size_us / 1e6:+.2f} s at {at} UTC."


def _join(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
