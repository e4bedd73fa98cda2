"""The state of a run at one moment, as the command line shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from brokerproof.orchestration.airflow_client import TaskState


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
        """Return the phase and the counts of messages so far."""
        live = self.live
        counts = [f"{live[name]:,} {name}" for name in ("acked", "failed", "unknown", "delivered") if live.get(name)]
        return "  ".join(filter(None, [str(live.get("phase") or ""), ", ".join(counts)]))

    def format_cluster(self) -> str:
        """Return the topic's owner, the faults, the living nodes by role, the restarts by node, and the live text."""
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
        if live.get("text"):
            parts.append(str(live["text"]))
        return "  ".join(parts)
