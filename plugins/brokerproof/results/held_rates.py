"""Which rates this machine held lately, and the warning about a scenario that asks for more.

A run held its rate if at least `HELD_SHARE` of the steady phase's schedule was acknowledged. It did not hold it either
if its timeline gave up because the load never became steady.

Runs of the same topology are compared, and those of others where their number of nodes makes the comparison right:
what more nodes held, fewer nodes hold too, and what fewer nodes did not hold, more nodes do not hold either. Only runs
whose messages were no larger say anything about what was not held.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from brokerproof.experiment.metrics import HELD_SHARE
from brokerproof.experiment.run_warning import RunWarning
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.faults.warm_up import NEVER_HELD
from brokerproof.results.comparability import describe_machine

if TYPE_CHECKING:
    from brokerproof.results.history_schema import RecordedRun

LATELY = timedelta(days=30)
# A rate that is so many times the highest that was held is worth a warning though nobody tried it.
_FAR_ABOVE = 3.0


@dataclass(frozen=True, kw_only=True)
class AskedRate:
    """The rate that a run asked for, of all clusters published to, and whether it was held; None where nobody knows."""

    run_id: str
    topology: str
    nodes: int
    machine: Mapping[str, Any]
    rate_per_s: int
    size: int
    held: bool | None


def make_asked_rate(run: RecordedRun, share: float | None) -> AskedRate:
    """From a recorded run and the share of its steady phase's schedule that was acknowledged."""
    workload, topology = run.parameters["scenario"]["workload"], run.parameters["topology"]
    held = None if share is None else share >= HELD_SHARE
    if held is None and NEVER_HELD in run.why:
        held = False
    return AskedRate(
        run_id=run.run_id,
        topology=run.topology,
        nodes=sum(len(cluster["nodes"]) for cluster in topology["clusters"].values())
        + len(topology.get("shared_metadata") or {}),
        machine=run.parameters["machine"],
        rate_per_s=workload["rate"] * max(1, len(workload["produce_on"])),
        size=workload["size"],
        held=held,
    )


def list_rate_warnings(
    scenario: Scenario,
    topology: Topology,
    asked: Sequence[AskedRate],
    *,
    machine: Mapping[str, Any] | None = None,
) -> list[RunWarning]:
    """At most one warning, about `workload.rate`; `asked` are the rates of the last runs of `machine`, or of this one.

    Runs of other machines are left out.
    """
    machine = machine or describe_machine()
    workload = scenario.workload
    rate, nodes = workload.rate * len(workload.list_homes(topology)), len(topology.nodes)
    here = [each for each in asked if each.machine == machine]
    held = [each for each in here if each.held and (each.topology == scenario.topology or each.nodes >= nodes)]
    highest = max((each.rate_per_s for each in held), default=None)
    if highest is not None and highest >= rate:
        return []
    missed = [
        each
        for each in here
        if each.held is False
        and each.rate_per_s <= rate
        and each.size <= workload.size
        and (each.topology == scenario.topology or each.nodes <= nodes)
    ]
    if missed:
        lowest = min(missed, key=lambda each: each.rate_per_s)
        beside = "" if highest is None else f", and the most that it held was {highest:,}"
        what = f"this machine did not hold {lowest.rate_per_s:,} messages/s in {lowest.run_id}{beside}"
    elif (like := _find_highest(held, workload.size)) is not None and rate > _FAR_ABOVE * like:
        what = f"the most that this machine held in the last {LATELY.days} days were {like:,} messages/s"
    else:
        return []
    return [
        RunWarning(
            field="workload.rate",
            what=f"{what}; this scenario asks for {rate:,}, and where the rate is not held before the first fault, the "
            "verdict is at best `unknown`",
            remedy="lower it",
        )
    ]


def _find_highest(held: Sequence[AskedRate], size: int) -> int | None:
    """A run with larger messages says nothing about how many of these a machine can take."""
    return max((each.rate_per_s for each in held if each.size <= size), default=None)
