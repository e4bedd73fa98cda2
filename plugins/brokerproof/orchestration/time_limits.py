"""The longest time that each step may take, from the scenario's own durations."""

from __future__ import annotations

from datetime import timedelta

from brokerproof.experiment.scenario import Scenario

# The start of a Spark driver, of a client or of a download on a busy laptop. It is generous: a limit only ends a step
# that hangs.
_START_MARGIN_S = 300
# A run waits for its slot while other runs use the machine, as long as a campaign of one night takes.
_SLOT_WAIT_S = 12 * 3600
_PROVISION_S = 900
_JUDGE_S = 3600


def compute_time_limit(step: str, scenario: Scenario) -> timedelta:
    """The execution timeout of a step. A DAG run has none, because Airflow skips the teardown after that timeout."""
    under_load = scenario.phases.total_s + scenario.settle_s + _START_MARGIN_S
    seconds = {
        "reserve": _SLOT_WAIT_S,
        "provision": _PROVISION_S,
        "load": under_load,
        # It waits for drains after the timeline has waited for repairs.
        "consume": under_load + scenario.settle_s,
        "break_it": under_load,
        # It reads everything that was stored, at least as fast as the load sent it.
        "read_back": under_load,
        "verify": _JUDGE_S,
    }
    return timedelta(seconds=seconds.get(step, _START_MARGIN_S))
