"""The subjects of a metric's values in a run of a scenario, such as its faults, phases or subscriptions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import product

from brokerproof.experiment.guarantees import MISSING
from brokerproof.experiment.metrics import Metric
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.faults.registry import FAULT_KINDS, list_destroying_faults, list_harmful_faults
from brokerproof.systems.destinations import list_replication_ways

_PHASES = ("steady", "impact", "recovery")


def list_subjects(metric: Metric, scenario: Scenario, topology: Topology) -> Collection[str] | None:
    """Return the subjects for which a run measures the metric, or None if the scenario does not determine them."""
    find = _SUBJECTS.get(metric.subject)
    return None if find is None else find(scenario, topology)


def _list_times(scenario: Scenario) -> list[str]:
    return [*_PHASES, *(fault.name for fault in scenario.faults if FAULT_KINDS[fault.kind].slows)]


def _list_times_of_clusters(scenario: Scenario, topology: Topology) -> list[str]:
    homes = scenario.workload.list_homes(topology)
    times = _list_times(scenario)
    return [*times, *(f"{time}/{home}" for time, home in product(times, homes if len(homes) > 1 else ()))]


def _list_times_of_links(scenario: Scenario, topology: Topology) -> list[str]:
    ways = [way for link in topology.links for way in (link.between, link.between[::-1])]
    return [f"{here}>{there}/{time}" for (here, there), time in product(ways, _list_times(scenario))]


def _list_phases_of_ways(scenario: Scenario, topology: Topology) -> list[str]:
    ways = list_replication_ways(topology, scenario.workload)
    return [f"{home}>{other}/{phase}" for (home, other), phase in product(ways, _PHASES)]


def _list_moments(scenario: Scenario, topology: Topology) -> list[str]:
    return [*_PHASES, "read_back", *(f"before {fault.name}" for fault in scenario.faults), "end"]


def _list_moved(scenario: Scenario, topology: Topology) -> list[str]:
    return [each.name for each in scenario.workload.subscriptions if each.moves]


_SUBJECTS: Mapping[str, Callable[[Scenario, Topology], Collection[str]]] = {
    "fault": lambda scenario, topology: list_harmful_faults(scenario),
    "destroying fault": lambda scenario, topology: list_destroying_faults(scenario),
    "phase": lambda scenario, topology: _PHASES,
    "phase or fault that slows": _list_times_of_clusters,
    "way and phase or fault that slows": _list_times_of_links,
    "way and phase": _list_phases_of_ways,
    "moment": _list_moments,
    "subscription": _list_moved,
    "anomaly": lambda scenario, topology: MISSING,
    "run": lambda scenario, topology: ("run",),
    "end of run": lambda scenario, topology: ("end_of_run",),
}
