"""Measures how long a run has made no progress, and explains why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brokerproof.clock import Clock
from brokerproof.experiment.numbers import join_names
from brokerproof.orchestration.follow.airflow_client import FINISHED, Silence, TaskState

# The user must be notified within 15 s, and the run is observed every two seconds.
_SAY_AFTER_S = 12.0
_SAY_AGAIN_AFTER_S = 60.0
_ENDED = (*FINISHED, "skipped", "upstream_failed", "removed")
# Steps without live status. `verify` takes seconds for a small run and minutes for a large one.
_SHOWS_NOTHING = ("verify",)


class Standstill:
    def __init__(self, clock: Clock) -> None:
        self._silence = Silence(clock, say_after_s=_SAY_AFTER_S, say_again_after_s=_SAY_AGAIN_AFTER_S)
        self._stages: dict[str, int] = {}
        self._rest: Any = None

    def observe(self, state: str, tasks: Sequence[TaskState], live: Mapping[str, Mapping[str, Any]]) -> float | None:
        """Return for how many seconds the run has made no progress, or None if no notification of the user is due now.

        `live` is {part of the run, such as a client: its live status}. A change of only the time `at` is no progress.
        """
        # A task that waits for a slot of the machine begins again every few seconds, which is no progress.
        stages = {task.task_id: max(_find_stage(task), self._stages.get(task.task_id, 0)) for task in tasks}
        rest = state, {part: {**content, "at": None} for part, content in live.items()}
        if (stages, rest) != (self._stages, self._rest):
            self._stages, self._rest = stages, rest
            self._silence.end()
        return self._silence.seconds if self._silence.is_due() else None


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """The facts that can explain why a run makes no progress."""

    state: str
    tasks: Sequence[TaskState]
    # The seconds for which each task has run, and each task's time limit in seconds, by task.
    running_s: Mapping[str, float]
    limits_s: Mapping[str, float]
    # The text of the live status.
    text: str
    # The running runs of the same scenario if this run is queued.
    other_runs: Sequence[str]
    # The runs that hold this machine's slots if this run waits for a slot.
    slot_holders: Sequence[str]
    is_alive: Callable[[int], bool]
    scheduler_log: Path


def describe_standstill(seconds: float, now: Circumstances) -> str:
    """Return a text that says why the run has made no progress for `seconds`."""
    if now.state == "queued" and now.other_runs:
        verb = "goes" if len(now.other_runs) == 1 else "go"
        return (
            f"the run has been queued for {seconds:.0f} s: runs of one scenario take turns, and "
            f"{join_names(now.other_runs)} {verb} on"
        )
    if now.slot_holders:
        verb = "holds" if len(now.slot_holders) == 1 else "hold"
        return f"the run has waited for this machine for {seconds:.0f} s: {join_names(now.slot_holders)} {verb} it"
    running = [task for task in now.tasks if task.state == "running"]
    for task in running:
        if task.pid is not None and not now.is_alive(task.pid):
            return (
                f"task {task.task_id} does nothing any more: its process {task.pid} has ended, which Airflow notices "
                "within 2 minutes; Ctrl-C stops the run"
            )
    if running:
        waiting_for = f" ({now.text})" if now.text else ""
        silent = [_describe_time(task.task_id, now) for task in running if task.task_id not in _SHOWS_NOTHING]
        sentences = [f"{join_names(silent)}: nothing new for {seconds:.0f} s{waiting_for}"] if silent else []
        sentences += [
            f"{_describe_time(task.task_id, now)}: shows nothing while it works"
            for task in running
            if task.task_id in _SHOWS_NOTHING
        ]
        return "; ".join(sentences)
    waiting = next((task for task in now.tasks if task.state not in (*_ENDED, None)), None)
    what = f"task {waiting.task_id}" if waiting else "the next task"
    return (
        f"Airflow's scheduler has not started {what} for {seconds:.0f} s; is it alive? its log is {now.scheduler_log}"
    )


def _describe_time(name: str, now: Circumstances) -> str:
    if name not in now.running_s:
        return f"task {name}"
    limit = f" of at most {now.limits_s[name]:.0f} s" if name in now.limits_s else ""
    return f"task {name} ({now.running_s[name]:.0f} s{limit})"


def waits_for_slot(tasks: Sequence[TaskState]) -> bool:
    """Whether the run still waits for its slot: the task `reserve`, which takes the slot, has not ended."""
    return any(task.task_id == "reserve" and task.state not in _ENDED for task in tasks)


def _find_stage(task: TaskState) -> int:
    if task.state in _ENDED:
        return 2
    return 1 if task.state == "running" else 0
