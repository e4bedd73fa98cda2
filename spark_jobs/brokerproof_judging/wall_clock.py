"""Finds sudden changes (steps) of wall clocks during a run, and the claims that they put in doubt.

The run's own times come from a monotonic clock, the time axis, which no step changes. Three things depend on wall
clocks: the servers' times in charts, comparisons between times of several hosts, and `published_at`. The messaging
system's client writes `published_at` into each message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from brokerproof import clock
from brokerproof.clients.consuming import plan_consumers
from brokerproof.clients.producing import plan_producers
from brokerproof.errors import RunError
from brokerproof.experiment.numbers import join_names
from brokerproof.run.directory import Run
from brokerproof.run.records import ClientRecordRead, WallClockNote, WallClockStep, read_record
from brokerproof.run.time_axis import MONITOR
from brokerproof.settings import variable

# Two processes found the same step if its times and sizes differ by less than this. All processes of a machine find a
# step of its clock within two notes, and measure nearly the same size.
_SAME_TIME_US = 3_000_000
_SAME_SIZE_US = 100_000


@dataclass(frozen=True, kw_only=True)
class WallClock:
    """The wall clock of one process: its steps, and the ids of the machine boots in which the process took times."""

    process: str
    # Whether `published_at` depends on this clock. A producer's client writes that time. The monitor's clock counts
    # too, because the monitor watches the machine's clock before the first producer starts.
    is_of_publishing: bool
    # False if the process's note is missing or damaged. Then `boot_ids` and `steps` are empty.
    has_note: bool
    boot_ids: frozenset[str]
    steps: Sequence[WallClockStep]
    # Whether the process may have taken times on a host that no note names.
    is_host_unknown: bool


@dataclass(frozen=True, kw_only=True)
class WallClocks:
    """The wall clocks of the run's processes. A run without a time axis has none."""

    clocks: Sequence[WallClock]
    # The boot of the run's time axis, and the setting for the clocks of several hosts.
    axis_boot_id: str = ""
    set_error_us: int = 0

    @property
    def clock_error_us(self) -> int:
        """The greatest difference between two hosts' clocks, from the settings; 0 if all processes ran on one host.

        If it is not known on which host a process ran, or if the run has no time axis, the setting applies too.
        """
        return self.set_error_us if self._list_unknown() or len(self._hosts) != 1 else 0

    @property
    def _hosts(self) -> frozenset[str]:
        """The ids of the known machine boots, one for each host; empty in a run without a time axis."""
        return frozenset([self.axis_boot_id] if self.axis_boot_id else []).union(
            *(each.boot_ids for each in self.clocks)
        )

    def _list_unknown(self) -> list[str]:
        return [each.process for each in self.clocks if each.is_host_unknown]

    def list_notes(self) -> list[str]:
        """Return a sentence for each step of a clock, and one that names the processes whose notes are missing."""
        sentences = [_describe(*each) for each in _group_steps(self.clocks)]
        if unknown := [each.process for each in self.clocks if not each.has_note]:
            sentences.append(f"Nothing says whether the wall clock of {join_names(unknown)} stepped.")
        return sentences

    def doubt_publish_times(self) -> str:
        """Return why `published_at` is in doubt, to complete the sentence "the expectation …"; empty without doubt."""
        notes = WallClocks(clocks=[each for each in self.clocks if each.is_of_publishing]).list_notes()
        return f"rests on wall times, and nothing is claimed of them: {' '.join(notes)}".rstrip(".") if notes else ""

    def doubt_hosts(self, least_delay_us: int | None = None) -> str:
        """Return a sentence on why times of different hosts cannot be compared.

        The sentence is empty if the times can be compared, or if the run had only one host. `least_delay_us` is the
        shortest time from a message's sending to its delivery; None if it is not known. It is negative if the clocks of
        two hosts differ by more than the delay.
        """
        if unknown := self._list_unknown():
            return (
                f"Times of two processes do not compare, because nothing says on which host {join_names(unknown)} ran."
            )
        if len(self._hosts) < 2:
            return ""
        if any(each.steps for each in self.clocks):
            count = len(self._hosts)
            return f"Times of {count} hosts do not compare, because a wall clock stepped: {self.list_notes()[0]}"
        if not self.set_error_us:
            return (
                f"Times of {len(self._hosts)} hosts do not compare, because nothing says how far their clocks differ: "
                f"set {variable('clock_error_ms')}."
            )
        if least_delay_us is not None and -least_delay_us > self.set_error_us:
            return (
                f"Times of {len(self._hosts)} hosts do not compare, because a message was delivered "
                f"{-least_delay_us / 1000:.1f} ms before it was sent. {variable('clock_error_ms')} says that their "
                f"clocks differ by at most {self.set_error_us / 1000:.0f} ms."
            )
        return ""


def read_wall_clocks(run: Run) -> WallClocks:
    """Read what the monitor and all clients noted about their wall clocks. A damaged note counts as missing."""
    axis = run.facts.time_axis
    if axis is None:
        return WallClocks(clocks=(), set_error_us=run.facts.clock_error_us)
    names = {MONITOR: ("the monitor", True)}
    names |= {task.client: (task.producer, True) for task in plan_producers(run)}
    names |= {task.client: (f"{task.consumer} in {task.cluster}", False) for task in plan_consumers(run)}
    found = {key: _read(run, key, *name) for key, name in names.items()}
    # A client that recorded no row, such as one that no fault started, took no time that counts.
    clocks = [each for key, each in found.items() if each.has_note or each.is_host_unknown or key == MONITOR]
    return WallClocks(clocks=clocks, axis_boot_id=axis.boot_id, set_error_us=run.facts.clock_error_us)


def _read(run: Run, key: str, process: str, is_of_publishing: bool) -> WallClock:
    try:
        note = read_record(run, WallClockNote, key)
    except RunError:
        note = None
    return WallClock(
        process=process,
        is_of_publishing=is_of_publishing,
        has_note=note is not None,
        boot_ids=frozenset([note.boot_id, *note.earlier_boot_ids] if note else []),
        steps=note.steps if note else (),
        # `reserve` starts the monitor on the boot of the axis.
        is_host_unknown=note is None and key != MONITOR and not _recorded_no_row(run, key),
    )


def _recorded_no_row(run: Run, client: str) -> bool:
    """Return whether a client certainly recorded no row, for example because it was killed before its first note."""
    try:
        read = read_record(run, ClientRecordRead, client)
    except RunError:
        return False
    return read is not None and not any(each.rows or each.missing for each in read.epochs)


def _group_steps(clocks: Sequence[WallClock]) -> Iterator[tuple[list[str], WallClockStep]]:
    """Yield each sudden change of a wall clock in order of time, with the processes that noticed it."""
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
    return f"The wall clock of {join_names(processes)} stepped by {step.size_us / 1e6:+.2f} s at {at} UTC."
