"""Makes series of the rates and latencies of publishing and of delivery."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from brokerproof.run.directory import Run
from brokerproof.run.records import PhaseTimes, StepSeconds, read_record
from brokerproof.run.series import MOST_STEPS, DeliverySeries, PublishSeries
from brokerproof.run.tables import AttemptOutcome

from brokerproof_judging.database import define_values
from brokerproof_judging.run_database import NO_VALUES, Quantiles, open_run_database, read_quantiles, read_script

# Lengths of a step that are easy to read on an axis, in seconds.
_LENGTHS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600)
# The seconds that are shown before the load is steady.
_LEAD_S = 10


@dataclass(frozen=True, kw_only=True)
class TimeSteps:
    """The steps of a series in time: `count` steps of `step_s` seconds each. Times are µs since the Unix epoch."""

    start_us: int
    step_s: int
    count: int

    @property
    def step_us(self) -> int:
        return self.step_s * 1_000_000

    def find(self, at_us: int) -> int | None:
        """Return the number, from 0, of the step that contains `at_us`; None if no step does."""
        number = (at_us - self.start_us) // self.step_us
        return number if 0 <= number < self.count else None


def choose_time_steps(run: Run) -> TimeSteps | None:
    """Return the time steps of a run's series; None if neither the load nor the consuming left a record of its times.

    The steps begin `_LEAD_S` seconds before the load was steady, and end when the jobs `load` and `consume` and the
    load's phases have ended. If the load never became steady, they begin when the first of the two jobs started.
    """
    phases = read_record(run, PhaseTimes)
    jobs = [one for name in ("load", "consume") if (one := read_record(run, StepSeconds, name)) is not None]
    if not jobs and phases is None:
        return None
    starts = [one.started_at for one in jobs]
    ends = [one.finished_at for one in jobs]
    if phases is not None:
        starts = [phases.steady_at - _LEAD_S * 1_000_000]
        ends.append(phases.ends_at)
    return make_time_steps(min(starts), max(ends))


def make_time_steps(start_us: int, end_us: int) -> TimeSteps:
    """Return at most `MOST_STEPS` steps that begin at a whole second and cover `start_us` to `end_us`."""
    start_us -= start_us % 1_000_000
    seconds = max(1, -(-(end_us - start_us) // 1_000_000))
    step_s = next((length for length in _LENGTHS if seconds <= length * MOST_STEPS), None)
    if step_s is None:
        step_s = -(-seconds // MOST_STEPS)
    return TimeSteps(start_us=start_us, step_s=step_s, count=-(-seconds // step_s))


# Kinds of events. The other kinds are the outcomes of messages, which are counted at their scheduled times.
_ACKS, _DELIVERIES, _RECEIPTS = "acks", "deliveries", "receipts"

# By kind of event, then by (cluster, subscription), then by step.
Counted = Mapping[str, Mapping[tuple[str, str | None], Mapping[int, Quantiles]]]


def make_message_series(run: Run, steps: TimeSteps) -> tuple[tuple[PublishSeries, ...], tuple[DeliverySeries, ...]]:
    """Return the series of every cluster that messages were published to, and of every subscription."""
    counted = _count(run, steps)
    outcomes = [str(outcome) for outcome in AttemptOutcome]
    clusters = sorted({place[0] for what in (_ACKS, *outcomes) for place in counted.get(what, {})})
    subscriptions = sorted({place for what in (_DELIVERIES, _RECEIPTS) for place in counted.get(what, {})}, key=str)

    def spread(what: str, place: tuple[str, str | None]) -> list[Quantiles]:
        rows = counted.get(what, {}).get(place, {})
        return [rows.get(step, NO_VALUES) for step in range(steps.count)]

    def count(what: str, place: tuple[str, str | None]) -> tuple[int, ...]:
        return tuple(each.messages for each in spread(what, place))

    def quantile(what: str, place: tuple[str, str | None], number: int) -> tuple[float | None, ...]:
        return tuple(_to_ms(each.values[number]) for each in spread(what, place))

    acked = str(AttemptOutcome.ACKED)
    return tuple(
        PublishSeries(
            cluster=cluster,
            acked=count(_ACKS, (cluster, None)),
            failed=count(AttemptOutcome.FAILED, (cluster, None)),
            unknown=count(AttemptOutcome.UNKNOWN, (cluster, None)),
            not_sent=count(AttemptOutcome.NOT_SENT, (cluster, None)),
            p50_ms=quantile(acked, (cluster, None), 0),
            p99_ms=quantile(acked, (cluster, None), 1),
            max_ms=quantile(acked, (cluster, None), 2),
        )
        for cluster in clusters
    ), tuple(
        DeliverySeries(
            cluster=cluster,
            subscription=str(subscription),
            delivered=count(_DELIVERIES, (cluster, subscription)),
            p50_ms=quantile(_RECEIPTS, (cluster, subscription), 0),
            p99_ms=quantile(_RECEIPTS, (cluster, subscription), 1),
        )
        for cluster, subscription in subscriptions
    )


def _count(run: Run, steps: TimeSteps) -> Counted:
    counted: dict[str, dict[tuple[str, str | None], dict[int, Quantiles]]] = defaultdict(lambda: defaultdict(dict))
    with open_run_database(run, ("messages", "deliveries")) as connection:
        define_values(connection, {"start": steps.start_us, "step_us": steps.step_us})
        connection.execute(read_script("series", "events"))
        for subject, quantiles in read_quantiles(connection):
            what, cluster, subscription, step = subject.values()
            counted[what][cluster, subscription][step] = quantiles
    return counted


def _to_ms(microseconds: int | None) -> float | None:
    return None if microseconds is None else round(microseconds / 1000, 1)
