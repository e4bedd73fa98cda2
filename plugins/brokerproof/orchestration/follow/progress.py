"""Shows the progress of a run: redrawn in place on a terminal, otherwise as successive lines of text."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from brokerproof.experiment.numbers import join_names
from brokerproof.orchestration.follow.airflow_client import TaskState

_LINE_EVERY_S = 5
_ICONS = {"success": "[green]✓[/]", "failed": "[red]✗[/]", "upstream_failed": "[yellow]–[/]", "skipped": "[dim]–[/]"}
_LAST_TASKS = ("release", "record", "verdict")


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A run at one moment; `live` is the content of progress/live.json, in which any key may be missing."""

    tasks: list[TaskState] = field(default_factory=list)
    live: Mapping[str, Any] = field(default_factory=dict)

    @property
    def running(self) -> list[str]:
        """The ids of the running tasks."""
        return [task.task_id for task in self.tasks if task.state == "running"]

    def format_line(self, elapsed_s: float) -> str:
        tasks = ", ".join(self.running) or "waiting for Airflow"
        return " | ".join(
            [f"{elapsed_s:4.0f} s  {tasks}", *filter(None, [self.format_counts(), self.format_cluster()])]
        )

    def format_counts(self) -> str:
        """Return a text with the phase, and how many messages were acked, failed, unknown and delivered so far."""
        live = self.live
        counts = [f"{live[name]:,} {name}" for name in ("acked", "failed", "unknown", "delivered") if live.get(name)]
        return "  ".join(filter(None, [str(live.get("phase") or ""), ", ".join(counts)]))

    def format_cluster(self) -> str:
        """Return a text with the topic's owner, the faults' states, and the number of living nodes of each role.

        The text also has the number of restarts of each node, and what the present step waits for.
        """
        live = self.live
        parts = [f"owner {live['owner']}"] if live.get("owner") else []
        parts += [f"{one.get('fault')} {one.get('state')}" for one in live.get("faults") or [] if isinstance(one, dict)]
        alive = live.get("alive")
        if isinstance(alive, dict) and alive:
            counts = (f"{len(nodes)} {role}{'' if len(nodes) == 1 else 's'}" for role, nodes in alive.items())
            parts.append("alive: " + ", ".join(counts))
        restarted = live.get("restarted")
        if isinstance(restarted, dict) and restarted:
            times = (f"{node} {count}×" for node, count in restarted.items())
            parts.append("started again: " + ", ".join(times))
        if missed := self.describe_missed_rates():
            parts.append(missed)
        if live.get("text"):
            parts.append(str(live["text"]))
        return "  ".join(parts)

    def describe_missed_rates(self) -> str:
        """Return a text that names the producers that miss their rates now, and the reasons; empty without any."""
        missed = self.live.get("missed_rates")
        if not isinstance(missed, dict) or not missed:
            return ""
        reasons = dict.fromkeys(reason for each in missed.values() for reason in each or ["reason unknown"])
        return f"rate not held by {join_names(missed)} ({' and '.join(reasons)})"


class Progress:
    """Shows a run's progress from snapshots, which are states of the run at one moment.

    A terminal shows only the newest snapshot. Elsewhere, for example in a file, a snapshot is printed as a line if
    `_LINE_EVERY_S` seconds have passed since the last line, if the running tasks have changed, or if the producers that
    miss their rates or the reasons have changed.
    """

    def __init__(self, console: Console, title: str) -> None:
        self._console = console
        self._title = title
        self._started = time.monotonic()
        self._live = Live(console=console, transient=True, refresh_per_second=4) if console.is_terminal else None
        self._next_line = 0.0
        self._last: tuple[list[str], str] = [], ""

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def print_sentence(self, sentence: str) -> None:
        """Print a sentence that later snapshots do not overwrite."""
        self._console.print(sentence, markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Stop drawing within the block, so that other code can use the screen."""
        if self._live:
            self._live.stop()
        try:
            yield
        finally:
            if self._live:
                self._live.start()

    def show(self, snapshot: Snapshot) -> None:
        """Draw a snapshot over the previous one, or print it as a line if a line is due."""
        elapsed_s = time.monotonic() - self._started
        if self._live:
            self._live.update(self._render_screen(snapshot, elapsed_s))
        elif elapsed_s >= self._next_line or (snapshot.running, snapshot.describe_missed_rates()) != self._last:
            self._next_line = elapsed_s + _LINE_EVERY_S
            self._last = snapshot.running, snapshot.describe_missed_rates()
            self.print_sentence(snapshot.format_line(elapsed_s))

    def _render_screen(self, snapshot: Snapshot, elapsed_s: float) -> Group:
        tasks = Table.grid(padding=(0, 2))
        for task in sorted(snapshot.tasks, key=lambda task: task.task_id in _LAST_TASKS):
            if task.state == "running":
                tasks.add_row(Spinner("dots"), task.task_id)
            elif task.state in _ICONS:
                tasks.add_row(_ICONS[task.state], f"[dim]{task.task_id}[/]")
        details = Text("\n".join(filter(None, [snapshot.format_counts(), snapshot.format_cluster()])))
        return Group(Text(f"{self._title}  {elapsed_s:.0f} s", style="bold"), tasks, details)
