"""Latencies and lags of messages that a client's own standstill may have caused.

A message is due at 10 s, acked in its home at 10.5 s, and delivered in the other cluster at 12.5 s.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from brokerproof import clock
from brokerproof.experiment.scenario import Phase
from brokerproof.run.records import ConsumerEnd, LoadRates, PhaseTimes, ProducerEnd, RateStep, write_record
from brokerproof.run.tables import SCHEMAS
from brokerproof_judging.database import open_database
from brokerproof_judging.measurements.measured_values import MeasuredValue
from brokerproof_judging.measurements.publishing import measure_publishing, measure_replication_lag
from brokerproof_judging.measurements.run_times import NEVER_STEADY, read_run_times
from brokerproof_judging.measurements.standstills import OF_STANDSTILLS

from ..history import REPLICATED, SECOND, START, History

DUE, ACKED, DELIVERED = 10.0, 10.5, 12.5
PHASES = {"steady_at": 0, "impact_at": 20, "recovery_at": 60, "ends_at": 80}


def at(second: float) -> int:
    return START + int(second * SECOND)


class Measured:
    """A run in which clients of the other cluster and producers stood still."""

    def __init__(self, directory: Path, phases: Mapping[str, float] | None = PHASES, rate: int | str = 10) -> None:
        subscriptions = [{"name": "here"}, {"name": "audit", "cluster": "other"}, {"name": "lone", "cluster": "other"}]
        workload = {"namespace": REPLICATED, "producers": 2, "rate": rate}
        history = History(clusters=("main", "other"), workload=workload, subscriptions=subscriptions)
        if phases is not None:
            history.leave(PhaseTimes(**{name: at(second) for name, second in phases.items()}))
        self.run = history.write(directory / "run")

    def stand_still(self, client: int, start: float, end: float, *, producer: str | None = None) -> Measured:
        """Leave the end of a consumer, or of a producer, that did nothing for some seconds."""
        rest: dict[str, Any] = {"task": client, "standstills": ((at(start), at(end)),), "problem": None, "at": START}
        if producer:
            counts = dict.fromkeys(("scheduled", "acked", "failed", "unknown"))
            write_record(self.run, ProducerEnd(producer=producer, **counts, **rest))
        else:
            write_record(self.run, ConsumerEnd(consumer=f"consumer-{client}", delivered=None, **rest))
        return self

    def measure(
        self, metric: str, *, outcome: str = "acked", delivered: float | None = DELIVERED, with_another: bool = False
    ) -> Any:
        """Return the limits of a metric in the steady phase, and its evidence.

        Another message is due at 1 s, acked after 0.1 s and delivered after 0.4 s.
        """
        times = {"scheduled_at": DUE, "settled_at": ACKED}
        message = {name: clock.to_utc(at(second)) for name, second in times.items()}
        message |= {"topic": "t", "producer": "main-p0", "seq": 0, "home": "main", "outcome": outcome}
        received = None if delivered is None else clock.to_utc(at(delivered))
        rows = [
            {**message, "cluster": "main"},
            {**message, "cluster": "other"},
            {**message, "cluster": "main", "subscription": "here", "first_received_at": clock.to_utc(at(70))},
            {**message, "cluster": "other", "subscription": "audit", "first_received_at": received},
        ]
        if with_another:
            times = {"scheduled_at": 1.0, "settled_at": 1.1, "first_received_at": 1.4}
            another = {name: clock.to_utc(at(second)) for name, second in times.items()}
            rows += [{**row, **another, "seq": 1} for row in (rows[0], rows[3])]
        found = self.list_values(rows)
        subject = "main>other/steady" if metric.startswith("replication") else "steady"
        (estimate,) = (each.estimate for each in found if (each.metric, each.subject) == (metric, subject))
        return estimate.limits, estimate.evidence

    def list_values(self, rows: list[dict[str, Any]]) -> list[MeasuredValue]:
        with open_database() as connection:
            connection.register("messages", pa.Table.from_pylist(rows, schema=SCHEMAS["messages"]))
            run_times = read_run_times(self.run)
            return [
                *measure_publishing(self.run, run_times, connection),
                *measure_replication_lag(self.run, run_times, connection),
            ]


@pytest.fixture
def measured(tmp_path: Path) -> Measured:
    return Measured(tmp_path)


LAG, LATENCY = "replication_lag_max_ms", "publish_latency_max_ms"


def test_a_lag_is_the_time_from_the_ack_to_the_first_delivery_in_another_cluster(measured: Measured) -> None:
    assert measured.measure(LAG) == ((2000.0, 2000.0), "1 of 1 deliveries")
    assert measured.measure(LAG, delivered=None) == ((None, None), "0 of 1 deliveries")
    # The delivery may come before the ack.
    assert measured.measure(LAG, delivered=10.2) == ((0.0, 0.0), "1 of 1 deliveries")
    # Without an ack, no time begins.
    assert measured.measure(LAG, outcome="unknown") == ((None, None), "nothing had to be delivered there")


AUDIT, LONE = 1, 2


# A standstill has effects for as long again as it lasted.
@pytest.mark.parametrize(
    ("client", "start", "end", "least"),
    [
        (AUDIT, 11, 12, 0.0),
        (AUDIT, 9.5, 10, 0.0),
        (AUDIT, 9, 9.5, 2000.0),
        (AUDIT, 12.49, 13, 0.0),
        (AUDIT, 12.5, 13, 2000.0),
        (AUDIT, 15, 16, 2000.0),
        (LONE, 11, 12, 2000.0),
    ],
)
def test_a_lag_may_be_that_of_a_consumer_of_the_subscription_that_stood_still(
    measured: Measured, client: int, start: float, end: float, least: float
) -> None:
    limits, evidence = measured.stand_still(client, start, end).measure(LAG)
    assert limits == (least, 2000.0)
    assert evidence == "1 of 1 deliveries" + (OF_STANDSTILLS if least == 0 else "")
    assert measured.measure(LATENCY) == ((500.0, 500.0), "1 messages acked")


@pytest.mark.parametrize(
    ("client", "start", "end", "least"),
    [
        (0, 10.1, 10.2, 0.0),
        (0, 9.5, 9.75, 0.0),
        (0, 9, 9.4, 500.0),
        (0, 10.49, 11, 0.0),
        (0, 10.5, 11, 500.0),
        (1, 10.1, 10.2, 500.0),
    ],
)
def test_a_latency_may_be_that_of_a_producer_that_stood_still(
    measured: Measured, client: int, start: float, end: float, least: float
) -> None:
    limits, evidence = measured.stand_still(client, start, end, producer=f"main-p{client}").measure(LATENCY)
    assert limits == (least, 500.0)
    assert evidence == "1 messages acked" + (OF_STANDSTILLS if least == 0 else "")
    assert measured.measure(LAG)[0] == (2000.0, 2000.0)


def test_what_no_standstill_caused_is_the_least_latency_and_lag(measured: Measured) -> None:
    measured.stand_still(AUDIT, 11, 12).stand_still(0, 10.1, 10.2, producer="main-p0")
    assert measured.measure(LAG, with_another=True)[0] == (300.0, 2000.0)
    assert measured.measure(LATENCY, with_another=True)[0] == (100.0, 500.0)


def test_without_a_steady_load_each_phase_has_its_reason(tmp_path: Path) -> None:
    found = Measured(tmp_path, phases=None).list_values([])
    assert {each.estimate.evidence for each in found} == {NEVER_STEADY}
    assert {each.subject for each in found} == {*Phase, *(f"main>other/{phase}" for phase in Phase)}


def list_shares(measured: Measured, messages: int) -> dict[str, tuple[float | None, str]]:
    """Return the share of the rate that was held in each phase, if messages were due at 0 s."""
    times = dict.fromkeys(("scheduled_at", "settled_at"), clock.to_utc(START))
    message = {"topic": "t", "producer": "main-p0", "home": "main", "cluster": "main", "outcome": "acked", **times}
    found = measured.list_values([{**message, "seq": seq} for seq in range(messages)])
    return {each.subject: (each.estimate.value, each.estimate.evidence) for each in found if each.metric == "rate_held"}


def test_the_share_of_the_rate_is_at_most_1_and_is_not_known_of_a_phase_without_length(tmp_path: Path) -> None:
    measured = Measured(tmp_path, phases={"steady_at": 0, "impact_at": 2, "recovery_at": 2, "ends_at": 4}, rate=1)
    assert list_shares(measured, 3) == {
        "steady": (1.0, "3 acked of 2 scheduled"),
        "impact": (None, "0 acked of 0 scheduled"),
        "recovery": (0.0, "0 acked of 2 scheduled"),
    }


def test_a_time_in_which_a_producer_had_nothing_to_send_has_no_scheduled_message(tmp_path: Path) -> None:
    measured = Measured(tmp_path, phases={"steady_at": 0, "impact_at": 2, "recovery_at": 6, "ends_at": 8}, rate=10)
    # One of two producers, for half of the phase.
    steps = (RateStep(at=at(4), rate=0, producers=("main-p1",)), RateStep(at=at(7), rate=10, producers=("main-p1",)))
    write_record(measured.run, LoadRates(steps=steps, at=START))
    evidence = {phase: each[1] for phase, each in list_shares(measured, 0).items()}
    assert evidence == {
        "steady": "0 acked of 20 scheduled",
        "impact": "0 acked of 30 scheduled",
        "recovery": "0 acked of 15 scheduled",
    }


def test_the_share_of_a_rate_that_was_never_found_is_not_known_of_any_phase(tmp_path: Path) -> None:
    missing = (None, "the record of the rate that the load found is missing")
    assert list_shares(Measured(tmp_path, rate="max"), 3) == dict.fromkeys(Phase, missing)
