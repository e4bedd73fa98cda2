"""The sentence about the rate that the load found (`workload.rate: max`)."""

from __future__ import annotations

from collections.abc import Iterator

from brokerproof.errors import RunError
from brokerproof.faults.steady_load import BUSY_PERCENT
from brokerproof.run.directory import Run
from brokerproof.run.records import LoadRates, read_record


def describe_found_rate(run: Run) -> Iterator[str]:
    """Yield the rate that the run had and why it is the highest, if the load had to find it."""
    try:
        rates = read_record(run, LoadRates)
    except RunError as error:
        yield f"The rate that the load found is not known: {error}"
        return
    if rates is None or rates.found is None:
        return
    found = rates.found
    each = " on each cluster" if len(run.scenario.workload.produce_on) > 1 else ""
    if found.missed is None or found.busy is None:
        limit = "each higher rate that was tried later was held too, or the time for the search was over"
    elif found.busy >= BUSY_PERCENT:
        limit = (
            f"{found.missed:,} were not, with this machine's processors {found.busy:.0f} % busy, so a machine with "
            "more of them may reach more"
        )
    else:
        limit = f"{found.missed:,} were not, although this machine's processors were only {found.busy:.0f} % busy"
    yield (
        f"The load was to find the highest rate: {found.held:,} messages/s{each} were held, and {limit}. The run kept "
        f"{found.rate:,} messages/s."
    )
