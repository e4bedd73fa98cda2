"""All kinds of fault. This module imports the modules that define kinds, and so fills `FAULT_KINDS` ({name: kind})."""

from __future__ import annotations

import brokerproof.faults.on_network
import brokerproof.faults.on_nodes  # noqa: F401
from brokerproof.experiment.scenario import Scenario
from brokerproof.faults.kind import FAULT_KINDS

__all__ = ["FAULT_KINDS", "list_destroying_faults", "list_harmful_faults"]


def list_harmful_faults(scenario: Scenario) -> list[str]:
    """Return the names of the scenario's faults that do harm: all except those that help the cluster to recover."""
    return [
        fault.name for fault in scenario.faults if not (fault.kind in FAULT_KINDS and FAULT_KINDS[fault.kind].helps)
    ]


def list_destroying_faults(scenario: Scenario) -> list[str]:
    """Return the names of the scenario's faults that wipe the data of their nodes."""
    return [fault.name for fault in scenario.faults if fault.kind in FAULT_KINDS and FAULT_KINDS[fault.kind].destroys]
