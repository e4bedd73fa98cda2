"""When the faults of a scenario take effect, as far as its file tells, in seconds after the impact phase began."""

from __future__ import annotations

from dataclasses import dataclass

from brokerproof.experiment.fault import Fault
from brokerproof.experiment.scenario import Scenario
from brokerproof.faults.registry import list_harmful_faults


@dataclass(frozen=True, kw_only=True)
class HarmfulFault:
    """A fault whose recovery is looked for; `index` is its place in the scenario's list."""

    index: int
    fault: Fault
    # The longest time from its injection to the load's end.
    load_end_s: float


def list_fault_times(scenario: Scenario) -> list[HarmfulFault]:
    """The harmful faults in the order in which they are injected. A condition may delay one of them."""
    harmful = set(list_harmful_faults(scenario))
    indexes = [index for index, fault in enumerate(scenario.faults) if fault.name in harmful]
    # The timeline injects them in this order too.
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
