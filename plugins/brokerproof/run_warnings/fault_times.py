"""The times of a scenario's harmful faults, as far as its file tells them."""

from __future__ import annotations

from dataclasses import dataclass

from brokerproof.experiment.fault import Fault
from brokerproof.experiment.scenario import Scenario
from brokerproof.faults.registry import list_harmful_faults


@dataclass(frozen=True, kw_only=True)
class HarmfulFault:
    """A fault whose recovery is measured. `index` is its place in the scenario's list of faults, from 0."""

    index: int
    fault: Fault
    # Seconds from its injection to the load's end. The real time is shorter if a condition delays the injection.
    load_end_s: float


def list_fault_times(scenario: Scenario) -> list[HarmfulFault]:
    """Return the harmful faults in the order of their `at_s`. A condition may delay the injection of one."""
    harmful = set(list_harmful_faults(scenario))
    indexes = [index for index, fault in enumerate(scenario.faults) if fault.name in harmful]
    # The timeline injects faults in this order.
    ordered = sorted(indexes, key=lambda index: (scenario.faults[index].at_s, index))
    found = []
    for index in ordered:
        fault = scenario.faults[index]
        found.append(
            HarmfulFault(
                index=index,
                fault=fault,
                load_end_s=scenario.phases.impact_s + scenario.phases.recovery_s - fault.at_s,
            )
        )
    return found
