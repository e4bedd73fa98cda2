"""Warnings, before a run starts, about parts of its scenario that no run can meet, or that cannot fail.

A warning stops no run. The warning that needs earlier runs is in `results/held_rates.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from brokerproof.errors import RunWarning
from brokerproof.experiment.guarantees import MISSING
from brokerproof.experiment.metrics import METRICS, Metric
from brokerproof.experiment.scenario import Bound, Phase, Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.experiment.yaml_models import suggest_name
from brokerproof.faults.registry import FAULT_KINDS, list_destroying_faults, list_harmful_faults
from brokerproof.systems.destinations import list_clusters_reached, list_replication_ways
from brokerproof.systems.registry import find_system
from brokerproof.systems.roles import list_nodes_that, list_roles_that, serves


def list_warnings(scenario: Scenario, topology: Topology) -> list[RunWarning]:
    """Return the warnings about a scenario that `load_scenario` accepted."""
    return [
        *find_system(topology).check(scenario, topology),
        *_list_condition_warnings(scenario),
        *_list_bound_warnings(scenario, topology),
        *_list_owner_warnings(scenario, topology),
    ]


def _list_condition_warnings(scenario: Scenario) -> Iterator[RunWarning]:
    """Yield a warning for each fault that waits for a condition which never becomes true."""
    kinds = {fault.name: FAULT_KINDS[fault.kind] for fault in scenario.faults}
    for index, fault in enumerate(scenario.faults):
        waited_for = fault.when.unhealthy if fault.when else None
        if waited_for is not None and (kinds[waited_for].leaves_nodes or kinds[waited_for].helps):
            yield RunWarning(
                field=f"faults.{index}.when.unhealthy",
                what=f"`{waited_for}` ({kinds[waited_for].name}) leaves its nodes in service, so that they pass their "
                "health checks, the timeline waits in vain, and the verdict is `unknown`",
                remedy="name a fault that takes its nodes away, or leave the condition out",
            )


def _list_owner_warnings(scenario: Scenario, topology: Topology) -> Iterator[RunWarning]:
    """Yield a warning for each phase whose region of the owner has no node that could own the topic.

    The topic has an owner in every cluster that its messages reach.
    """
    roles = " or ".join(list_roles_that(find_system(topology), serves))
    for phase, region in scenario.owner.by_phase.items():
        elsewhere = [
            cluster
            for cluster in list_clusters_reached(topology, scenario.workload)
            if region not in {topology.nodes[name].region for name in list_nodes_that(serves, topology, cluster)}
        ]
        if elsewhere:
            yield RunWarning(
                field=f"owner.{phase}",
                what=f"no {roles} of `{elsewhere[0]}` is in {region}, so that no run meets it",
                remedy="leave it out, or name a region in which every cluster of the topic has one",
            )


@dataclass(frozen=True, kw_only=True)
class _BoundInScenario:
    """A bound of a scenario. `key` is `METRIC` or `METRIC/SUBJECT`."""

    key: str
    bound: Bound
    metric: Metric
    subject: str
    scenario: Scenario
    topology: Topology

    def applies_to(self, fault: str) -> bool:
        """Whether it is the bound in force for the metric of a fault."""
        return self.subject in ("", fault) and self.scenario.bound(self.key.partition("/")[0], fault) == self.bound


def _list_bound_warnings(scenario: Scenario, topology: Topology) -> Iterator[RunWarning]:
    """Yield at most one warning for each bound."""
    for key, bound in scenario.bounds.items():
        name, _, subject = key.partition("/")
        line = _BoundInScenario(
            key=key, bound=bound, metric=METRICS[name], subject=subject, scenario=scenario, topology=topology
        )
        found = (warning for check in _CHECKS if (warning := check(line)) is not None)
        if (first := next(found, None)) is not None:
            yield first


def _warn(line: _BoundInScenario, what: str, remedy: str, end: str = "") -> RunWarning:
    return RunWarning(field=f"bounds.{line.key}{end}", what=what, remedy=remedy)


def _check_subject(line: _BoundInScenario) -> RunWarning | None:
    known = list_subjects(line.metric, line.scenario, line.topology)
    if known is None or (line.subject in known if line.subject else known):
        return None
    if not known:
        return _warn(
            line,
            f"there is one value per {line.metric.subject}, and none is in this scenario, so that the verdict is "
            "at best `unknown`",
            "leave it out",
        )
    return _warn(
        line,
        f"no {line.metric.subject} is called `{line.subject}`, so that nothing is measured of it and the verdict is "
        "at best `unknown`",
        suggest_name(line.subject, known),
    )


def _check_range(line: _BoundInScenario) -> RunWarning | None:
    greatest, bound = line.metric.greatest, line.bound
    if bound.max is not None and bound.max < 0:
        return _warn(line, "no value is below 0, so that no run meets it", "set it to 0 or more", ".max")
    if bound.min is not None and greatest is not None and bound.min > greatest:
        what = f"no value is above {greatest:g}, so that no run meets it"
        return _warn(line, what, f"set it to {greatest:g} or less", ".min")
    return None


def _check_detection(line: _BoundInScenario) -> RunWarning | None:
    """Warn about `detect_s` of a fault without a failure to detect."""
    if line.key.partition("/")[0] != "detect_s":
        return None
    for fault in line.scenario.faults:
        if FAULT_KINDS[fault.kind].leaves_nodes and line.applies_to(fault.name):
            return _warn(
                line,
                f"`{fault.name}` ({fault.kind}) leaves its nodes in service, so that nothing is detected and the "
                "verdict is at best `unknown`",
                "bound it for the other faults only, as `detect_s/NAME`",
            )
    return None


def _check_messages(line: _BoundInScenario) -> RunWarning | None:
    if line.metric.unit != "messages":
        return None
    total = int(line.scenario.workload.target_rate * line.scenario.phases.total_s)
    if line.bound.min is not None and line.bound.min > total:
        what = f"the three phases publish {total:,} messages, so that no run meets it"
        return _warn(line, what, f"set it below {total}", ".min")
    if line.bound.max is not None and line.bound.max >= total and not line.bound.min:
        what = f"it allows all of the {total:,} messages that the three phases publish, so that it cannot fail"
        return _warn(line, what, f"set it below {total}", ".max")
    return None


def _check_load_end(line: _BoundInScenario) -> RunWarning | None:
    """Warn if the load ends before a wait could exceed the maximum, because the end of the load cuts the wait off."""
    bound, phases = line.bound, line.scenario.phases
    if not line.metric.ends_with_load or bound.max is None or (bound.min or 0) > 0:
        return None
    harmful = list_harmful_faults(line.scenario)
    # Seconds from each fault to the end of the load. A condition that delays a fault makes them fewer.
    left_s = {
        fault.name: phases.impact_s + phases.recovery_s - fault.at_s
        for fault in line.scenario.faults
        if fault.name in harmful and line.applies_to(fault.name)
    }
    if not left_s:
        return None
    name = max(left_s, key=lambda name: left_s[name])
    if bound.max < left_s[name]:
        return None
    return _warn(
        line,
        f"the load ends {left_s[name]:g} s after `{name}`, and no value above {left_s[name]:g} can be proven, so that "
        "the bound cannot fail",
        f"set it below {math.ceil(left_s[name])}, or lengthen phases.impact_s",
        ".max",
    )


def _check_open_ends(line: _BoundInScenario) -> RunWarning | None:
    """Warn if the bound allows every value that the metric can have."""
    greatest, bound = line.metric.greatest, line.bound
    open_below = bound.min is None or bound.min <= 0
    open_above = bound.max is None or (greatest is not None and bound.max >= greatest)
    # `min` alone, of a metric that has to be measured, means that the value need not be known.
    if not (open_below and open_above) or (line.metric.required and bound.max is None):
        return None
    span = "at least 0" if greatest is None else f"from 0 to {greatest:g}"
    return _warn(line, f"every value is {span} anyway, so that it cannot fail", "set a stricter one, or leave it out")


# The first check that finds a problem gives the only warning about the bound.
_CHECKS: tuple[Callable[[_BoundInScenario], RunWarning | None], ...] = (
    _check_subject,
    _check_range,
    _check_open_ends,
    _check_detection,
    _check_messages,
    _check_load_end,
)


def list_subjects(metric: Metric, scenario: Scenario, topology: Topology) -> Collection[str] | None:
    """Return the subjects for which a run measures the metric, or None if the scenario does not determine them."""
    find = _SUBJECTS.get(metric.subject)
    return None if find is None else find(scenario, topology)


def _list_times(scenario: Scenario) -> list[str]:
    return [*Phase, *(fault.name for fault in scenario.faults if FAULT_KINDS[fault.kind].slows)]


def _list_times_of_clusters(scenario: Scenario, topology: Topology) -> list[str]:
    homes = scenario.workload.list_homes(topology)
    times = _list_times(scenario)
    return [*times, *(f"{time}/{home}" for time, home in product(times, homes if len(homes) > 1 else ()))]


def _list_times_of_links(scenario: Scenario, topology: Topology) -> list[str]:
    ways = [way for link in topology.links for way in (link.between, link.between[::-1])]
    return [f"{here}>{there}/{time}" for (here, there), time in product(ways, _list_times(scenario))]


def _list_phases_of_ways(scenario: Scenario, topology: Topology) -> list[str]:
    ways = list_replication_ways(topology, scenario.workload)
    return [f"{home}>{other}/{phase}" for (home, other), phase in product(ways, Phase)]


def _list_moments(scenario: Scenario, topology: Topology) -> list[str]:
    return [*Phase, "read_back", *(f"before {fault.name}" for fault in scenario.faults), "end"]


def _list_moved(scenario: Scenario, topology: Topology) -> list[str]:
    return [each.name for each in scenario.workload.subscriptions if each.moves]


_SUBJECTS: Mapping[str, Callable[[Scenario, Topology], Collection[str]]] = {
    "fault": lambda scenario, topology: list_harmful_faults(scenario),
    "destroying fault": lambda scenario, topology: list_destroying_faults(scenario),
    "phase": lambda scenario, topology: tuple(Phase),
    "phase or fault that slows": _list_times_of_clusters,
    "way and phase or fault that slows": _list_times_of_links,
    "way and phase": _list_phases_of_ways,
    "moment": _list_moments,
    "subscription": _list_moved,
    "anomaly": lambda scenario, topology: MISSING,
    "run": lambda scenario, topology: ("run",),
    "end of run": lambda scenario, topology: ("end_of_run",),
}
