"""The warning that a scenario's message rate is too high for this machine, based on the runs of the last 30 days.

A run held its rate if at least `HELD_SHARE` of the messages of the steady phase were acknowledged. It missed its rate
if fewer were acknowledged, or if the load never became steady. Only runs of the same topology on the same machine
count. A miss counts only if the run's messages were not larger than the scenario's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from brokerproof import clock
from brokerproof.experiment.metrics import HELD_SHARE
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.workload import MAX_RATE
from brokerproof.faults.steady_load import NEVER_HELD
from brokerproof.results.comparability import describe_machine
from brokerproof.results.history import open_recorded_history
from brokerproof.results.history_database import HistoryError
from brokerproof.results.history_schema import RecordedRun
from brokerproof.run_warnings import RunWarning

_LATELY = timedelta(days=30)


def read_held_shares(tell: Callable[[str], None]) -> list[tuple[RecordedRun, float | None]]:
    """Return the runs of the last 30 days, each with the share of its rate that it held (None if not measured).

    If the history cannot be read, `tell` is called with the reason as a sentence, and the result is empty.
    """
    try:
        history = open_recorded_history()
        if history is None:
            return []
        with history:
            return history.list_held_shares(clock.to_utc(clock.now_us()) - _LATELY)
    except HistoryError as error:
        tell(f"no rate is compared with those that this machine held: {error}")
        return []


def list_rate_warnings(
    scenario: Scenario, runs: Sequence[tuple[RecordedRun, float | None]], *, machine: Mapping[str, Any] | None = None
) -> list[RunWarning]:
    """Return one warning if `workload.rate` is too high for `machine` (None for this machine), else an empty list.

    The rate is too high if a run missed it or a lower rate, and no run held it or a higher rate. `runs` come from
    `read_held_shares`. A rate is the total over all clusters that producers publish to.
    """
    machine = machine or describe_machine()
    if scenario.workload.target_rate is None:
        return []
    rate = int(scenario.workload.target_rate)
    held, missed = [0], []
    for run, share in runs:
        workload = run.parameters["scenario"]["workload"]
        if run.topology != scenario.topology or run.parameters["machine"] != machine:
            continue
        # A run that had to find its rate and did not has none.
        if workload["rate"] == MAX_RATE:
            continue
        asked = workload["rate"] * max(1, len(workload["produce_on"]))
        if share is not None and share >= HELD_SHARE:
            held.append(asked)
        elif (share is not None or NEVER_HELD in run.why) and workload["size"] <= scenario.workload.size:
            missed.append((asked, run.run_id))
    lowest, run_id = min(missed, default=(rate + 1, ""))
    if lowest > rate or max(held) >= rate:
        return []
    most = f", and the most that it held was {max(held):,}" if max(held) else ""
    return [
        RunWarning(
            field="workload.rate",
            what=f"this machine did not hold {lowest:,} messages/s in {run_id}{most}; this scenario asks for {rate:,}, "
            "and if the rate is not held before the first fault, the verdict is at best `unknown`",
            remedy="lower it",
        )
    ]
