"""Counters and phases that the parts of a run rewrite while they work; for people to look at, proof of nothing."""

from __future__ import annotations

from typing import Any

from brokerproof import clock
from brokerproof.errors import RunError
from brokerproof.run.directory import Run


class Announcer:
    """Rewrites `progress/<part>.json` with what one part of a run has to say."""

    def __init__(self, run: Run, part: str) -> None:
        self._run, self._part = run, part
        self._content: dict[str, Any] = {}

    def __call__(self, *, fault: dict[str, Any] | None = None, **content: Any) -> None:
        """Say something; what was said before under other names stays. `fault` replaces the fault of its name."""
        self._content |= content
        if fault is not None:
            others = [one for one in self._content.get("faults", []) if one["fault"] != fault["fault"]]
            self._content["faults"] = [*others, fault]
        self._run.write_json(f"progress/{self._part}.json", {"at": clock.now_us(), **self._content})


def read(run: Run, part: str) -> dict[str, Any]:
    """What a part said last; empty where it has said nothing."""
    try:
        return dict(run.read_json("progress", f"{part}.json"))
    except RunError:
        return {}
