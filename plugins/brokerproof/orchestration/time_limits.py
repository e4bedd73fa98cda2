"""The time limit of each step, from the scenario's own durations."""

from __future__ import annotations

from datetime import timedelta

from brokerproof.experiment.scenario import Scenario

# For the start of a Spark driver, of a client or of a download on a busy laptop. It is generous, because a limit only
# has to end a step that hangs.
_START_MARGIN_S = 300
# A run waits for its slot while other runs use the machine. A campaign can use it for a whole night.
_SLOT_WAIT_S = 12 * 3600
_PROVISION_S = 900
_JUDGE_S = 3600


def compute_time_limit(step: str, scenario: Scenario) -> timedelta:
    """Return the execution timeout of a step. A DAG run has none, because Airflow would skip the teardown after it."""
    under_load = scenario.phases.total_s + scenario.settle_s + _START_MARGIN_S
    seconds = {
        "reserve": _SLOT_WAIT_S,
        "provision": _PROVISION_S,
        "load": under_load,
        # It waits for drains, and the timeline before that waits for repairs. Each may take `settle_s`.
        "consume": under_load + scenario.settle_s,
        "break_it": under_load,
        # It reads all stored messages, at least as fast as the load sent them.
        "read_back": under_load,
        "verify": _JUDGE_S,
    }
    return timedelta(seconds=seconds.get(step, _START_MARGIN_S))
