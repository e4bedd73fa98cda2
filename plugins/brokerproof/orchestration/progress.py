"""What a run does at the moment, on a terminal or as lines."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from brokerproof.orchestration.airflow_client import TaskState

_LINE_EVERY_S = 5
_ICONS = {"success": "[green]✓[/]", "failed": "[red]✗[/]", "upstream_failed": "[yellow]–[/]", "skipped": "[dim]–[/]"}
_SHOWN_LAST = ("release", "record", "verdict")


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A run at a moment; `live` is progress/live.json, of which anything may be missing."""

    tasks: list[TaskState] = field(default_factory=list)
    live: Mapping[str, Any] = field(default_factory=dict)

    @property
    def running(self) -> list[str]:
        """The tasks that are at work."""
        return [task.task_id for task in self.tasks if task.state == "running"]

    def line(self, elapsed_s: float) -> str:
        """Everything in one line."""
        doing = ", ".join(self.running) or "waiting for Airflow"
        return " | ".join([f"{elapsed_s:4.0f} s  {doing}", *filter(None, [self.counts(), self.places()])])

    def counts(self) -> str:
        """Phase and messages so far."""
        live = self.live
        counted = [f"{live[name]:,} {name}" for name in ("acked", "failed", "unknown", "delivered") if live.get(name)]
        return "  ".join(filter(None, [str(live.get("phase") or ""), ", ".join(counted)]))

    def places(self) -> str:
        """The topic's owner, what is broken, what is alive, and the step's own words."""
        live = self.live
        said = [f"owner {live['owner']}"] if live.get("owner") else []
        said += [f"{one.get('fault')} {one.get('state')}" for one in live.get("faults") or [] if isinstance(one, dict)]
        alive = live.get("alive")
        if isinstance(alive, dict) and alive:
            counted = (f"{len(nodes)} {role}{'' if len(nodes) == 1 else 's'}" for role, nodes in alive.items())
            said.append("alive: " + ", ".join(counted))
        if live.get("text"):
            said.append(str(live["text"]))
        return "  ".join(said)


def read_live(run_directory: Path) -> dict[str, Any]:
    """What the run wrote about itself within the last second or so; nothing where there is none."""
    try:
        live = json.loads((run_directory / "progress" / "live.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return live if isinstance(live, dict) else {}


class Progress:
    """Shows snapshots: on a terminal in place, elsewhere as a line every few seconds and at every change of tasks."""

    def __init__(self, console: Console, title: str) -> None:
        self._console = console
        self._title = title
        self._started = time.monotonic()
        self._live = Live(console=console, transient=True, refresh_per_second=4) if console.is_terminal else None
        self._next_line = 0.0
        self._last_running: list[str] = []

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def say(self, sentence: str) -> None:
        """A sentence that stays on the screen."""
        self._console.print(sentence, markup=False, highlight=False, soft_wrap=True)

    def show(self, snapshot: Snapshot) -> None:
        """Show the run as it is now."""
        elapsed_s = time.monotonic() - self._started
        if self._live:
            self._live.update(self._screen(snapshot, elapsed_s))
        elif elapsed_s >= self._next_line or snapshot.running != self._last_running:
            self._next_line = elapsed_s + _LINE_EVERY_S
            self._last_running = snapshot.running
            self.say(snapshot.line(elapsed_s))

    def _screen(self, snapshot: Snapshot, elapsed_s: float) -> Group:
        table = Table.grid(padding=(0, 2))
        for task in sorted(snapshot.tasks, key=lambda task: task.task_id in _SHOWN_LAST):
            if task.state == "running":
                table.add_row(Spinner("dots"), task.task_id)
            elif task.state in _ICONS:
                table.add_row(_ICONS[task.state], f"[dim]{task.task_id}[/]")
        said = Text("\n".join(filter(None, [snapshot.counts(), snapshot.places()])))
        return Group(Text(f"{self._title}  {elapsed_s:.0f} s", style="bold"), table, said)
