"""The rates that this machine held lately, and the warning about a scenario that asks for a higher one.

A run held its rate if at least `HELD_SHARE` of the steady phase's schedule was acknowledged. It missed its rate if less
was, or if its timeline gave up because the load never became steady.

All nodes share the machine, so more nodes hold no higher rate. Of another topology, a held rate counts only if the run
had no fewer nodes, and a missed rate only if it had no more. A missed rate also needs messages that were no larger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from brokerproof.errors import RunWarning
from brokerproof.experiment.metrics import HELD_SHARE
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.faults.steady_load import NEVER_HELD
from brokerproof.results.comparability import describe_machine

if TYPE_CHECKING:
    from brokerproof.results.history_schema import RecordedRun

LATELY = timedelta(days=30)
# A rate above this multiple of the highest held rate causes a warning, even if no run tried it.
_FAR_ABOVE = 3.0


@dataclass(frozen=True, kw_only=True)
class AskedRate:
    """The total rate that a run asked for, over all clusters published to. `held` is None if it was not measured."""

    run_id: str
    topology: str
    nodes: int
    machine: Mapping[str, Any]
    rate_per_s: int
    size: int
    held: bool | None


def make_asked_rate(run: RecordedRun, share: float | None) -> AskedRate:
    """Return the rate of a recorded run. `share` is the acknowledged part of its steady phase's schedule."""
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
    """Return at most one warning, about `workload.rate`, for a run on `machine` (this machine if None).

    `asked` are the rates of earlier runs. Those of other machines are left out.
    """
    machine = machine or describe_machine()
    workload, nodes = scenario.workload, len(topology.nodes)
    rate = int(workload.target_rate)
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
    """Return the highest rate of runs whose messages were no larger than `size` bytes.

    The rate of larger messages does not show how many of this size are possible.
    """
    return max((each.rate_per_s for each in held if each.size <= size), default=None)
