"""The live status of a run: counters and phases below `progress/`, for people to look at while the run goes on.

Each part of a run, such as a client, rewrites its own file at any time. So the live status is no evidence.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from brokerproof import clock
from brokerproof.errors import RunError
from brokerproof.run.directory import Run
from brokerproof.run.strict_model import load_object


class LiveStatus:
    """The live status of one part of a run, such as a client, in the run's file `progress/<part>.json`."""

    def __init__(self, run: Run, part: str, *, totals: Collection[str] = ()) -> None:
        """The counters in `totals` go on behind those that an earlier process of the part has shown."""
        self._run, self._part = run, part
        earlier = read_live_status(run, part) if totals else {}
        self._before: dict[str, int] = {name: earlier.get(name) or 0 for name in totals}
        self._content: dict[str, Any] = {}

    def show(self, *, fault: dict[str, Any] | None = None, **content: Any) -> None:
        """Write the values in `content`; earlier values with other names stay.

        `fault` is added to the list of faults, or replaces the fault of the same name in it.
        """
        self._content |= {
            name: value + self._before[name] if name in self._before else value for name, value in content.items()
        }
        if fault is not None:
            others = [one for one in self._content.get("faults", []) if one["fault"] != fault["fault"]]
            self._content["faults"] = [*others, fault]
        content = {"at": clock.now_us(), **self._content}
        self._run.write_text(f"progress/{self._part}.json", json.dumps(content, indent=1))


def read_live_status(run: Run, part: str) -> dict[str, Any]:
    """Return the live status of a part, such as a client; empty if its file is missing or cannot be read."""
    try:
        return load_object(run.read_text("progress", f"{part}.json"), file=run.path("progress", f"{part}.json"))
    except (FileNotFoundError, RunError):
        return {}


def read_every_live_status(run: Run) -> dict[str, dict[str, Any]]:
    """Return {part: its live status} for all parts of the run that have written one."""
    parts = sorted(name.removesuffix(".json") for name in run.list_names("progress") if name.endswith(".json"))
    return {part: read_live_status(run, part) for part in parts}
