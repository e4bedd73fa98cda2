"""Sentences about the times in which producers missed their rates, from the producers' own records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from brokerproof.errors import RunError
from brokerproof.experiment.numbers import format_seconds, format_time, join_names
from brokerproof.run.directory import Run
from brokerproof.run.fault_course import read_fault_courses
from brokerproof.run.records import MissedRate, MissedRates, PhaseTimes, RateReason, read_record, record_keys

# A time begins up to this many µs before the acks stop, because the acks of several seconds are compared.
_WINDOW_US = 3_000_000


def describe_missed_rates(run: Run) -> Iterator[str]:
    """Yield a sentence for each producer process that missed its rate after the load was steady.

    That the cluster pushes back after a fault is left out, because it is what the run measures.
    """
    try:
        phases = read_record(run, PhaseTimes)
        fault_at = min((course.begins_at for course in read_fault_courses(run).values()), default=None)
        records = [read_record(run, MissedRates, key) for key in record_keys(run, MissedRates)]
    except RunError as error:
        yield f"Whether the producers held their rates is not known: {error}"
        return
    for record in records:
        if record is None:
            continue
        times = [
            each
            for each in record.times
            if (phases is None or each.end > phases.steady_at)
            and not (
                each.reasons == (RateReason.CLUSTER,) and fault_at is not None and each.begin > fault_at - _WINDOW_US
            )
        ]
        if times:
            yield _describe(record.process.rpartition("-")[0], times, record.omitted)


def _describe(producer: str, times: Sequence[MissedRate], omitted: int) -> str:
    longest = max(times, key=lambda each: each.seconds)
    total_s = sum(each.seconds for each in times)
    shares = {
        str(reason): sum(each.seconds for each in times if reason in each.reasons)
        for reason in RateReason
        if any(reason in each.reasons for each in times)
    }
    if unknown_s := sum(each.seconds for each in times if not each.reasons):
        shares["the reason is unknown"] = unknown_s
    reasons = join_names([f"{reason} for {format_seconds(seconds)}" for reason, seconds in shares.items()])
    count = f"{len(times) + omitted} times" if len(times) + omitted > 1 else "once"
    more = f", and {omitted} of these times are not listed" if omitted else ""
    contended = ""
    if longest.contended_s is not None:
        waited = format_seconds(longest.contended_s)
        contended = f"; in {waited} of it, a program of this machine waited for a processor"
    return (
        f"{producer} missed its rate {count}, for {format_seconds(total_s)} in all: {reasons}{more}. The longest time "
        f"began at {format_time(longest.begin)} and lasted {format_seconds(longest.seconds)}, with {longest.acked:,} "
        f"of {longest.due:,} due messages acked{contended}."
    )
