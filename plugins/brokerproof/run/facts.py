"""What is known of a run before it begins: run.json, which `reserve` writes once."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from brokerproof.run.strict_model import StrictModel


class RunFacts(StrictModel):
    """Who the run is, what was asked for, and what it holds of the machine. Moments are microseconds."""

    version: Literal[1] = 1
    run_id: str
    created_at: datetime
    # When somebody asked for it, None where nobody says.
    triggered_at: int | None = None
    # As they were in force, with every default.
    scenario: dict[str, Any]
    topology: dict[str, Any]
    # What was changed for this run, by dotted path.
    overrides: dict[str, Any] = Field(default_factory=dict, alias="settings")
    # How far clocks of the run's processes may be apart. All processes of one machine read one clock.
    clock_error_us: int = 0
    # The slot of the machine, None where the run holds none, and the addresses that come with it: by node, and by node
    # of another region that looks from there.
    slot: int | None = None
    addresses: dict[str, str] = Field(default_factory=dict)
    views: dict[str, dict[str, str]] = Field(default_factory=dict)
    # What the run was made with, where that is not what is installed here.
    machine: dict[str, Any] | None = None
    versions: dict[str, str | None] = Field(default_factory=dict)
    # Where a person looks, None for the page in the run's directory.
    report: str | None = None
