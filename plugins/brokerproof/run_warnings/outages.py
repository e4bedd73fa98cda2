"""Warnings about faults whose RTO cannot be measured, because the load or the next fault comes too early."""

from __future__ import annotations

import math
from collections.abc import Iterator

from brokerproof.experiment.metrics import HELD_SECONDS, Watch
from brokerproof.experiment.run_warning import RunWarning
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.experiment.verdict import Verdict
from brokerproof.run_warnings.failovers import FailoverOfFault, list_failovers
from brokerproof.systems.registry import find_system
from brokerproof.systems.roles import list_roles_that, serves


def list_outage_warnings(scenario: Scenario, topology: Topology) -> Iterator[RunWarning]:
    """At most one warning for each fault."""
    for each in list_failovers(scenario, topology):
        needed_s = each.failover.latest_s + HELD_SECONDS
        if (
            each.without_nodes
            and each.harm.fault.at_s + each.lasts_s >= scenario.phases.total_s - scenario.phases.steady_s
        ):
            yield _warn_of_nobody(each, scenario, topology)
        elif each.harm.load_end_s < needed_s:
            yield _warn_of_load_end(each, scenario, needed_s)
        elif each.harm.next_fault_s is not None and each.harm.next_fault_s < needed_s:
            yield _warn_of_next_fault(each, scenario, needed_s)


def _warn_of_nobody(each: FailoverOfFault, scenario: Scenario, topology: Topology) -> RunWarning:
    roles = " or ".join(list_roles_that(find_system(topology), serves))
    return RunWarning(
        field=f"faults.{each.harm.index}",
        what=f"no {roles} of {' and '.join(each.without_nodes)} is left until the load ends, so that the RTO of "
        f"`{each.harm.fault.name}` cannot be measured and {_name_verdict(each, scenario)}",
        remedy="heal it earlier with `heal_at_s`, or spare one of them",
    )


def _warn_of_load_end(each: FailoverOfFault, scenario: Scenario, needed_s: float) -> RunWarning:
    impact_s = math.ceil(each.harm.fault.at_s + needed_s - scenario.phases.recovery_s)
    return RunWarning(
        field="phases.impact_s",
        what=f"{_describe_outage(each)}; the load ends {each.harm.load_end_s:g} s after `{each.harm.fault.name}`, so "
        f"that its RTO may not be measured, and then {_name_verdict(each, scenario)}",
        remedy=f"set it to {impact_s} or more",
    )


def _warn_of_next_fault(each: FailoverOfFault, scenario: Scenario, needed_s: float) -> RunWarning:
    name, following = each.harm.fault.name, each.harm.next_fault
    assert following is not None
    bounded = scenario.bound("rto_s", name) is not None
    verdict = f", and then {_name_verdict(each, scenario)}, because a bound asks for it" if bounded else ""
    return RunWarning(
        field=f"faults.{scenario.faults.index(following)}.at_s",
        what=f"{_describe_outage(each)}; `{following.name}` follows {each.harm.next_fault_s:g} s after `{name}`, so "
        f"that the RTO of `{name}` may not be measured{verdict}",
        remedy=f"set it to {math.ceil(each.harm.fault.at_s + needed_s)} or more",
    )


def _describe_outage(each: FailoverOfFault) -> str:
    return (
        f"acks can stay away for {each.failover.latest_s:.0f} s ({each.failover.why}), and the rate has to be held for "
        f"{HELD_SECONDS} s more"
    )


def _name_verdict(each: FailoverOfFault, scenario: Scenario) -> str:
    """What the run comes to: a wait that was cut off breaks a bound that it already exceeds."""
    bound = scenario.bound("rto_s", each.harm.fault.name)
    seen_s = each.harm.find_watched_s(Watch.NEXT_FAULT) - HELD_SECONDS
    failed = bound is not None and bound.max is not None and seen_s > bound.max
    return f"the verdict is `{Verdict.FAILED}`" if failed else f"the verdict is at best `{Verdict.UNKNOWN}`"
