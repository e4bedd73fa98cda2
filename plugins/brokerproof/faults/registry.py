"""The kinds of fault that there are. A module of kinds is imported here, which registers them under their names."""

from __future__ import annotations

import brokerproof.faults.on_network
import brokerproof.faults.on_nodes  # noqa: F401
from brokerproof.experiment.scenario import Scenario
from brokerproof.faults.kind import FAULT_KINDS

__all__ = ["FAULT_KINDS", "list_destroying_faults", "list_harmful_faults"]


def list_harmful_faults(scenario: Scenario) -> list[str]:
    """The names of the faults whose recovery is looked for: not those that help the cluster to recover."""
    return [
        fault.name for fault in scenario.faults if not (fault.kind in FAULT_KINDS and FAULT_KINDS[fault.kind].helps)
    ]


def list_destroying_faults(scenario: Scenario) -> list[str]:
    """The names of the faults that take what nodes had stored."""
    return [fault.name for fault in scenario.faults if fault.kind in FAULT_KINDS and FAULT_KINDS[fault.kind].destroys]
