"""The tables of measured figures in docs/scenarios.md, docs/what-runs-showed.md and docs/track-record.md.

Each function returns one table. It maps a row's label to a function that reads the row's other cells from the last
runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from brokerproof.experiment.scenario import Scenario
from brokerproof.results.state_search import count_states
from brokerproof.results.track_record import TrackRow
from measured_runs import MeasuredRun, MeasuredRuns

# Returns the cells of a row after its label. Raises NoRunError if no run has the figures.
RowMaker = Callable[[], Sequence[str]]
RowMakers = Mapping[str, RowMaker]

_SHORT_SESSION_MS = 8000
_SHORT_BROKER_SESSION = {"settings.broker.metadataStoreSessionTimeoutMillis": _SHORT_SESSION_MS}
_SHORT_BOOKIE_SESSION = {"settings.bookie.zkTimeout": _SHORT_SESSION_MS}
_SHORT_SESSIONS = {**_SHORT_BROKER_SESSION, **_SHORT_BOOKIE_SESSION}
_NOTHING_FAILS = "nothing fails"
# Each seed repeats the faults of a run. This many of the last ones are enough to see a state again.
_SEEDS = 3


def tabulate_scenarios(runs: MeasuredRuns) -> RowMakers:
    """One row for each scenario, with the figures of its last run."""

    def read(name: str) -> Sequence[str]:
        run, scenario = runs.find_last(name), runs.load_scenario(name)
        everywhere = run.count_lost_everywhere()
        at_home = run.count_anomaly("lost") - everywhere
        gap, times = run.find_worst("longest_ack_gap_s"), list(run.read_metric("rto_s").values())
        return (
            scenario.title,
            _format_expectation(scenario),
            run.acked,
            f"{everywhere:,}" + (f", and {at_home:,} at home only" if at_home else ""),
            _NOTHING_FAILS if gap is None else _format_seconds(gap),
            _format_recovery(times),
            _format_rereplication(run),
        )

    return {f"`{name}`": lambda name=name: read(name) for name in runs.list_scenarios()}  # type: ignore[misc]


def _format_recovery(times: Sequence[float | None]) -> str:
    """Return the longest RTO of a run's faults, or `not known` if a fault's RTO was not measured."""
    if None in times:
        # For example, a client was still interrupted when the load ended.
        return "not known"
    return f"{max(time for time in times if time is not None):.0f} s" if times else _NOTHING_FAILS


def tabulate_datacenter_loss(runs: MeasuredRuns) -> RowMakers:
    """The last run of `sync_datacenter_loss`, one row for each figure."""

    def make_row(read: Callable[[MeasuredRun], str]) -> RowMaker:
        return lambda: (read(runs.find_last("sync_datacenter_loss")),)

    def read_worst(metric: str) -> Callable[[MeasuredRun], str]:
        return lambda run: _format_seconds(run.find_worst(metric))

    def count_out_of_order(run: MeasuredRun) -> str:
        return f"{run.count_anomaly('stored_out_of_order') + run.count_anomaly('delivered_out_of_order'):,}"

    return {
        "messages published / acked": make_row(lambda run: f"{run.judgement.counts.messages:,} / {run.acked}"),
        "lost": make_row(lambda run: f"{run.count_anomaly('lost'):,}"),
        "stored twice (legal under at-least-once)": make_row(lambda run: f"{run.count_anomaly('stored_twice'):,}"),
        "delivered twice (legal)": make_row(lambda run: f"{run.count_anomaly('delivered_twice'):,}"),
        "out of order": make_row(count_out_of_order),
        "longest gap in acks": make_row(read_worst("longest_ack_gap_s")),
        "RTO (injection until the last interruption ended)": make_row(lambda run: f"{run.find_worst('rto_s'):.0f} s"),
        "failure detected / topic reassigned": make_row(
            lambda run: f"{read_worst('detect_s')(run)} / {read_worst('reassign_s')(run)}"
        ),
        "time to re-replicate": make_row(read_worst("rereplicate_s")),
        "longest time between two samples": make_row(lambda run: _format_seconds(run.values["sampling_gap_s", "run"])),
        "wall time, and the part of the phases in it": make_row(
            lambda run: f"{run.outcome.seconds.total:.0f} s, {run.outcome.seconds.phases:.0f} s"
        ),
    }


def tabulate_second_architecture(runs: MeasuredRuns) -> RowMakers:
    """Three scenarios side by side. In each, a datacenter is destroyed with its disks."""
    names = ("geo_datacenter_destroyed", "control_geo_datacenter_destroyed_behind", "active_active_region_loss")

    def make_row(read: Callable[[MeasuredRun], str]) -> RowMaker:
        return lambda: [read(runs.find_last(name)) for name in names]

    return {
        "acked": make_row(lambda run: run.acked),
        "RPO: acked, and no cluster holds it any more": make_row(
            lambda run: _describe_rpo(*(run.read_metric(one)["eu_destroyed"] for one in ("rpo_messages", "rpo_s")))
        ),
        "verdict": make_row(lambda run: str(run.outcome.verdict)),
        "stored twice": make_row(lambda run: f"{run.count_anomaly('stored_twice'):,}"),
        "longest gap in acks": make_row(lambda run: _format_seconds(run.find_worst("longest_ack_gap_s"))),
    }


def tabulate_sessions(runs: MeasuredRuns) -> RowMakers:
    """The times of the recovery from a lost datacenter, with Pulsar's own metadata sessions and with shorter ones."""

    def make_row(name: str, overrides: Mapping[str, Any]) -> RowMaker:
        def read() -> Sequence[str]:
            values = runs.find_last(name, overrides).outcome.recovery["eu_destroyed"]
            metrics = ("detect_s", "reassign_s", "first_ack_s", "rto_s", "rereplicate_s")
            return [f"{values[one]:.0f} s" if one == "rto_s" else _format_seconds(values.get(one)) for one in metrics]

        return read

    return {
        "Pulsar's own (`sync_datacenter_loss`)": make_row("sync_datacenter_loss", {}),
        "metadata session of the brokers 8 s instead of 30": make_row("sync_datacenter_loss", _SHORT_BROKER_SESSION),
        "metadata session of the bookies 8 s instead of 30": make_row("sync_datacenter_loss", _SHORT_BOOKIE_SESSION),
        "both (`sync_datacenter_loss_tuned`)": make_row("sync_datacenter_loss_tuned", {}),
        "Pulsar's own, brokers of us started by a monitor (`sync_datacenter_loss_cold`)": make_row(
            "sync_datacenter_loss_cold", {}
        ),
        "both, brokers of us started by a monitor": make_row("sync_datacenter_loss_cold", _SHORT_SESSIONS),
    }


def tabulate_standby(runs: MeasuredRuns) -> RowMakers:
    """RTO and longest gap in acks after a failure: with all brokers running, and with passive brokers on standby."""

    def read(run: MeasuredRun) -> str:
        return f"{run.find_worst('rto_s'):.0f} s, {_format_seconds(run.find_worst('longest_ack_gap_s'))}"

    def make_row(*columns: tuple[str, Mapping[str, Any]]) -> RowMaker:
        return lambda: [read(runs.find_last(name, overrides)) for name, overrides in columns]

    return {
        "`sync_datacenter_loss`": make_row(("sync_datacenter_loss", {}), ("sync_datacenter_loss_cold", {})),
        "`active_active_region_loss`": make_row(
            ("active_active_region_loss", {}), ("active_active_region_loss_cold", {})
        ),
        "`sync_datacenter_loss_tuned`": make_row(
            ("sync_datacenter_loss_tuned", {}), ("sync_datacenter_loss_cold", _SHORT_SESSIONS)
        ),
    }


def tabulate_failover(runs: MeasuredRuns) -> RowMakers:
    """The numbers of messages that a consumer got before its move to the other datacenter, got again, and never got."""
    names = ("geo_replicated_subscription", "geo_unreplicated_subscription")

    def make_row(metric: str) -> RowMaker:
        return lambda: [_format_count(runs.find_last(name).values[metric, "mover"]) for name in names]

    def count_before(run: MeasuredRun) -> str:
        # Only the evidence has this number: "…, of 29353 that were delivered before it moved".
        match = re.search(r"of (\d+) that were delivered before", run.evidence["repeated_by_move", "mover"])
        return f"{int(match[1]):,}" if match else "–"

    return {
        "got before it moved": lambda: [count_before(runs.find_last(name)) for name in names],
        "got again": make_row("repeated_by_move"),
        "never got": make_row("missed_by_move"),
    }


def tabulate_latencies(runs: MeasuredRuns) -> RowMakers:
    """One row for each delay of the emulated link: the publish latency in each cluster, and the link's own added time.

    Each cell has p50 and p99 in ms.
    """

    def make_row(subject: str) -> RowMaker:
        def read() -> Sequence[str]:
            result = runs.find_last("sync_write_latency").outcome
            publish, link = result.latency[subject], result.link[subject]["eu>us"]
            return [
                *(f"{each['p50_ms']:.1f} and {each['p99_ms']:.0f}" for each in publish.values()),
                f"{link['p50_ms']:.2f} and {link['p99_ms']:.0f}",
            ]

        return read

    distances = {"5 ms": "at_5_ms", "20 ms": "at_20_ms", "50 ms": "at_50_ms"}
    # In the run's first phase the system is still cold. In the last phase the link has no delay again.
    return {"0 ms": make_row("recovery")} | {name: make_row(subject) for name, subject in distances.items()}


def tabulate_replication(runs: MeasuredRuns) -> RowMakers:
    """The replication lag in the last phase (eu to us, us to eu), the time until the clusters agree, and the RPO."""

    def make_row(name: str, overrides: Mapping[str, Any]) -> RowMaker:
        def read() -> Sequence[str]:
            run = runs.find_last(name, overrides)
            lags = (_format_lag(run, quantile) for quantile in ("p50", "p99", "max"))
            return [*lags, _format_seconds(run.find_worst("agree_s")), _format_rpo(run)]

        return read

    return {
        "`geo_nominal`": make_row("geo_nominal", {}),
        "the same, published on eu only": make_row("geo_nominal", {"workload.produce_on": ["cluster-eu"]}),
        "the same, published on us only": make_row("geo_nominal", {"workload.produce_on": ["cluster-us"]}),
        "`geo_datacenter_loss_and_return`": make_row("geo_datacenter_loss_and_return", {}),
        "`geo_link_cut`, 10 ms each way": make_row("geo_link_cut", {}),
        "`geo_datacenter_destroyed`": make_row("geo_datacenter_destroyed", {}),
        "`active_active_region_loss`": make_row("active_active_region_loss", {}),
    }


def tabulate_track_record(runs: MeasuredRuns) -> RowMakers:
    """A row for each case of a scenario with a known bug, with what its runs came to."""

    def read(row: TrackRow) -> Sequence[str]:
        counted = runs.count_case(row)
        url = f"[{row.bug.issue}]({row.bug.url})"
        hit = f"{', '.join(row.bug.hit)}" + (f", mended in {row.bug.mended}" if row.bug.mended else "")
        return url, hit, counted.version, counted.seen, f"{counted.at:%Y-%m-%d}: {counted.found}"

    return {f"`{row.name}`": lambda row=row: read(row) for row in runs.list_known_bugs()}  # type: ignore[misc]


def tabulate_searches(runs: MeasuredRuns) -> RowMakers:
    """A row for each state of each search: how many of the search's runs were in it, and seeds of the last ones."""

    def read(search: str, state: str) -> Sequence[str]:
        tries = runs.list_tries(search)
        counts = {each.state: each for each in count_states(tries)}
        seeds = [
            str(run.parameters["scenario"]["draw"]["seed"])
            for run in tries
            if any(
                (row.metric, row.subject) == ("reached", state) and (row.value or 0) >= 1 for row in run.measurements
            )
        ]
        return f"{counts[state].reached} of {counts[state].runs}", ", ".join(seeds[:_SEEDS]) or "–"

    return {
        f"`{name}` {state}": lambda name=name, state=state: read(name, state)  # type: ignore[misc]
        for name in runs.list_scenarios()
        if (draw := runs.load_scenario(name).draw) is not None
        for state in draw.states
    }


def _format_expectation(scenario: Scenario) -> str:
    least = (f"{number:,} or more `{anomaly}`" for anomaly, number in scenario.expect.at_least.items())
    return ", ".join([str(scenario.expect.verdict), *least])


def _format_rereplication(run: MeasuredRun) -> str:
    """Return the time after each fault until no segment was under-replicated; unmeasured times are left out.

    The last fault's time is `never` if segments were still under-replicated at the end of the run.
    """
    by_fault = run.read_metric("rereplicate_s")
    if not by_fault:
        return _NOTHING_FAILS
    left = run.values.get(("under_replicated_segments", "end_of_run"))
    last = list(by_fault)[-1]
    texts = {fault: _format_seconds(value) for fault, value in by_fault.items() if value is not None}
    if left and by_fault[last] is None:
        texts[last] = "never"
    if not texts:
        return "nothing to copy" if left == 0 else "–"
    named = texts.values() if len(by_fault) == 1 else [f"{text} (`{fault}`)" for fault, text in texts.items()]
    return ", ".join(named)


def _format_lag(run: MeasuredRun, quantile: str) -> str:
    """Return the lag in each direction in which the run replicated."""
    ways = ("cluster-eu>cluster-us", "cluster-us>cluster-eu")
    subjects = [(f"replication_lag_{quantile}_ms", f"{way}/recovery") for way in ways]
    values = [run.values[subject] for subject in subjects if subject in run.values]
    return " and ".join(map(_format_milliseconds, values or [None]))


def _format_rpo(run: MeasuredRun) -> str:
    if not run.read_metric("rpo_messages"):
        return _NOTHING_FAILS
    return _describe_rpo(run.find_worst("rpo_messages"), run.find_worst("rpo_s"))


def _describe_rpo(messages: float | None, seconds: float | None) -> str:
    return f"{_format_count(messages)} messages, {'–' if seconds is None else f'{seconds:.1f}'} s"


def _format_count(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def _format_seconds(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.2f} s" if value < 1 else f"{value:.1f} s"


def _format_milliseconds(value: float | None) -> str:
    if value is None:
        return "not measured"
    return f"{value:.0f} ms" if value < 1000 else f"{value / 1000:.1f} s"


# The function for each table, by the name in the comment before the table in a page.
TABLES: Mapping[str, Callable[[MeasuredRuns], RowMakers]] = {
    "scenarios": tabulate_scenarios,
    "datacenter_loss": tabulate_datacenter_loss,
    "second_architecture": tabulate_second_architecture,
    "sessions": tabulate_sessions,
    "standby": tabulate_standby,
    "failover": tabulate_failover,
    "latencies": tabulate_latencies,
    "replication": tabulate_replication,
    "track_record": tabulate_track_record,
    "searches": tabulate_searches,
}
