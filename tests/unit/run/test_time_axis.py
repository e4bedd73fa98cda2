"""The time axis of a run: a step of the wall clock moves no time of a process that follows it."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from brokerproof import clock
from brokerproof.run.directory import Run, TimeAxis
from brokerproof.run.records import StepSeconds, WallClockNote, read_record
from brokerproof.run.step_record import record_step
from brokerproof.run.time_axis import WallClockNotes, follow_time_axis, make_time_axis, note_wall_clock
from builders import make_run
from spark_session import open_job_run

S = 1_000_000


@pytest.fixture(autouse=True)
def _leave_axis() -> Iterator[None]:
    yield
    clock.leave_axis()


class WallClock:
    """The wall clock of this process in nanoseconds, `ahead_s` seconds ahead of the real one."""

    def __init__(self) -> None:
        self.ahead_s = 0.0
        self._real = time.time_ns

    def __call__(self) -> int:
        return self._real() + int(self.ahead_s * 1e9)


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> WallClock:
    wall = WallClock()
    monkeypatch.setattr(time, "time_ns", wall)
    return wall


def ask_child() -> int:
    """How many microseconds the times of a process that this one starts are ahead of this process's."""
    program = "from brokerproof import clock; print(clock.now_us())"
    before = clock.now_us()
    answer = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    return int(answer) - before


@pytest.mark.parametrize("step_s", [2.0, -2.0])
def test_a_step_of_the_wall_clock_moves_no_time_of_a_run(tmp_path: Path, wall: WallClock, step_s: float) -> None:
    follow_time_axis(make_run(tmp_path, time_axis=make_time_axis()))
    before = clock.now_us()
    assert abs(before - clock.SYSTEM_CLOCK.wall_us()) < S // 10
    wall.ahead_s = step_s
    assert 0 <= clock.now_us() - before < S // 10
    assert clock.SYSTEM_CLOCK.measure_wall_lead() == pytest.approx(step_s * S, abs=S // 10)


def test_a_process_that_begins_after_a_step_has_the_same_time_axis(tmp_path: Path, wall: WallClock) -> None:
    axis = make_time_axis()
    before = clock.now_us()
    wall.ahead_s = 2.0
    follow_time_axis(make_run(tmp_path, time_axis=axis))
    assert 0 <= clock.now_us() - before < S


def test_a_process_that_is_started_from_one_follows_the_same_axis(tmp_path: Path) -> None:
    axis = make_time_axis()
    follow_time_axis(make_run(tmp_path, time_axis=axis.model_copy(update={"offset_us": axis.offset_us + 3600 * S})))
    assert 0 <= ask_child() < 60 * S


def test_on_another_boot_a_process_takes_its_own_offset_once(tmp_path: Path, wall: WallClock) -> None:
    follow_time_axis(make_run(tmp_path, time_axis=TimeAxis(boot_id="another", offset_us=17)))
    before = clock.now_us()
    assert abs(before - clock.SYSTEM_CLOCK.wall_us()) < S // 10
    wall.ahead_s = 2.0
    assert 0 <= clock.now_us() - before < S // 10


def test_a_run_without_an_axis_goes_by_the_wall_clock(tmp_path: Path, wall: WallClock) -> None:
    follow_time_axis(make_run(tmp_path))
    before = clock.now_us()
    wall.ahead_s = 2.0
    assert clock.now_us() - before >= 2 * S
    assert clock.SYSTEM_CLOCK.measure_wall_lead() == pytest.approx(0, abs=S // 100)


def test_a_step_of_a_run_and_a_job_of_spark_follow_the_axis(tmp_path: Path, wall: WallClock) -> None:
    run = make_run(tmp_path, time_axis=make_time_axis())
    with record_step(run, "load"):
        wall.ahead_s = -2.0
    seconds = read_record(run, StepSeconds, "load")
    assert seconds is not None
    assert 0 <= seconds.finished_at - seconds.started_at < S
    clock.leave_axis()
    open_job_run([run.directory])
    assert run.facts.time_axis is not None
    assert run.facts.time_axis.offset_us == clock.SYSTEM_CLOCK.offset_us


def test_a_process_that_turns_to_an_older_run_leaves_the_axis(tmp_path: Path, wall: WallClock) -> None:
    follow_time_axis(make_run(tmp_path / "new", time_axis=make_time_axis()))
    follow_time_axis(make_run(tmp_path / "old"))
    wall.ahead_s = 2.0
    assert clock.now_us() == pytest.approx(clock.SYSTEM_CLOCK.wall_us(), abs=S // 10)
    assert clock.list_variables() == {}


def test_a_reading_in_which_the_process_was_held_up_says_nothing() -> None:
    class HeldUp(clock.Clock):
        """Each look takes a microsecond, but one of the wall clock's takes a second."""

        def __init__(self) -> None:
            self._now_us, self._looks = 0, 0

        def now_us(self) -> int:
            self._now_us += 1
            return self._now_us

        def wall_us(self) -> int:
            self._looks += 1
            self._now_us += S if self._looks == 1 else 1
            return self._now_us

    assert abs(HeldUp().measure_wall_lead()) <= 1


class TwoClocks(clock.Clock):
    """The axis and the wall clock beside it, which time passes on only where a test says so."""

    def __init__(self) -> None:
        self.at, self.lead_us = 1_800_000_000 * S, 0

    def now_us(self) -> int:
        return self.at

    def wall_us(self) -> int:
        return self.at + self.lead_us


def note(run: Run, leads_us: list[int]) -> WallClockNote:
    """The last note of a process whose wall clock was noted once a second, so far ahead of the axis."""
    clocks = TwoClocks()
    notes = WallClockNotes(run, "load-0", clocks)
    for lead_us in leads_us:
        clocks.at += S
        clocks.lead_us = lead_us
        notes.add()
    found = read_record(run, WallClockNote, "load-0")
    assert found is not None
    assert (found.at, found.lead_us) == (clocks.at, clocks.lead_us)
    return found


@pytest.mark.parametrize("size_us", [2 * S, -2 * S, 150_000])
def test_a_step_of_the_wall_clock_is_noted_with_its_time_and_size(tmp_path: Path, size_us: int) -> None:
    found = note(make_run(tmp_path), [0, 0, size_us, size_us])
    assert [(step.at, step.size_us) for step in found.steps] == [(1_800_000_003 * S, size_us)]


@pytest.mark.parametrize(
    "leads_us",
    [[0, 20_000, -20_000, 20_000], [second * 50_000 for second in range(60)], [2 * S, 2 * S, 2 * S]],
    ids=["jitter of 20 ms", "a clock that is set right by 50 ms a second", "a clock that was ahead from the beginning"],
)
def test_what_is_no_step_is_not_noted(tmp_path: Path, leads_us: list[int]) -> None:
    assert note(make_run(tmp_path), leads_us).steps == ()


def test_a_process_that_does_the_work_again_keeps_the_steps_of_the_one_before(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    note(run, [0, 2 * S])
    assert [step.size_us for step in note(run, [2 * S, 0]).steps] == [2 * S, -2 * S]


def test_a_step_between_two_processes_that_do_the_same_work_is_noted(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    note(run, [0, 0])
    assert [step.size_us for step in note(run, [2 * S, 2 * S]).steps] == [2 * S]


def test_a_process_that_does_the_work_again_keeps_the_boots_of_those_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path)
    for boot_id in ("first", "second", "second", "first"):
        monkeypatch.setattr(clock, "read_boot_id", lambda boot_id=boot_id: boot_id)
        found = note(run, [0])
    assert (found.boot_id, found.earlier_boot_ids) == ("first", ("second",))


def test_a_step_just_before_the_end_of_a_process_is_noted(tmp_path: Path, wall: WallClock) -> None:
    run = make_run(tmp_path, time_axis=make_time_axis())
    follow_time_axis(run)
    with note_wall_clock(run, "load-0"):
        clock.wait_until(lambda: read_record(run, WallClockNote, "load-0"), timeout_s=5, what="the first note")
        wall.ahead_s = -2.0
    found = read_record(run, WallClockNote, "load-0")
    assert found is not None
    assert [step.size_us / S for step in found.steps] == [pytest.approx(-2.0, abs=0.1)]


def test_notes_that_cannot_be_written_do_not_end_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problems: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda error: problems.append(str(error.exc_value)))
    run = make_run(tmp_path)
    (tmp_path / "state").write_text("a file in the place of the directory")
    with note_wall_clock(run, "load-0"):
        pass
    assert len(problems) == 1
