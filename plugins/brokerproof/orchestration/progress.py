"""The progress of a run: on a terminal in place, elsewhere as lines."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from brokerproof.orchestration.snapshot import Snapshot

_LINE_EVERY_S = 5
_ICONS = {"success": "[green]✓[/]", "failed": "[red]✗[/]", "upstream_failed": "[yellow]–[/]", "skipped": "[dim]–[/]"}
_LAST_TASKS = ("release", "record", "verdict")


class Progress:
    """Shows snapshots of a run.

    A terminal shows the newest snapshot in place. Elsewhere a line appears every _LINE_EVERY_S, and when the running
    tasks change.
    """

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

    def print_sentence(self, sentence: str) -> None:
        """Print a sentence that stays on the screen."""
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
        elif elapsed_s >= self._next_line or snapshot.running != self._last_running:
            self._next_line = elapsed_s + _LINE_EVERY_S
            self._last_running = snapshot.running
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
