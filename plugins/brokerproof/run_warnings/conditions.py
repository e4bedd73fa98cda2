"""Warnings about conditions of faults that never become true, so that the timeline waits for them in vain."""

from __future__ import annotations

from collections.abc import Iterator

from brokerproof.experiment.run_warning import RunWarning
from brokerproof.experiment.scenario import Scenario
from brokerproof.faults.registry import FAULT_KINDS


def list_condition_warnings(scenario: Scenario) -> Iterator[RunWarning]:
    """Yield at most one warning for each fault."""
    kinds = {fault.name: FAULT_KINDS[fault.kind] for fault in scenario.faults}
    for index, fault in enumerate(scenario.faults):
        waited_for = fault.when.unhealthy if fault.when else None
        if waited_for is None:
            continue
        kind = kinds[waited_for]
        if kind.leaves_nodes or kind.helps:
            yield RunWarning(
                field=f"faults.{index}.when.unhealthy",
                what=f"`{waited_for}` ({kind.name}) leaves its nodes in service, so that they pass their health "
                "checks, the timeline waits in vain, and the verdict is `unknown`",
                remedy="name a fault that takes its nodes away, or leave the condition out",
            )
