"""Warnings about faults whose RTO cannot be measured, because the load ends too early."""

from __future__ import annotations

import math
from collections.abc import Iterator

from brokerproof.experiment.run_warning import RunWarning
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.experiment.verdict import Verdict
from brokerproof.run_warnings.failovers import FailoverOfFault, list_failovers
from brokerproof.systems.registry import find_system
from brokerproof.systems.roles import list_roles_that, serves


def list_outage_warnings(scenario: Scenario, topology: Topology) -> Iterator[RunWarning]:
    """Yield at most one warning for each fault."""
    for each in list_failovers(scenario, topology):
        if (
            each.without_nodes
            and each.harm.fault.at_s + each.lasts_s >= scenario.phases.total_s - scenario.phases.steady_s
        ):
            yield _warn_of_nobody(each, scenario, topology)
        elif each.harm.load_end_s <= each.failover.latest_s:
            yield _warn_of_load_end(each, scenario)


def _warn_of_nobody(each: FailoverOfFault, scenario: Scenario, topology: Topology) -> RunWarning:
    roles = " or ".join(list_roles_that(find_system(topology), serves))
    return RunWarning(
        field=f"faults.{each.harm.index}",
        what=f"no {roles} of {' and '.join(each.without_nodes)} is left until the load ends, so that the RTO of "
        f"`{each.harm.fault.name}` cannot be measured and {_name_verdict(each, scenario)}",
        remedy="heal it earlier with `heal_at_s`, or spare one of them",
    )


def _warn_of_load_end(each: FailoverOfFault, scenario: Scenario) -> RunWarning:
    # The load must continue after the latest end of the outage. Otherwise no ack shows that the outage has ended.
    impact_s = math.floor(each.harm.fault.at_s + each.failover.latest_s - scenario.phases.recovery_s) + 1
    return RunWarning(
        field="phases.impact_s",
        what=f"{_describe_outage(each)}; the load ends {each.harm.load_end_s:g} s after `{each.harm.fault.name}`, so "
        f"that its RTO may not be measured, and then {_name_verdict(each, scenario)}",
        remedy=f"set it to {impact_s} or more",
    )


def _describe_outage(each: FailoverOfFault) -> str:
    return f"acks can stay away for {each.failover.latest_s:.0f} s ({each.failover.why})"


def _name_verdict(each: FailoverOfFault, scenario: Scenario) -> str:
    """Return the phrase that names the run's verdict.

    It is `failed` if the wait for acks exceeds the bound of `rto_s` before the load ends.
    """
    bound = scenario.bound("rto_s", each.harm.fault.name)
    failed = bound is not None and bound.max is not None and each.harm.load_end_s > bound.max
    return f"the verdict is `{Verdict.FAILED}`" if failed else f"the verdict is at best `{Verdict.UNKNOWN}`"
