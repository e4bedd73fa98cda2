"""How long each step may take at most, from the scenario's own durations."""

from __future__ import annotations

from datetime import timedelta

from brokerproof.experiment.scenario import Scenario

# Starting a Spark driver, a client or a fetch on a busy laptop; generous, for a limit is there to end what hangs.
_SLACK_S = 300
# A run waits for its slot while others have the machine, as long as a night's campaign takes.
_WAIT_FOR_A_SLOT_S = 12 * 3600
_PROVISION_S = 900
_JUDGE_S = 3600


def longest(step: str, scenario: Scenario) -> timedelta:
    """The execution timeout of a step; a DAG run has none, because Airflow then skips the teardown."""
    under_load = scenario.phases.total_s + scenario.settle_s + _SLACK_S
    seconds = {
        "reserve": _WAIT_FOR_A_SLOT_S,
        "provision": _PROVISION_S,
        "load": under_load,
        "consume": under_load,
        "break_it": under_load,
        # Reads everything that was stored: at least as fast as it was sent.
        "read_back": under_load,
        "verify": _JUDGE_S,
    }
    return timedelta(seconds=seconds.get(step, _SLACK_S))
