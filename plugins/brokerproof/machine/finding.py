"""What `doctor` says of one thing that runs need."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that runs need; `remedy` says how to get it."""

    name: str
    ok: bool
    found: str
    remedy: str = ""
