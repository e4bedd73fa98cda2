"""All warnings about a scenario that need only its file and its topology."""

from __future__ import annotations

from brokerproof.experiment.run_warning import RunWarning
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.run_warnings.bounds import list_bound_warnings
from brokerproof.run_warnings.conditions import list_condition_warnings
from brokerproof.run_warnings.outages import list_outage_warnings
from brokerproof.run_warnings.owners import list_owner_warnings
from brokerproof.systems.registry import find_system


def list_warnings(scenario: Scenario, topology: Topology) -> list[RunWarning]:
    """Return the warnings about a scenario that `load_scenario` accepted."""
    return [
        *find_system(topology).list_warnings(scenario, topology),
        *list_condition_warnings(scenario),
        *list_outage_warnings(scenario, topology),
        *list_bound_warnings(scenario, topology),
        *list_owner_warnings(scenario, topology),
    ]
