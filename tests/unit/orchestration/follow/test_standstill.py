"""A run that stands still: when that is said, and what is said of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from brokerproof.orchestration.follow.airflow_client import TaskState
from brokerproof.orchestration.follow.standstill import Circumstances, Standstill, describe_standstill
from simulated_clock import SimulatedClock


def watch(seconds: int, states: Any = lambda second: "running", live: Any = lambda second: {}) -> list[int]:
    """The seconds at which a standstill is said; a task has one of `states`, and the run shows `live`."""
    clock = SimulatedClock()
    standstill = Standstill(clock)
    said = []
    for second in range(0, seconds, 2):
        tasks = [TaskState(task_id="reserve", state=states(second))]
        if (stood_s := standstill.observe("running", tasks, {"load-0": live(second)})) is not None:
            said.append(second)
            assert stood_s >= 12
        clock.sleep(2)
    return said


def test_a_standstill_is_said_within_15_s_and_again_each_minute() -> None:
    assert watch(140) == [12, 72, 132]


@pytest.mark.parametrize("shown", [{"acked": 0}, {"scheduled": 0}])
def test_a_run_whose_live_status_moves_does_not_stand_still(shown: dict[str, int]) -> None:
    assert watch(100, live=lambda second: dict.fromkeys(shown, second)) == []


def test_the_time_of_a_live_status_is_no_movement() -> None:
    assert watch(40, live=lambda second: {"at": second, "acked": 7}) == [12]


def test_a_task_that_begins_or_ends_is_movement() -> None:
    states = {0: None, 10: "running", 20: "success"}
    assert watch(34, states=lambda second: states[second // 10 * 10 if second < 20 else 20]) == [32]


def test_a_task_that_asks_for_a_slot_again_and_again_is_no_movement() -> None:
    flow = ("running", "up_for_reschedule", "scheduled", "queued")
    assert watch(40, states=lambda second: flow[second // 2 % 4]) == [12]


def circumstances(*tasks: TaskState, **known: Any) -> Circumstances:
    return Circumstances(
        **{
            "state": "running",
            "tasks": tasks,
            "running_s": {},
            "limits_s": {},
            "text": "",
            "other_runs": (),
            "slot_holders": (),
            "is_alive": lambda pid: True,
            "scheduler_log": Path("/logs/scheduler.log"),
            **known,
        }
    )


RESERVED = TaskState(task_id="reserve", state="success")
LOADING, JUDGING = TaskState(task_id="load", state="running", pid=7), TaskState(task_id="verify", state="running")


@pytest.mark.parametrize(
    ("now", "sentence"),
    [
        (
            circumstances(TaskState(task_id="reserve", state=None), state="queued", other_runs=["nominal-1"]),
            "the run has been queued for 13 s: runs of one scenario take turns, and nominal-1 goes on",
        ),
        (
            circumstances(TaskState(task_id="reserve", state="queued"), slot_holders=["nominal-1", "losing-2", "a-3"]),
            "the run has waited for this machine for 13 s: nominal-1, losing-2 and a-3 hold it",
        ),
        (
            circumstances(
                RESERVED, TaskState(task_id="provision", state="scheduled"), TaskState(task_id="x", state=None)
            ),
            "Airflow's scheduler has not started task provision for 13 s; is it alive? its log is /logs/scheduler.log",
        ),
        (
            circumstances(TaskState(task_id="reserve", state=None), state="queued"),
            "Airflow's scheduler has not started the next task for 13 s; is it alive? its log is /logs/scheduler.log",
        ),
        (
            circumstances(RESERVED, JUDGING, running_s={"verify": 200}, limits_s={"verify": 3600}),
            "task verify (200 s of at most 3600 s): shows nothing while it works",
        ),
        (
            circumstances(
                RESERVED, LOADING, JUDGING, running_s={"load": 20.4, "verify": 9}, text="waiting for server-1"
            ),
            "task load (20 s): nothing new for 13 s (waiting for server-1); "
            "task verify (9 s): shows nothing while it works",
        ),
        (
            circumstances(RESERVED, LOADING, is_alive=lambda pid: pid != 7),
            "task load does nothing any more: its process 7 has ended, which Airflow notices within 2 minutes; "
            "Ctrl-C stops the run",
        ),
    ],
)
def test_what_is_waited_for_is_named(now: Circumstances, sentence: str) -> None:
    assert describe_standstill(13.2, now) == sentence
