"""The time axis of a run. Processes take their times from this axis, and note how their wall clocks differ from it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from brokerproof import clock
from brokerproof.run.directory import Run, TimeAxis
from brokerproof.run.records import WallClockNote, WallClockStep, read_record, write_record

# The name of the monitor in its wall-clock notes. Clients use their own names.
MONITOR = "monitor"
_NOTE_EVERY_S = 1.0
# A smaller move between two notes is no step, because a clock that is corrected gradually moves by less.
_STEP_US = 100_000


def make_time_axis() -> TimeAxis:
    """Return a new time axis, which at this moment shows the same time as the wall clock."""
    return TimeAxis(boot_id=clock.read_boot_id(), offset_us=clock.measure_offset_us())


def follow_time_axis(run: Run) -> None:
    """Let this process take its times from the run's time axis; if the run has none, from the wall clock.

    Raises RunError if run.json cannot be read.
    """
    axis = run.facts.time_axis
    if axis is None:
        clock.leave_axis()
    else:
        clock.follow_axis(axis.boot_id, axis.offset_us)


@contextmanager
def note_wall_clock(run: Run, process: str) -> Iterator[None]:
    """Write a `WallClockNote` of this process once a second while the block runs, and at the block's end.

    If writing a note fails, the error is printed on stderr, and no more notes are written. The block goes on.
    """
    ending = threading.Event()

    def note_repeatedly() -> None:
        notes, ended = WallClockNotes(run, process), False
        while not ended:
            notes.add()
            ended = ending.wait(_NOTE_EVERY_S)
        notes.add()

    noting = threading.Thread(target=note_repeatedly, name="wall clock", daemon=True)
    noting.start()
    try:
        yield
    finally:
        ending.set()
        noting.join()


class WallClockNotes:
    """Writes a process's `WallClockNote`. Each note replaces the previous one, with all changes of the clock so far."""

    def __init__(self, run: Run, process: str, time: clock.Clock = clock.SYSTEM_CLOCK) -> None:
        """Take over the changes of the clock and the boot ids that an earlier process of the same name has noted.

        Raises RunError if the earlier process's note is damaged.
        """
        self._run, self._process, self._time = run, process, time
        earlier = read_record(run, WallClockNote, process)
        self._boot_id = clock.read_boot_id()
        self._steps = earlier.steps if earlier else ()
        boot_ids = {*earlier.earlier_boot_ids, earlier.boot_id} if earlier else set()
        self._earlier_boot_ids = tuple(sorted(boot_ids - {self._boot_id}))
        self._lead_us = earlier.lead_us if earlier and earlier.boot_id == self._boot_id else None

    def add(self) -> None:
        """Write a note of how far the wall clock is ahead of the run's time axis.

        Raises MachineError if the note cannot be written.
        """
        lead_us, at = self._time.measure_wall_lead(), self._time.now_us()
        if self._lead_us is not None and abs(lead_us - self._lead_us) > _STEP_US:
            self._steps = (*self._steps, WallClockStep(at=at, size_us=lead_us - self._lead_us))
        self._lead_us = lead_us
        write_record(
            self._run,
            WallClockNote(
                process=self._process,
                boot_id=self._boot_id,
                earlier_boot_ids=self._earlier_boot_ids,
                at=at,
                lead_us=lead_us,
                steps=self._steps,
            ),
        )
