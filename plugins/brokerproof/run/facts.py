"""The facts about a run that are known before it begins: run.json, which `reserve` writes once."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from brokerproof.run.strict_model import StrictModel


class TimeAxis(StrictModel):
    """The axis of a run's times: CLOCK_MONOTONIC of one boot, and the offset from it to the time since the epoch."""

    boot_id: str = Field(description="the boot, as Linux names it")
    offset_us: int = Field(description="microseconds from CLOCK_MONOTONIC to the time since the epoch")


class RunFacts(StrictModel):
    """The run's id, its scenario and topology, and its slot and addresses. `triggered_at` is in microseconds."""

    version: Literal[1] = 1
    run_id: str
    created_at: datetime
    triggered_at: int | None = Field(None, description="when the run was requested; null if this is unknown")
    scenario: dict[str, Any] = Field(description="as it was in force, with every default")
    topology: dict[str, Any] = Field(description="as it was in force, with every default")
    settings: dict[str, Any] = Field(default_factory=dict, description="what was changed for this run, by dotted path")
    time_axis: TimeAxis | None = Field(
        None, description="the axis of the run's times; null if they are of the wall clock"
    )
    clock_error_us: int = Field(
        0, description="largest difference between the machines' clocks; 0 for one machine, or if it is unknown"
    )
    slot: int | None = Field(None, description="the slot of the machine; null if the run holds none")
    addresses: dict[str, str] = Field(default_factory=dict, description="the address of each node")
    views: dict[str, dict[str, str]] = Field(
        default_factory=dict, description="by node: the address at which it sees each node of another region"
    )
    host_ports: dict[str, list[int]] = Field(
        default_factory=dict, description="by node: ports of this machine's loopback that may lead to it"
    )
    machine: dict[str, Any] | None = Field(None, description="the machine, if that is not the one that records it")
    versions: dict[str, str | None] = Field(default_factory=dict, description="of all software that the run uses")
    sealed: bool = Field(False, description="whether every job seals the tables that it writes")
    report: str | None = Field(None, description="where a person looks; null for the page in the run's directory")
