"""Measures how long a fault interrupted clients: interruptions, the first ack, and the longest gaps.

An interruption is a time in which a message had no ack, although it was due more than `late_after_s` before. Each is
measured for every place: one producer or subscription in one partition of a cluster. The evidence names the worst
place. All times come from the clients' own records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from brokerproof.clients.producing import plan_producers
from brokerproof.experiment.fault import GROW
from brokerproof.run.directory import Run
from brokerproof.systems.destinations import list_replication_ways

from brokerproof_judging.database import DuckDB, define_values, make_small_table, register_tables, select_rows
from brokerproof_judging.measurements.measured_values import Estimate
from brokerproof_judging.measurements.run_times import EffectiveFault, RunTimes
from brokerproof_judging.measurements.standstills import (
    OF_STANDSTILLS,
    Standstills,
    Times,
    list_free_times,
    list_times_without,
    read_quiet_times,
    read_standstills,
)
from brokerproof_judging.run_database import open_run_database, read_script

_RESOLUTION = "resolution: 1 ms"


@dataclass(frozen=True, kw_only=True)
class Interruptions:
    """The interruptions that touch the time from a fault's injection to the next injection, as a summary.

    A place is a producer in one partition of a cluster, such as `eu/partition 3/shop-p0`.
    """

    # The end of the last interruption, and its place.
    last_us: int
    last_place: str
    # Time in which at least one place was interrupted.
    total_us: int
    # The longest total time that one place was interrupted, and this place.
    longest_us: int
    longest_place: str
    # The number of places that were interrupted.
    places: int
    # A place whose last due message had no ack when the load ended; None if every place got acks again.
    away_place: str | None
    # `last_us` and `total_us` without the times that a producer's own standstill may have caused. The first is None if
    # no time is left.
    proven_last_us: int | None
    proven_total_us: int


@dataclass(frozen=True, kw_only=True)
class FirstAck:
    """The first ack that a producer got in one partition for a message sent after a fault's effect.

    `place` names the partition and the producer. `at_us` is None if the producer got no such ack.
    """

    place: str
    at_us: int | None
    # Until this time in µs, there would have been no ack even without the standstills of the producer.
    proven_us: int = 0


@dataclass(frozen=True, kw_only=True)
class Gap:
    """The longest time in which a producer got no ack, or a subscription no delivery, in one partition.

    `place` names the partition and the producer or subscription. `places` is the number of places compared. `proven_us`
    is the longest such time without the parts that clients' own standstills may have caused.
    """

    start_us: int
    end_us: int
    place: str
    places: int
    proven_us: int

    @property
    def seconds(self) -> float:
        return (self.end_us - self.start_us) / 1e6


@dataclass(frozen=True, kw_only=True)
class ClientEvents:
    """The interruptions, gaps and first acks of clients, by the name of each fault that took effect."""

    interruptions: Mapping[str, Interruptions] = field(default_factory=dict)
    ack_gaps: Mapping[str, Gap] = field(default_factory=dict)
    delivery_gaps: Mapping[str, Gap] = field(default_factory=dict)
    hot_key_gaps: Mapping[str, Gap] = field(default_factory=dict)
    # One entry for each place that sent a message after the effect, or held a message back until the end.
    first_acks: Mapping[str, Sequence[FirstAck]] = field(default_factory=dict)


def read_client_events(run: Run, times: RunTimes) -> ClientEvents:
    """Return the events of the run's clients, from the tables `publishes` and `deliveries`."""
    faults = times.effective
    if not faults:
        return ClientEvents()
    standstills = read_standstills(run)
    with open_run_database(run, ("publishes", "deliveries")) as connection:
        _define_inputs(connection, run, times, standstills)
        connection.execute(read_script("measurements", "client_events"))
        gaps = select_rows(connection, "FROM gaps")
        return ClientEvents(
            interruptions=_read_interruptions(connection, faults, times.load.end_us),
            ack_gaps=_find_longest(gaps, faults, "acks"),
            delivery_gaps=_find_longest(gaps, faults, "deliveries"),
            hot_key_gaps=_find_longest(gaps, faults, "hot key"),
            first_acks=_read_first_acks(connection, faults, standstills.of_acks, times.load.end_us),
        )


def _define_inputs(connection: DuckDB, run: Run, times: RunTimes, standstills: Standstills) -> None:
    """Define the values and the small tables that `client_events.sql` reads."""
    topology, workload = run.topology, run.scenario.workload
    ways = list_replication_ways(topology, workload)
    moves, expecting = [], []
    for each in workload.subscriptions:
        clusters = each.list_clusters(topology)
        label = ">".join(clusters)
        if each.moves:
            # Its deliveries in both clusters count together, so the move itself begins no gap.
            moves.append((each.name, label))
        homes = {*clusters, *(home for home, other in ways if other in clusters)}
        expecting += [(home, label, each.name) for home in sorted(homes)]
    # All other keys of a producer get messages less often, so a gap of theirs says little.
    hot_keys = [(task.cluster, task.keys[0]) for task in plan_producers(run) if workload.hot_key_share is not None]
    late_after_us = round(run.scenario.late_after_s * 1e6)
    define_values(
        connection,
        {
            "is_partitioned": workload.partitions > 0,
            "is_growing": workload.grows_to is not None,
            "late_after": late_after_us,
            "load_start": times.load.start_us,
            "load_end": times.load.end_us,
        },
    )
    growing = {fault.name for fault in run.scenario.faults if fault.kind == GROW}
    spans = [
        (
            number,
            fault.span.start_us,
            fault.client_span.start_us,
            fault.client_span.end_us,
            fault.name in growing,
        )
        for number, fault in enumerate(times.effective)
    ]
    free = [
        (kind, *time)
        for kind, of_clients, lead_us in (
            ("interruptions", standstills.of_acks, late_after_us),
            ("acks", standstills.of_acks, 0),
            ("deliveries", standstills.of_deliveries, 0),
            ("hot key", standstills.of_deliveries, 0),
        )
        for time in list_free_times(of_clients, lead_us)
    ]
    of_producers, of_subscriptions = read_quiet_times(run)
    busy = [
        (kind, *time)
        for kind, quiet in (("acks", of_producers), ("deliveries", of_subscriptions), ("hot key", of_subscriptions))
        for time in list_times_without(quiet)
    ]
    register_tables(
        connection,
        {
            "faults": make_small_table("number int64, effect int64, begin int64, until int64, grows bool", spans),
            "moves": make_small_table("subscription string, label string", moves),
            # By home, the subscriptions that have to get its messages.
            "expecting": make_small_table("home string, label string, subscription string", expecting),
            "hot_keys": make_small_table("home string, key string", hot_keys),
            "busy_times": make_small_table("kind string, client string, start int64, until int64", busy),
            "free_times": make_small_table("kind string, client string, start int64, until int64", free),
        },
    )


def _read_interruptions(
    connection: DuckDB, faults: Sequence[EffectiveFault], load_end_us: int
) -> dict[str, Interruptions]:
    rows = select_rows(connection, "FROM interruptions_of_faults")
    found: dict[str, Interruptions] = {}
    for number, fault in enumerate(faults):
        whole, proven = (
            [row for row in rows if row["fault"] == number and row["proven"] is wanted] for wanted in (False, True)
        )
        if not whole:
            continue
        last, longest = (max((row[name], row["place"]) for row in whole) for name in ("last", "length"))
        away = [row["place"] for row in whole if row["away"] and row["last"] >= load_end_us]
        found[fault.name] = Interruptions(
            last_us=last[0],
            last_place=last[1],
            total_us=sum(row["added"] for row in whole),
            longest_us=longest[0],
            longest_place=longest[1],
            places=len(whole),
            away_place=max(away, default=None),
            proven_last_us=max((row["last"] for row in proven), default=None),
            proven_total_us=sum(row["added"] for row in proven),
        )
    return found


def _find_longest(gaps: Sequence[Mapping[str, Any]], faults: Sequence[EffectiveFault], kind: str) -> dict[str, Gap]:
    """Return {fault: longest gap between acks or deliveries that the fault touches}, without faults that touch none."""
    rows = [row for row in gaps if row["kind"] == kind]
    found: dict[str, Gap] = {}
    for number, fault in enumerate(faults):
        whole, proven = (
            [(*row["gap"].values(), row["place"]) for row in rows if row["fault"] == number and row["proven"] is wanted]
            for wanted in (False, True)
        )
        if whole:
            _, start_us, end_us, place = max(whole)
            # If a standstill covers a whole gap, no length is positive.
            proven_us = max([0, *(gap[0] for gap in proven)])
            found[fault.name] = Gap(
                start_us=start_us, end_us=end_us, place=place, places=len(whole), proven_us=proven_us
            )
    return found


def _read_first_acks(
    connection: DuckDB, faults: Sequence[EffectiveFault], standstills: Times, load_end_us: int
) -> dict[str, list[FirstAck]]:
    def find_proven(fault: EffectiveFault, place: str, at_us: int) -> int:
        # Without a standstill of the producer, the ack may have come when the standstill began, but not before.
        times = standstills.get(place.rpartition("/")[2], ())
        return min([at_us, *(start for start, end in times if start < at_us and end > fault.client_span.start_us)])

    found: dict[str, list[FirstAck]] = {fault.name: [] for fault in faults}
    for row in select_rows(connection, "FROM waiting_places WHERE waited > 0"):
        fault, place, at_us = faults[row["fault"]], row["place"], row["first"]
        proven_us = find_proven(fault, place, load_end_us if at_us is None else at_us)
        found[fault.name].append(FirstAck(place=place, at_us=at_us, proven_us=proven_us))
    return found


def measure_interruption(run: Run, times: RunTimes, events: ClientEvents, fault: EffectiveFault) -> dict[str, Estimate]:
    """Return {metric: estimate} of a fault.

    The metrics are `first_ack_s`, `rto_s`, `unavailable_s`, `longest_ack_gap_s`, `longest_delivery_gap_s` and
    `longest_hot_key_gap_s`. If the load had ended when the fault was injected, no metric has a value.
    """
    if not fault.client_span.seconds:
        never = Estimate(value=None, evidence="the load had ended when the fault was injected")
        gaps = ("longest_ack_gap_s", "longest_delivery_gap_s", "longest_hot_key_gap_s")
        return dict.fromkeys(("first_ack_s", "rto_s", "unavailable_s", *gaps), never)
    nobody = None if run.scenario.workload.subscriptions else Estimate(value=None, evidence="nobody consumed")
    interruptions = events.interruptions.get(fault.name)
    late_after_s = run.scenario.late_after_s
    return {
        "first_ack_s": _read_first_ack(times, events.first_acks[fault.name], fault),
        "rto_s": _read_rto(times, interruptions, fault, late_after_s),
        "unavailable_s": _read_unavailable(interruptions, fault, late_after_s),
        "longest_ack_gap_s": _read_longest_gap(times, events.ack_gaps.get(fault.name), "ack"),
        "longest_delivery_gap_s": nobody or _read_longest_gap(times, events.delivery_gaps.get(fault.name), "delivery"),
        "longest_hot_key_gap_s": nobody or _read_longest_gap(times, events.hot_key_gaps.get(fault.name), "delivery"),
    }


def _read_first_ack(times: RunTimes, first_acks: Sequence[FirstAck], fault: EffectiveFault) -> Estimate:
    proven_us = max((each.proven_us for each in first_acks), default=times.load.end_us)
    proven = max(0.0, fault.seconds_since_injection(proven_us))
    waiting = sorted(each.place for each in first_acks if each.at_us is None)
    if waiting or not first_acks:
        places = f" of {waiting[0]}, one of {len(waiting)} such places of {len(first_acks)}," if waiting else ""
        why = f"no message{places} that was due after the effect was acked"
        return _read_caused(fault.seconds_since_injection(times.load.end_us), why, proven=proven, at_least=True)
    acked = [(each.at_us, each.place) for each in first_acks if each.at_us is not None]
    last_us, place = max(acked)
    first_s = fault.seconds_since_injection(min(acked)[0])
    why = (
        f"first ack of a message that {place} sent after the effect, the last of {len(acked)} places; the first "
        f"place had it after {first_s:.3f} s"
    )
    return _read_caused(fault.seconds_since_injection(last_us), why, proven=proven)


def _read_rto(
    times: RunTimes, interruptions: Interruptions | None, fault: EffectiveFault, late_after_s: float
) -> Estimate:
    if interruptions is None:
        return _read_no_interruption(fault, late_after_s)
    lasts = interruptions.away_place is not None
    if lasts:
        end = f"{interruptions.away_place} was still interrupted when the load ended"
    elif interruptions.last_us >= times.load.end_us:
        end = f"{interruptions.last_place} has messages that were never acked, which are late until the load ended"
    else:
        end = f"{interruptions.last_place} was interrupted last"
    why = (
        f"{end}; {interruptions.total_us / 1e6:.3f} s of interruptions in {interruptions.places} places ({_RESOLUTION})"
    )
    last_us, proven_us = interruptions.last_us, interruptions.proven_last_us
    return _read_caused(
        fault.seconds_since_injection(last_us),
        why,
        proven=0.0 if proven_us is None else fault.seconds_since_injection(proven_us),
        at_least=lasts,
    )


def _read_unavailable(interruptions: Interruptions | None, fault: EffectiveFault, late_after_s: float) -> Estimate:
    if interruptions is None:
        return _read_no_interruption(fault, late_after_s)
    why = (
        f"{interruptions.longest_place} was interrupted longest, for {interruptions.longest_us / 1e6:.3f} s; "
        f"{interruptions.places} places were interrupted ({_RESOLUTION})"
    )
    return _read_caused(interruptions.total_us / 1e6, why, proven=interruptions.proven_total_us / 1e6)


def _read_no_interruption(fault: EffectiveFault, late_after_s: float) -> Estimate:
    if fault.client_span.seconds <= late_after_s:
        # A message that this fault delays can be late only after the next fault was injected.
        why = f"the time after the injection, {fault.client_span.seconds:.3f} s, is not longer than {late_after_s:g} s"
        return Estimate(value=None, evidence=f"no message can be late: {why}", cut_off_by=fault.next_injected)
    return Estimate(value=0.0, evidence=f"no message was more than {late_after_s:g} s late ({_RESOLUTION})")


def _read_longest_gap(times: RunTimes, gap: Gap | None, event: str) -> Estimate:
    if gap is None:
        return Estimate(value=None, evidence=f"no {event} was recorded, and none was expected")
    until = "the end of the load" if gap.end_us >= times.load.end_us else f"the next {event}"
    why = f"{gap.place} had no {event} until {until}; the longest gap of {gap.places} places"
    return _read_caused(gap.seconds, why, proven=gap.proven_us / 1e6)


def _read_caused(value: float, why: str, *, proven: float, at_least: bool = False) -> Estimate:
    """Return `value` as an estimate: "at most" if `proven`, the value without clients' standstills, is smaller."""
    own = proven < value
    return Estimate(
        value=value,
        evidence=why + (OF_STANDSTILLS if own else ""),
        at_least=at_least,
        at_most=own,
        proven=proven,
    )
