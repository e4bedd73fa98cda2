"""The result of one check of the command `doctor`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A requirement of runs, and whether this machine meets it.

    `found` is what the machine has, and `remedy` says how to meet the requirement.
    """

    name: str
    ok: bool
    found: str
    remedy: str = ""
