"""The rate of a run's load: from the scenario, or as the load found it."""

from __future__ import annotations

from brokerproof.experiment.workload import MAX_RATE
from brokerproof.run.directory import Run
from brokerproof.run.records import LoadRates, read_record

# The first messages per second of all producers of one cluster, if the load has to find its rate.
FIRST_RATE = 1000
# After this time, the search for the rate takes the highest one that it has found.
LONGEST_SEARCH_S = 150.0


def find_rate(run: Run) -> int | None:
    """Return the messages per second of all producers of one cluster; None if the load has not found its rate."""
    rate = run.scenario.workload.rate
    if rate != MAX_RATE:
        return rate
    rates = read_record(run, LoadRates)
    return None if rates is None or rates.found is None else rates.found.rate


def find_target_rate(run: Run) -> float | None:
    """Return the messages per second of all clusters' producers; None if the load has not found its rate."""
    rate = find_rate(run)
    return None if rate is None else run.scenario.workload.compute_total(rate)
