"""Warnings about bounds that have no measurement, that no run can meet, or that no run can break.

`experiment/metrics.py` defines the range of each metric's values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from brokerproof.experiment.metrics import METRICS, Metric
from brokerproof.experiment.run_warning import RunWarning
from brokerproof.experiment.scenario import Bound, Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.experiment.yaml_models import suggest_name
from brokerproof.faults.registry import FAULT_KINDS
from brokerproof.run.observations import INTERVAL_S
from brokerproof.run_warnings.failovers import list_failovers
from brokerproof.run_warnings.fault_times import list_fault_times
from brokerproof.run_warnings.subjects import list_subjects
from brokerproof.systems.roles import list_nodes_that, serves

_SECONDS = {"s": 1.0, "ms": 0.001}


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


def list_bound_warnings(scenario: Scenario, topology: Topology) -> Iterator[RunWarning]:
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
    least, greatest, bound = line.metric.least, line.metric.greatest, line.bound
    if bound.max is not None and bound.max < least:
        return _warn(
            line, f"no value is below {least:g}, so that no run meets it", f"set it to {least:g} or more", ".max"
        )
    if bound.min is not None and greatest is not None and bound.min > greatest:
        what = f"no value is above {greatest:g}, so that no run meets it"
        return _warn(line, what, f"set it to {greatest:g} or less", ".min")
    return None


def _check_failover(line: _BoundInScenario) -> RunWarning | None:
    """Warn if the maximum is below the shortest possible failover after a fault that silences the topic's owner."""
    if line.bound.max is None or not line.metric.waits_for_failover:
        return None
    for each in list_failovers(line.scenario, line.topology):
        soonest_s = min(each.failover.soonest_s, each.lasts_s)
        if each.owner_is_silent and line.applies_to(each.harm.fault.name) and line.bound.max < soonest_s:
            return _warn(
                line,
                f"`{each.harm.fault.name}` makes the topic's owner silent, and nobody takes over within "
                f"{soonest_s:.0f} s ({each.failover.why}), so that no run meets it",
                f"set it above {each.failover.latest_s:.0f}, or shorten the time-outs",
                ".max",
            )
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


def _check_sampling(line: _BoundInScenario) -> RunWarning | None:
    if line.bound.max is None or not line.metric.is_sampled or line.bound.max >= INTERVAL_S:
        return None
    return _warn(
        line,
        f"it is read from samples that are {INTERVAL_S:g} s apart, so that chance decides whether a run meets it",
        f"set it to {2 * INTERVAL_S:g} or more",
        ".max",
    )


def _check_round_trip(line: _BoundInScenario) -> RunWarning | None:
    if line.bound.max is None or not line.metric.takes_round_trip:
        return None
    trip_s = _find_round_trip_s(line.scenario, line.topology)
    if line.bound.max * _SECONDS[line.metric.unit] >= trip_s:
        return None
    return _warn(
        line,
        f"the way from the producers to the topic's owner and back takes {1000 * trip_s:g} ms, so that no run meets it",
        f"set it above {trip_s / _SECONDS[line.metric.unit]:g}, or bring the producers nearer",
        ".max",
    )


def _find_round_trip_s(scenario: Scenario, topology: Topology) -> float:
    """Return the seconds of the shortest way from the producers to a node that serves, and back."""
    here = scenario.workload.region
    homes = scenario.workload.list_homes(topology)
    if here is None:
        return 0.0
    regions = {topology.nodes[name].region for home in homes for name in list_nodes_that(serves, topology, home)}
    delays = {
        region: link.delay_ms - link.jitter_ms
        for link in topology.links
        for region in link.between
        if here in link.between
    }
    return 2 * min(0.0 if region == here else delays.get(region, 0.0) for region in regions) / 1000


def _check_messages(line: _BoundInScenario) -> RunWarning | None:
    if line.metric.unit != "messages":
        return None
    workload, phases = line.scenario.workload, line.scenario.phases
    total = int(workload.rate * len(workload.list_homes(line.topology)) * phases.total_s)
    if line.bound.min is not None and line.bound.min > total:
        return _warn(
            line,
            f"the three phases publish {total:,} messages, so that no run meets it",
            f"set it below {total}",
            ".min",
        )
    if line.bound.max is not None and line.bound.max >= total and not line.bound.min:
        return _warn(
            line,
            f"it allows all of the {total:,} messages that the three phases publish, so that it cannot fail",
            f"set it below {total}",
            ".max",
        )
    return None


def _check_load_end(line: _BoundInScenario) -> RunWarning | None:
    """Warn if the load ends before a wait could exceed the maximum, because the end of the load cuts the wait off."""
    bound = line.bound
    if not line.metric.ends_with_load or bound.max is None or (bound.min or 0) > line.metric.least:
        return None
    applies = [each for each in list_fault_times(line.scenario) if line.applies_to(each.fault.name)]
    if not applies:
        return None
    longest = max(applies, key=lambda each: each.load_end_s)
    if bound.max < longest.load_end_s:
        return None
    return _warn(
        line,
        f"the load ends {longest.load_end_s:g} s after `{longest.fault.name}`, and no value above "
        f"{longest.load_end_s:g} can be proven, so that the bound cannot fail",
        f"set it below {math.ceil(longest.load_end_s)}, or lengthen phases.impact_s",
        ".max",
    )


def _check_open_ends(line: _BoundInScenario) -> RunWarning | None:
    """Warn if the bound allows every value that the metric can have."""
    least, greatest, bound = line.metric.least, line.metric.greatest, line.bound
    open_below = bound.min is None or bound.min <= least
    open_above = bound.max is None or (greatest is not None and bound.max >= greatest)
    if not (open_below and open_above):
        return None
    if line.metric.required and bound.max is None:
        # It says that the value need not be known: a wait that was cut off holds it.
        return None
    span = f"at least {least:g}" if greatest is None else f"from {least:g} to {greatest:g}"
    return _warn(line, f"every value is {span} anyway, so that it cannot fail", "set a stricter one, or leave it out")


# The first check that finds a problem gives the only warning about the bound.
_CHECKS: tuple[Callable[[_BoundInScenario], RunWarning | None], ...] = (
    _check_subject,
    _check_range,
    _check_open_ends,
    _check_failover,
    _check_detection,
    _check_sampling,
    _check_round_trip,
    _check_messages,
    _check_load_end,
)
