"""Measures latency and rate of publishing in each phase, and the latency while a fault slowed clients down.

Also measures how long after its ack a message was delivered in another cluster, for each phase, and how many keys moved
to another partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from brokerproof.clients.producing import plan_producers
from brokerproof.clients.schedule import list_quiet_times
from brokerproof.experiment.scenario import Phase
from brokerproof.run.directory import Run
from brokerproof.run.load_rate import find_target_rate
from brokerproof.run.records import LoadRates, read_record
from brokerproof.systems.destinations import list_replication_ways

from brokerproof_judging.database import DuckDB, define_values, make_small_table, register_tables, select_rows
from brokerproof_judging.measurements.measured_values import RUN, MeasuredValue, make_measured_value
from brokerproof_judging.measurements.run_times import NEVER_STEADY, RunTimes, Span
from brokerproof_judging.measurements.standstills import OF_STANDSTILLS, Times, list_causes, read_standstills
from brokerproof_judging.run_database import NO_VALUES, Quantiles, open_run_database, read_quantiles, read_script

_LATENCIES = ("publish_latency_p50_ms", "publish_latency_p99_ms", "publish_latency_max_ms")
_LAGS = ("replication_lag_p50_ms", "replication_lag_p99_ms", "replication_lag_max_ms")


def measure_moved_keys(run: Run) -> Iterator[MeasuredValue]:
    """Yield the number of keys that moved to another partition, if the topic gets more of them."""
    if run.scenario.workload.grows_to is None:
        return
    with open_run_database(run, ("publishes",)) as connection:
        (row,) = select_rows(connection, read_script("measurements", "moved_keys"))
    yield make_measured_value("moved_keys", RUN, float(row["moved"]), f"of {row['keys']:,} keys with an ack")


def measure_publishing(run: Run, times: RunTimes, connection: DuckDB) -> Iterator[MeasuredValue]:
    """Yield the latency from a message's scheduled time to its first ack, and the share of scheduled messages acked.

    Both are measured for each phase, the latency also for the time in which a fault slowed clients down. If messages
    are published to several clusters, the scopes `PHASE/CLUSTER` and `FAULT/CLUSTER` have each cluster's latency.

    A message belongs to the time in which it was scheduled. If it was never acked, its latency lasts until the load's
    end. The number scheduled is the target rate times the phase's length, so it includes messages without an attempt.
    """
    if not times.phases:
        metrics = (*_LATENCIES, "rate_held")
        yield from (make_measured_value(metric, phase, None, NEVER_STEADY) for phase in Phase for metric in metrics)
        return
    homes = run.scenario.workload.list_homes(run.topology)
    apart = homes if len(homes) > 1 else []
    spans = {**times.phases, **times.slowed}
    define_values(connection, {"load_end": times.load.end_us})
    found = _find_times(connection, "publish_latencies", spans, read_standstills(run).of_acks)
    for when in spans:
        for home in (None, *apart):
            row = found.get((when, home or ""), _NO_TIMES)
            subject = when if home is None else f"{when}/{home}"
            for number, metric in enumerate(_LATENCIES):
                value, least = row.whole.values[number], row.proven[number]
                own = value != least
                evidence = _describe_messages(row) + (OF_STANDSTILLS if own else "")
                yield make_measured_value(
                    metric, subject, convert_to_ms(value), evidence, at_most=own, proven=convert_to_ms(least) or 0.0
                )
    rate = find_target_rate(run)
    for phase, span in times.phases.items():
        if rate is None:
            yield make_measured_value("rate_held", phase, None, "the record of the rate that the load found is missing")
            continue
        planned = rate * span.seconds - _count_unplanned(run, span)
        acked = found.get((phase, ""), _NO_TIMES).whole.ended
        share = min(1.0, acked / planned) if planned else None
        yield make_measured_value("rate_held", phase, share, f"{acked} acked of {planned:.0f} scheduled")


def _count_unplanned(run: Run, span: Span) -> float:
    """Return how many messages fewer were scheduled in a time because producers had nothing to send."""
    rates, tasks, seconds = read_record(run, LoadRates), plan_producers(run), 0.0
    for task in tasks:
        for begin, until in list_quiet_times(rates, task.label):
            seconds += max(0, min(until, span.end_us) - max(begin, span.start_us)) / 1e6
    return (find_target_rate(run) or 0.0) * seconds / len(tasks)


def convert_to_ms(latency_us: float | None) -> float | None:
    return None if latency_us is None else latency_us / 1000


def _describe_messages(row: _Times) -> str:
    messages, acked = row.whole.messages, row.whole.ended
    if not messages:
        return "no message of this time's schedule was recorded"
    never = messages - acked
    late = f", {never} never acked and late until the end of the load" if never else ""
    return f"{acked} messages acked{late}"


@dataclass(frozen=True, kw_only=True)
class _Times:
    """The latencies or lags of some messages, in µs.

    `proven` has their quantiles without the effect of standstills: a message that a client may have delayed because it
    itself stood still counts as 0.
    """

    whole: Quantiles = NO_VALUES
    proven: tuple[int | None, int | None, int | None] = (None, None, None)


_NO_TIMES = _Times()


def _find_times(
    connection: DuckDB, query: str, spans: Mapping[str, Span], standstills: Times
) -> dict[tuple[str, str], _Times]:
    """Return {(name of a time in `spans`, place): times of the messages that were scheduled in it}.

    `query` names the script that makes the view `measured`. A place is the home of messages, or a way between clusters;
    all homes together have an empty name.
    """
    causes = [(name, *cause) for name, each in standstills.items() for cause in list_causes(each)]
    tables = {
        "spans": make_small_table(
            "name string, start int64, until int64",
            [(name, each.start_us, each.end_us) for name, each in spans.items()],
        ),
        "causes": make_small_table("client string, start int64, until int64", causes),
    }
    register_tables(connection, tables)
    connection.execute(read_script("measurements", query))
    rows: dict[tuple[str, str], dict[bool, Quantiles]] = {}
    for subject, quantiles in read_quantiles(connection):
        rows.setdefault((subject["time"], subject["place"]), {})[subject["proven"]] = quantiles
    return {name: _Times(whole=found[False], proven=found[True].values) for name, found in rows.items()}


def measure_replication_lag(run: Run, times: RunTimes, connection: DuckDB) -> Iterator[MeasuredValue]:
    """Yield, for each direction `HOME>OTHER` and phase, the time from the ack in HOME to the first delivery in OTHER.

    A message belongs to the phase in which it was scheduled, and has a lag for each subscription of OTHER. The delivery
    ends the lag, because clients do not learn when a node stored a replicated message. The lag is 0 if the delivery
    came before the ack, and null without a subscription of OTHER. It is "at most" if a consumer that itself stood still
    may have caused it.
    """
    ways = list_replication_ways(run.topology, run.scenario.workload)
    if not ways:
        return
    found = _find_times(connection, "replication_lags", times.phases, read_standstills(run).of_consumers)
    for home, other in ways:
        for phase in Phase:
            row = found.get((phase, f"{home}>{other}"), _NO_TIMES)
            count = row.whole.messages
            evidence = f"{row.whole.ended} of {count} deliveries" if count else "nothing had to be delivered there"
            for number, metric in enumerate(_LAGS):
                value, least = row.whole.values[number], row.proven[number]
                own = value != least
                yield make_measured_value(
                    metric,
                    f"{home}>{other}/{phase}",
                    convert_to_ms(value),
                    (evidence + (OF_STANDSTILLS if own else "")) if times.phases else NEVER_STEADY,
                    at_most=own,
                    proven=convert_to_ms(least) or 0.0,
                )
