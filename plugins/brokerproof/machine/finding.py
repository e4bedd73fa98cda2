"""The result of one check of `doctor`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A requirement of runs, what was found, and whether this machine meets it. `remedy` says how to meet it."""

    name: str
    ok: bool
    found: str
    remedy: str = ""
