"""The warnings that a command prints about a scenario: from its file, and from earlier runs of this machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from brokerproof import clock, run_warnings
from brokerproof.errors import RunWarning
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.results.held_rates import LATELY, AskedRate, list_rate_warnings
from brokerproof.results.history import open_recorded_history
from brokerproof.results.history_database import HistoryError


def read_asked_rates(tell: Callable[[str], None]) -> list[AskedRate]:
    """Return the rates that the runs within `LATELY` asked for. `tell` gets a sentence if the history is unreadable."""
    try:
        history = open_recorded_history()
        if history is None:
            return []
        with history:
            return history.list_asked_rates(clock.to_utc(clock.now_us()) - LATELY)
    except HistoryError as error:
        tell(f"no rate is compared with those that this machine held: {error}")
        return []


def list_warnings(scenario: Scenario, topology: Topology, asked: Sequence[AskedRate]) -> list[RunWarning]:
    """Return all warnings about a scenario. `asked` is the result of `read_asked_rates`."""
    return [*run_warnings.list_warnings(scenario, topology), *list_rate_warnings(scenario, topology, asked)]
