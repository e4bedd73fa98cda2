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
    """Return a new axis on which the present time is the present time of the wall clock."""
    return TimeAxis(boot_id=clock.read_boot_id(), offset_us=clock.measure_offset_us())


def follow_time_axis(run: Run) -> None:
    """Take this process's times from the run's axis from now on, or from the wall clock if the run has no axis.

    Raises RunError if run.json cannot be read.
    """
    axis = run.facts.time_axis
    if axis is None:
        clock.leave_axis()
    else:
        clock.follow_axis(axis.boot_id, axis.offset_us)


@contextmanager
def note_wall_clock(run: Run, process: str) -> Iterator[None]:
    """Note the wall clock of this process once a second while the block runs, and at its end.

    An error while noting ends the notes but not the block, and is printed on stderr.
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
    """Writes a process's `WallClockNote`. Each note replaces the previous one and has all steps so far."""

    def __init__(self, run: Run, process: str, time: clock.Clock = clock.SYSTEM_CLOCK) -> None:
        """Keep the steps and boots that an earlier process of the same name has noted.

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
        """Note the wall clock as it is now. Raises MachineError if the note cannot be written."""
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
