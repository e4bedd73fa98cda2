"""Interruptions, gaps and first acks of a planted run, each beside the nearest run that has none.

A producer publishes ten messages a second to each of two partitions, acked after 10 ms and delivered 5 ms later. The
load is steady from 0 s and ends at 100 s.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from brokerproof.experiment.scenario import Scenario
from brokerproof.run.records import ConsumerEnd, LoadRates, PhaseTimes, ProducerEnd, RateStep, write_record
from brokerproof_judging.measurements.interruption import measure_interruption
from brokerproof_judging.measurements.measured_values import MeasuredValue, make_measurements
from brokerproof_judging.measurements.run_measurements import read_recorded_events

from ..history import MILLISECOND, REPLICATED, SECOND, START, History
from ..judged import Judged

PARTITIONS = (0, 1)
LOAD_S = 100


class Clients(History):
    """Two partitions of a producer each; `delays` and `unacked` say what a message's ack does."""

    def __init__(self, *, partitions=2, **scenario):
        names = scenario.pop("names", ("first",))
        faults = [{"name": name, "kind": "kill", "targets": {"nodes": ["broker-eu-1-main"]}} for name in names]
        workload = {"rate": 20, "partitions": partitions, **scenario.pop("workload", {})}
        super().__init__(workload=workload, faults=faults, **scenario)
        times = {"steady_at": 0, "impact_at": 10, "recovery_at": 90, "ends_at": LOAD_S}
        self.leave(PhaseTimes(**{name: START + second * SECOND for name, second in times.items()}))

    def fault(self, name, *, injected, effective):
        for state, second in (("injecting", injected), ("effective", effective)):
            row = {"fault": name, "kind": "kill", "targets": ["broker-eu-1-main"], "state": state}
            self.faults.append({**row, "at": START + int(second * SECOND)})
        return self

    def load(self, *, acked_after=None, is_acked=None, delivered_after=None, outcome="unknown"):
        """Each function gets (partition, second); times are in seconds, from the schedule and from the ack."""
        for number in range(LOAD_S * 10):
            for partition in PARTITIONS:
                at, second = number * 100 * MILLISECOND, number / 10
                name = {"producer": "p0", "seq": number * 2 + partition, "key": f"k{partition}"}
                if is_acked is not None and not is_acked(partition, second):
                    # Only a message that was sent has these times.
                    times = (
                        {"sent_at": None, "settled_at": None} if outcome == "not_sent" else {"settled_at": START + at}
                    )
                    self.publish(**name, at=at, partition=None, offset=None, outcome=outcome, **times)
                    continue
                after = acked_after(partition, second) if acked_after else 0.01
                acked = at + round(after * SECOND)
                place = {**name, "partition": partition, "offset": self.next_entry(partition=partition)}
                self.publish(**place, at=at, settled_at=START + acked, segment=5)
                self.store(**place)
                later = delivered_after(partition, second) if delivered_after else 0.005
                self.deliver(**place, at=acked + round(later * SECOND))
        return self


def silence(partition, start, end):
    """The delay of acks if a partition acks nothing from one moment to another."""
    return lambda where, second: end - second if where == partition and start <= second < end else 0.01


def split_files(run):
    """Spread the rows of each table over three files, and turn their order around."""
    for table in ("publishes", "deliveries"):
        directory = Path(run.table(table))
        rows = pq.read_table(directory)
        for file in directory.glob("*.parquet"):
            file.unlink()
        backwards = range(len(rows) - 1, -1, -1)
        for number in range(3):
            pq.write_table(rows.take(pa.array(backwards[number::3])), directory / f"part-{number}.parquet")


@pytest.fixture
def judge(tmp_path):
    """Measure the interruptions alone, which need no judged messages: ten times as fast as judging the whole run."""

    def judge(history, directory="run", change=None):
        run = history.write(tmp_path / directory)
        if change:
            change(run)
        recorded = read_recorded_events(run)
        values = [
            MeasuredValue(metric=metric, subject=fault.name, estimate=estimate)
            for fault in recorded.times.effective
            for metric, estimate in measure_interruption(run, recorded.times, recorded.events, fault).items()
        ]
        rows = {(row.metric, row.subject): row.model_dump(mode="json") for row in make_measurements(run, values)}
        return lambda metric, fault="first": rows[metric, fault]

    return judge


@pytest.fixture
def judge_whole(spark, tmp_path):
    """Judge the whole run, for values of judged messages too."""

    def judge(history):
        judged = Judged(spark, tmp_path / "run", history)
        return lambda metric, fault="first": judged.measured(metric, fault)

    return judge


def test_a_silent_partition_is_found_whole_for_both_faults_that_it_touches(judge):
    history = Clients(names=("first", "second")).load(acked_after=silence(1, 28, 33.3))
    history.fault("first", injected=27, effective=27.5).fault("second", injected=30, effective=30.5)
    measured = judge(history)

    for fault, injected in (("first", 27), ("second", 30)):
        # Its first message is late from 29 s on.
        assert measured("rto_s", fault)["value"] == pytest.approx(33.3 - injected)
        assert measured("unavailable_s", fault)["value"] == pytest.approx(4.3)
        assert measured("longest_ack_gap_s", fault)["value"] == pytest.approx(33.3 - 27.91)
        for metric in ("rto_s", "unavailable_s", "longest_ack_gap_s"):
            assert "main/partition 1/p0" in measured(metric, fault)["evidence"]
            assert measured(metric, fault)["cut_off_by"] is None
    assert "4.300 s of interruptions in 1 places" in measured("rto_s", "first")["evidence"]
    assert "of 2 places" in measured("longest_ack_gap_s", "first")["evidence"]
    assert measured("first_ack_s", "second")["value"] == pytest.approx(3.3)
    assert "main/partition 1/p0" in measured("first_ack_s", "second")["evidence"]
    assert "the first place had it after 0.510 s" in measured("first_ack_s", "second")["evidence"]


def test_an_ack_between_the_injection_and_the_effect_is_not_the_first_one(judge):
    history = Clients().load(acked_after=silence(1, 32, 40)).fault("first", injected=30, effective=32)

    estimate = judge(history)("first_ack_s")

    assert estimate["value"] == pytest.approx(10)
    assert "main/partition 1/p0" in estimate["evidence"]


def test_messages_that_are_nearly_late_interrupt_nobody(judge):
    measured = judge(Clients().load(acked_after=silence(1, 30, 30.9)).fault("first", injected=29.5, effective=30))

    assert (measured("rto_s")["value"], measured("unavailable_s")["value"]) == (0, 0)
    assert "no message was more than 1 s late" in measured("rto_s")["evidence"]
    assert "resolution: 1 ms" in measured("rto_s")["evidence"]


@pytest.mark.parametrize(("sent_at", "rto"), [(50, None), (None, 0.0)])
def test_a_message_that_a_dead_client_only_reserved_interrupts_nobody(judge, sent_at, rto):
    history = Clients().load().fault("first", injected=49, effective=49)
    sent = None if sent_at is None else START + sent_at * SECOND
    at = 50 * SECOND
    history.publish(producer="p0", seq=9999, at=at, outcome="unknown", offset=None, sent_at=sent, settled_at=None)
    assert judge(history)("rto_s")["value"] == rto


def stand_still(history, start, end, *, client="p0"):
    """Leave the end of a client that itself did nothing from one moment to another."""
    rest = {
        "task": 0,
        "standstills": ((START + int(start * SECOND), START + int(end * SECOND)),),
        "problem": None,
        "at": START,
    }
    if client == "p0":
        counts = dict.fromkeys(("scheduled", "acked", "failed", "unknown"))
        history.leave(ProducerEnd(producer="p0", **counts, **rest))
    else:
        history.leave(ConsumerEnd(consumer=client, delivered=None, **rest))
    return history


@pytest.mark.parametrize(
    ("stood_still", "maximum", "rto", "unavailable"),
    [
        # Without a standstill, all of it is the system's.
        (None, 5, 8.0, 6.0),
        # An interruption that the producer may have caused breaks no bound, and may hold one.
        ((50, 57), 5, None, None),
        ((50, 57), 10, 8.0, 6.0),
        # A standstill at another time caused nothing.
        ((60, 62), 5, 8.0, 6.0),
    ],
)
def test_a_producer_that_stood_still_itself_breaks_no_bound(judge, stood_still, maximum, rto, unavailable):
    bounds = {name: {"max": maximum} for name in ("rto_s", "unavailable_s")}
    history = Clients(bounds=bounds).fault("first", injected=49, effective=49)
    # Both partitions of the producer wait.
    history.load(acked_after=lambda _, second: 57 - second if 50 <= second < 57 else 0.01)
    if stood_still:
        stand_still(history, *stood_still)
    measured = judge(history)

    assert (measured("rto_s")["value"], measured("unavailable_s")["value"]) == (rto, unavailable)
    assert ("stood still" in measured("rto_s")["evidence"]) is (stood_still == (50, 57))
    assert measured("rto_s")["evidence"].startswith("between 0 and 8 s: ") is (rto is None)


def test_a_standstill_before_an_interruption_of_the_system_leaves_the_rto_as_it_is(judge):
    bounds = {name: {"max": 5} for name in ("rto_s", "unavailable_s")}
    history = Clients(bounds=bounds).fault("first", injected=49, effective=49)
    away = {50: 53, 60: 66}
    history.load(
        acked_after=lambda _, second: next((end - second for at, end in away.items() if at <= second < end), 0.01)
    )
    measured = judge(stand_still(history, 50, 53))

    assert measured("rto_s")["value"] == 17
    # 2 s that the producer may have caused, and 5 s of the system.
    assert measured("unavailable_s")["value"] is None


def test_an_interruption_that_never_ended_is_at_least_as_long_as_the_load(judge):
    history = Clients(bounds={"rto_s": {"min": 30}}).load(is_acked=lambda where, second: second < 40)
    row = judge(history.fault("first", injected=39, effective=39.5))("rto_s")

    assert (row["value"], row["at_least"]) == (None, pytest.approx(61))
    assert "still interrupted when the load ended" in row["evidence"]


STANDSTILL_METRICS = ("first_ack_s", "longest_ack_gap_s", "publish_latency_max_ms")


@pytest.mark.parametrize(
    ("stood_still", "is_known"),
    [
        # Without a standstill, the system is slower than it may be.
        (None, True),
        ((50, 57), False),
        # A standstill at another time caused nothing.
        ((70, 72), True),
    ],
)
def test_a_producer_that_stood_still_itself_caused_no_gap_no_late_first_ack_and_no_latency(
    judge_whole, stood_still, is_known
):
    bounds = {name: {"max": 5} for name in STANDSTILL_METRICS[:2]} | {"publish_latency_max_ms": {"max": 5000}}
    history = Clients(bounds=bounds).fault("first", injected=50, effective=50)
    history.load(acked_after=lambda _, second: 57 - second if 50 <= second < 57 else 0.01)
    if stood_still:
        stand_still(history, *stood_still)
    measured = judge_whole(history)

    for metric in STANDSTILL_METRICS:
        row = measured(metric, "impact" if metric == "publish_latency_max_ms" else "first")
        assert (row["value"] is not None) is is_known, metric
        assert ("stood still" in row["evidence"]) is not is_known
        assert row["evidence"].startswith("between ") is not is_known
    # The phase before has no standstill in it.
    assert measured("publish_latency_max_ms", "steady")["value"] == pytest.approx(10)


@pytest.mark.parametrize(
    ("client", "stood_still", "is_known"),
    [(None, None, True), ("c0", (51, 56), False), ("p0", (51, 56), False), ("c0", (70, 72), True)],
)
def test_a_client_that_stood_still_itself_caused_no_gap_in_deliveries(judge, client, stood_still, is_known):
    history = Clients(bounds={"longest_delivery_gap_s": {"max": 5}}).fault("first", injected=50, effective=50)
    history.load(delivered_after=silence(1, 50, 57))
    if client:
        stand_still(history, *stood_still, client=client)
    row = judge(history)("longest_delivery_gap_s")

    assert row["value"] == (pytest.approx(7, abs=0.2) if is_known else None)
    assert ("stood still" in row["evidence"]) is not is_known


def test_the_scenario_says_when_a_message_is_late(judge):
    history = Clients(late_after_s=0.5).load(acked_after=silence(1, 30, 30.9))
    measured = judge(history.fault("first", injected=29.5, effective=30))

    assert measured("rto_s")["value"] == pytest.approx(1.4)
    assert measured("unavailable_s")["value"] == pytest.approx(0.4)


def test_a_topic_that_was_away_between_two_held_rates_is_missed_until_it_is_back(judge):
    """The rate is held before and after, and for seconds after the effect of a graceful stop."""
    away = {where: silence(where, 8, 99) for where in PARTITIONS}
    history = Clients().load(acked_after=lambda where, second: away[where](where, second))
    measured = judge(history.fault("first", injected=8, effective=12))

    assert measured("rto_s")["value"] == pytest.approx(91)
    # Both partitions are away at the same time, which counts once.
    assert measured("unavailable_s")["value"] == pytest.approx(90)


@pytest.mark.parametrize("outcome", ["unknown", "failed", "not_sent"])
def test_a_message_that_was_never_acked_is_late_until_the_end(judge_whole, outcome):
    history = Clients().load(is_acked=lambda where, second: (where, second) != (1, 40.0), outcome=outcome)
    measured = judge_whole(history.fault("first", injected=39, effective=39.5))

    # Later messages were acked, so the end is known.
    assert measured("rto_s")["value"] == pytest.approx(61)
    assert "main/partition 1/p0 has messages that were never acked" in measured("rto_s")["evidence"]
    assert measured("unavailable_s")["value"] == pytest.approx(59)
    assert measured("publish_latency_max_ms", "impact")["value"] == pytest.approx(60_000)
    assert "1 never acked" in measured("publish_latency_max_ms", "impact")["evidence"]
    assert measured("publish_latency_max_ms", "steady")["value"] == pytest.approx(10)
    assert "never acked" not in measured("publish_latency_max_ms", "steady")["evidence"]


def test_an_interruption_that_lasts_at_the_end_of_the_load_has_no_rto_within_the_bound(judge):
    history = Clients().load(is_acked=lambda where, second: where == 0 or second < 40)
    measured = judge(history.fault("first", injected=39, effective=39.5))

    assert measured("rto_s")["value"] is None
    assert "main/partition 1/p0 was still interrupted when the load ended" in measured("rto_s")["evidence"]
    assert measured("longest_ack_gap_s")["value"] == pytest.approx(100 - 39.91)
    assert "until the end of the load" in measured("longest_ack_gap_s")["evidence"]


def test_a_partition_whose_messages_another_one_held_back_is_away_as_long(judge_whole):
    """No message of partition 1 is without an answer, so only those that were not sent show that it was away."""
    history = Clients().load(is_acked=lambda where, second: second < 40, outcome="not_sent")
    for row in history.publishes:
        if row["outcome"] == "not_sent" and row["key"] == "k0" and row["seq"] < 900:
            row.update(outcome="unknown", sent_at=row["scheduled_at"])
    measured = judge_whole(history.fault("first", injected=39, effective=40))

    assert measured("rto_s")["value"] is None
    assert "of interruptions in 2 places" in measured("rto_s")["evidence"]
    assert measured("unavailable_s")["value"] == pytest.approx(59)
    assert measured("longest_ack_gap_s")["value"] == pytest.approx(100 - 39.91)
    assert measured("first_ack_s")["value"] is None
    assert measured("publish_latency_max_ms", "impact")["value"] == pytest.approx(60_000)
    # Of the 80 s of the phase 30 were acked; the others wait for 10 to 60 s.
    assert measured("publish_latency_p50_ms", "impact")["value"] == pytest.approx(20_000, rel=0.02)
    assert "600 messages acked, 1000 never acked" in measured("publish_latency_p50_ms", "impact")["evidence"]


def test_a_message_that_was_held_back_and_sent_in_time_is_not_late(judge):
    history = Clients().load()
    for row in history.publishes:
        if row["scheduled_at"] == START + 40 * SECOND:
            row.update(sent_at=START + 40_900 * MILLISECOND, settled_at=START + 40_990 * MILLISECOND)
    measured = judge(history.fault("first", injected=39, effective=39.5))

    assert (measured("rto_s")["value"], measured("unavailable_s")["value"]) == (0, 0)


def test_a_message_that_was_acked_at_another_attempt_is_not_late(judge):
    history = Clients().load()
    history.publish(producer="p0", seq=801, key="k1", at=40 * SECOND, partition=None, epoch=1, outcome="unknown")
    measured = judge(history.fault("first", injected=39, effective=39.5))

    assert measured("rto_s")["value"] == 0


def test_an_interruption_that_began_before_the_injection_counts_whole(judge):
    history = Clients().load(acked_after=silence(0, 20, 40)).fault("first", injected=30, effective=30.5)
    measured = judge(history)

    assert measured("rto_s")["value"] == pytest.approx(10)
    assert measured("unavailable_s")["value"] == pytest.approx(19)
    assert measured("longest_ack_gap_s")["value"] == pytest.approx(40 - 19.91)


@pytest.mark.parametrize("span", [(20, 29.9), (60, 70)], ids=["before the injection", "after the next one"])
def test_an_interruption_outside_of_the_span_belongs_to_another_fault(judge, span):
    history = Clients(names=("first", "second")).load(acked_after=silence(0, *span))
    measured = judge(history.fault("first", injected=30, effective=31).fault("second", injected=50, effective=51))

    assert (measured("rto_s")["value"], measured("unavailable_s")["value"]) == (0, 0)
    assert measured("longest_ack_gap_s")["value"] < 0.2
    assert (measured("rto_s", "second")["value"] > 0) is (span[0] == 60)


def test_interruptions_of_two_partitions_add_up_where_they_do_not_overlap(judge):
    away = {0: silence(0, 20, 30), 1: silence(1, 25, 40)}
    history = Clients().load(acked_after=lambda where, second: away[where](where, second))
    measured = judge(history.fault("first", injected=19, effective=19.5))

    assert measured("rto_s")["value"] == pytest.approx(21)
    # From 21 s to 40 s.
    assert measured("unavailable_s")["value"] == pytest.approx(19)
    assert "main/partition 1/p0 was interrupted longest, for 14.000 s" in measured("unavailable_s")["evidence"]
    assert "2 places" in measured("unavailable_s")["evidence"]


def test_a_partition_that_delivers_nothing_to_a_subscription_is_found_while_others_deliver(judge):
    late = silence(1, 28, 33.3)
    history = Clients(names=("first", "second")).load(
        delivered_after=lambda where, second: late(where, second) if second != 33.2 else 0.1
    )
    history.fault("first", injected=27, effective=27.5).fault("second", injected=30, effective=30.5)
    measured = judge(history)

    for fault in ("first", "second"):
        gap = measured("longest_delivery_gap_s", fault)
        assert gap["value"] == pytest.approx(33.3 - 27.9, abs=0.05)
        assert "main/audit/partition 1 had no delivery" in gap["evidence"]
        assert measured("longest_ack_gap_s", fault)["value"] == pytest.approx(0.1)


def test_a_partition_that_never_delivers_to_a_subscription_has_a_gap_as_long_as_the_load(judge):
    history = Clients().load().fault("first", injected=30, effective=31)
    history.deliveries = [row for row in history.deliveries if row["partition"] == 0]
    gap = judge(history)("longest_delivery_gap_s")

    assert gap["value"] == pytest.approx(LOAD_S)
    assert "main/audit/partition 1 had no delivery until the end of the load" in gap["evidence"]


# The producer of the cluster `main` has the key k0 as its hot key, which is that of partition 0.
HOT = {"workload": {"hot_key_share": 0.5, "producers": 1}}


def test_a_hot_key_that_is_not_delivered_is_found_while_its_partition_delivers(judge):
    late = silence(0, 28, 33.3)
    history = Clients(**HOT).load(delivered_after=lambda where, second: late(where, second) if where == 0 else 0.005)
    # Another key of the same partition is delivered meanwhile, and the hot key's last message comes again.
    for number in range(60):
        history.deliver(producer="p1", seq=number, key="k8", partition=0, offset=5000 + number, at=28 * SECOND)
        history.deliver(producer="p0", seq=0, key="k0", partition=0, offset=0, at=(28 + number) * SECOND)
    measured = judge(history.fault("first", injected=27, effective=27.5))

    gap = measured("longest_hot_key_gap_s")
    assert gap["value"] == pytest.approx(33.3 - 27.9, abs=0.05)
    assert "main/audit/k0 had no delivery until the next delivery; the longest gap of 1 places" in gap["evidence"]


def test_another_key_that_is_not_delivered_makes_no_gap_of_the_hot_key(judge):
    history = Clients(**HOT).load(delivered_after=silence(1, 28, 33.3))
    measured = judge(history.fault("first", injected=27, effective=27.5))
    assert measured("longest_hot_key_gap_s")["value"] == pytest.approx(0.1, abs=0.01)


def test_a_hot_key_that_is_never_delivered_has_a_gap_as_long_as_the_load(judge):
    history = Clients(**HOT).load().fault("first", injected=30, effective=31)
    history.deliveries = [row for row in history.deliveries if row["key"] != "k0"]
    gap = judge(history)("longest_hot_key_gap_s")
    assert gap["value"] == pytest.approx(LOAD_S)
    assert "main/audit/k0 had no delivery until the end of the load" in gap["evidence"]


def test_a_run_without_a_hot_key_has_no_gap_of_one(judge_whole):
    measured = judge_whole(Clients().load().fault("first", injected=30, effective=31))
    with pytest.raises(ValueError, match="not enough values"):
        measured("longest_hot_key_gap_s")


def test_a_run_with_a_hot_key_measures_its_gap(judge_whole):
    measured = judge_whole(Clients(**HOT).load().fault("first", injected=30, effective=31))
    assert measured("longest_hot_key_gap_s")["value"] == pytest.approx(0.1, abs=0.01)


def test_a_producer_that_never_got_an_ack_is_named_beside_one_that_goes_on(judge):
    history = Clients(bounds={"first_ack_s": {"max": 50}}).load()
    for seq in range(10):
        at = (40 + seq) * SECOND
        history.publish(producer="p1", seq=seq, at=at, partition=None, offset=None, outcome="unknown")
    measured = judge(history.fault("first", injected=39, effective=39.5))

    assert measured("longest_ack_gap_s")["value"] == pytest.approx(LOAD_S)
    assert "main/unknown partition/p1 had no ack" in measured("longest_ack_gap_s")["evidence"]
    assert measured("first_ack_s")["value"] == pytest.approx(61)
    assert "of main/unknown partition/p1, one of 1 such places of 3" in measured("first_ack_s")["evidence"]
    assert measured("unavailable_s")["value"] == pytest.approx(59)


def test_a_partition_that_was_able_to_send_nothing_after_the_effect_has_no_first_ack(judge):
    history = Clients(bounds={"first_ack_s": {"max": 10}}).load(
        is_acked=lambda where, second: where == 0 or second < 12, outcome="not_sent"
    )
    row = judge(history.fault("first", injected=10, effective=14))("first_ack_s")
    assert row["value"] == pytest.approx(90)
    assert "of main/partition 1/p0, one of 1 such places of 2" in row["evidence"]


@pytest.mark.parametrize(("second", "rto"), [(30.004, None), (31, None), (31.001, 0.0), (35, 0.0)])
def test_no_message_can_be_late_between_two_faults_that_are_less_than_that_apart(judge, second, rto):
    history = Clients(names=("first", "second"), bounds={"rto_s/first": {"max": 5}}).load(
        acked_after=lambda where, at: 70 - at if 36 <= at < 70 else 0.01
    )
    history.fault("first", injected=30, effective=30.001).fault("second", injected=second, effective=second + 0.1)
    row = judge(history)("rto_s")
    assert row["value"] == rto
    assert row["cut_off_by"] == (None if rto is not None else "second")
    assert ("no message can be late: the time after the injection" in row["evidence"]) is (rto is None)


def test_a_gap_in_deliveries_lasts_until_the_next_one_even_if_that_comes_after_the_load(judge):
    history = Clients(bounds={"longest_delivery_gap_s": {"max": 80}}).load(
        delivered_after=lambda where, second: 160 - second if where == 1 and second >= 40 else 0.005
    )
    row = judge(history.fault("first", injected=39, effective=39.5))("longest_delivery_gap_s")
    assert row["value"] == pytest.approx(120, abs=0.2)


def test_a_message_that_is_delivered_again_after_the_load_ends_no_gap(judge):
    history = Clients().load()
    again = dict(history.deliveries[-1])
    history.deliveries.append({**again, "received_at": again["received_at"] + 60 * SECOND, "arrival": 10_000})
    row = judge(history.fault("first", injected=39, effective=39.5))("longest_delivery_gap_s")
    assert row["value"] < 1


REDELIVERY_S = 0.5


def repeat(history, first, last):
    """Deliver the first message of partition 1 to `audit` again and again, from one moment to another."""
    again = next(row for row in history.deliveries if (row["partition"], row["subscription"]) == (1, "audit"))
    for number in range(int((last - first) / REDELIVERY_S) + 1):
        at = START + int((first + number * REDELIVERY_S) * SECOND)
        row = {"received_at": at, "arrival": 20_000 + number, "redelivery_count": number + 1}
        history.deliveries.append({**again, **row})
    return history


@pytest.mark.parametrize(
    ("silent_from", "gap"),
    [
        # The message of 49.9 s is delivered 15 ms later, the next one at 80 s.
        (50, 80 - 49.915),
        # New messages go on beside the one that is repeated.
        (80, 0.1),
    ],
)
def test_a_message_that_is_delivered_again_during_the_load_ends_no_gap(judge, silent_from, gap):
    history = Clients().load(
        delivered_after=lambda where, second: 80 - second if where == 1 and silent_from <= second < 80 else 0.005
    )
    measured = judge(repeat(history.fault("first", injected=49, effective=49.5), 50, 79.5))

    row = measured("longest_delivery_gap_s")
    assert row["value"] == pytest.approx(gap, abs=0.02)
    assert ("main/audit/partition 1" in row["evidence"]) or silent_from == 80


def test_a_message_that_another_subscription_got_before_is_new_to_this_one(judge):
    history = Clients(subscriptions=[{"name": "audit"}, {"name": "late"}]).load()
    for row in [*history.deliveries]:
        history.deliveries.append({**row, "subscription": "late", "received_at": row["received_at"] + 40 * MILLISECOND})
    row = judge(history.fault("first", injected=49, effective=49.5))("longest_delivery_gap_s")

    assert row["value"] == pytest.approx(0.1, abs=0.001)
    assert row["evidence"].endswith("of 4 places")


@pytest.mark.parametrize(("producer", "seq"), [(None, None), ("p0", None), (None, 3)])
def test_messages_without_a_name_are_told_apart_by_their_positions(judge, producer, seq):
    """A message of another producer than the run's own is delivered, too."""
    history = Clients().load()
    for row in history.deliveries:
        if row["partition"] == 1:
            row.update(producer=producer, seq=seq)
    row = judge(history.fault("first", injected=49, effective=49.5))("longest_delivery_gap_s")

    assert row["value"] == pytest.approx(0.1, abs=0.001)


STANDSTILL_LIMITS = {"rto_s": 8, "unavailable_s": 6, "longest_ack_gap_s": 7.09, "first_ack_s": 8}


@pytest.mark.parametrize(("metric", "most"), STANDSTILL_LIMITS.items())
def test_what_only_a_standstill_of_the_producer_caused_holds_no_minimum(judge, metric, most):
    history = Clients(bounds={metric: {"min": 5}}).fault("first", injected=49, effective=50)
    row = judge(stand_still(history.load(acked_after=away({50: 57})), 50, 57))(metric)

    assert (row["value"], row["at_least"], row["at_most"]) == (
        None,
        pytest.approx(1 if metric == "first_ack_s" else 0, abs=0.2),
        pytest.approx(most, abs=0.2),
    )


def away(times):
    """The delay of acks if no partition acks anything in `times`, {from: to}."""
    return lambda _, second: next((end - second for at, end in times.items() if at <= second < end), 0.01)


def test_an_outage_breaks_its_bound_also_if_the_producer_stands_still_later(judge):
    history = Clients(bounds={"rto_s": {"max": 5}, "unavailable_s": {"max": 5}})
    history.fault("first", injected=49, effective=49).load(acked_after=away({50: 70, 90: 92}))
    measured = judge(stand_still(history, 90, 92))

    # The standstill made the times longer, and without it they are longer than their bounds, too.
    for metric, least, most in (("rto_s", 21, 43), ("unavailable_s", 19, 20)):
        row = measured(metric)
        assert (row["value"], row["at_least"], row["at_most"]) == (most, least, most)


@pytest.mark.parametrize(
    ("metric", "least"), [("rto_s", 41), ("unavailable_s", 36), ("longest_ack_gap_s", 27), ("first_ack_s", 11)]
)
def test_an_outage_breaks_its_bound_also_if_the_producer_stands_still_in_it(judge, metric, least):
    history = Clients(bounds={metric: {"max": 5}}).fault("first", injected=49, effective=50)
    row = judge(stand_still(history.load(acked_after=away({50: 90})), 60, 61.5))(metric)

    assert row["value"] is not None
    assert row["value"] > 5
    # The producer works off for as long again what came due in the standstill.
    assert (row["at_least"] or row["value"]) == pytest.approx(least, abs=0.1)


def test_a_standstill_that_goes_on_until_the_load_ends_leaves_a_time_without_an_upper_limit(judge):
    history = Clients(bounds={"rto_s": {"min": 30}}).fault("first", injected=50, effective=50)
    row = judge(stand_still(history.load(acked_after=away({90: 101})), 90, 101))("rto_s")

    assert (row["value"], row["at_least"], row["at_most"]) == (None, 0, None)


def test_the_longest_gap_that_no_standstill_touches_breaks_its_bound(judge):
    history = Clients(bounds={"longest_ack_gap_s": {"max": 5}}).fault("first", injected=49, effective=49)
    history.load(acked_after=silence(1, 50, 70))
    for number in range(LOAD_S * 10):
        at = number * 100 * MILLISECOND
        # Another producer sends at the end of its standstill what was due in it.
        sent = 82 * SECOND + number if 60 * SECOND <= at < 82 * SECOND else at
        place = {"producer": "p1", "seq": number, "key": "k9", "partition": 0}
        place["offset"] = history.next_entry(partition=0)
        history.publish(**place, at=at, sent_at=START + sent, settled_at=START + sent + 400, segment=5)
        history.store(**place)
        history.deliver(**place, at=sent + 500)
    counts = dict.fromkeys(("scheduled", "acked", "failed", "unknown"))
    stood = ((START + 60 * SECOND, START + 82 * SECOND),)
    history.leave(ProducerEnd(producer="p1", **counts, task=0, standstills=stood, problem=None, at=START))
    row = judge(history)("longest_ack_gap_s")

    assert "main/partition 0/p1" in row["evidence"]
    assert (row["at_least"], row["value"]) == (pytest.approx(20.09), pytest.approx(22, abs=0.15))


@pytest.mark.parametrize(("due", "rto"), [(-5, 0), (1, 50)])
def test_a_message_that_was_due_before_the_steady_phase_interrupts_nobody(judge, due, rto):
    history = Clients(bounds={"rto_s": {"max": 10}}).load().fault("first", injected=50, effective=50.5)
    place = {"producer": "p0", "seq": 2 * 10 * LOAD_S, "key": "k0", "partition": None, "offset": None}
    history.publish(**place, at=due * SECOND, outcome="unknown", settled_at=START)
    measured = judge(history)

    assert measured("rto_s")["value"] == rto


@pytest.mark.parametrize(("partitions", "first_ack"), [(0, 0.51), (2, 0.51)])
def test_a_message_whose_partition_is_not_known_is_no_place_that_waits_for_an_ack(judge, partitions, first_ack):
    history = Clients(bounds={"first_ack_s": {"max": 10}}).fault("first", injected=50, effective=50.5)
    workload = history.scenario.workload.model_copy(update={"partitions": partitions})
    history.scenario = history.scenario.model_copy(update={"workload": workload})
    for number in range(LOAD_S * 10):
        at, name = number * 100 * MILLISECOND, {"producer": "p0", "seq": number, "key": f"k{number}"}
        if number == 600:
            history.publish(**name, at=at, partition=None, offset=None, outcome="unknown", settled_at=None)
            continue
        place = {**name, "offset": history.next_entry()} | ({"partition": 1} if partitions else {})
        history.publish(**place, at=at, settled_at=START + at + 10 * MILLISECOND, segment=5)
        history.store(**place)
        history.deliver(**place, at=at + 15 * MILLISECOND)
    row = judge(history)("first_ack_s")

    assert row["value"] == pytest.approx(first_ack, abs=0.1)
    assert "unknown partition" not in row["evidence"]


@pytest.mark.parametrize("effects", [(31, 32), (32, 31)])
def test_the_next_injection_cuts_off_a_fault_in_whatever_order_they_take_effect(judge, effects):
    history = Clients(names=("first", "second")).load()
    history.fault("first", injected=30, effective=effects[0]).fault("second", injected=30.004, effective=effects[1])
    row = judge(history)("rto_s")

    assert (row["value"], row["cut_off_by"]) == (None, "second")


def test_the_files_and_the_order_of_rows_change_no_measurement(judge):
    history = Clients(names=("first", "second"), bounds={"rto_s": {"max": 5}}).load(acked_after=silence(1, 28, 33.3))
    history.fault("first", injected=27, effective=27.5).fault("second", injected=30, effective=30.5)
    stand_still(stand_still(history, 28, 30), 29, 31, client="c0")
    found = []
    for directory, order in (("as-written", None), ("split", split_files)):
        measured = judge(history, directory, order)
        metrics = ("first_ack_s", "rto_s", "unavailable_s", "longest_ack_gap_s", "longest_delivery_gap_s")
        found.append([measured(metric, fault) for metric in metrics for fault in ("first", "second")])

    assert found[0] == found[1]
    assert sum("stood still" in row["evidence"] for row in found[0]) > 4


def test_a_fault_that_is_injected_when_the_load_has_ended_interrupts_no_client(judge):
    bounds = {"longest_ack_gap_s": {"max": 1}, "rto_s": {"max": 1}}
    history = Clients(names=("first", "second"), bounds=bounds).load(acked_after=silence(1, 28, 33.3))
    history.fault("first", injected=27, effective=27.5).fault("second", injected=LOAD_S, effective=LOAD_S + 1)
    measured = judge(history)

    for metric in ("first_ack_s", "rto_s", "unavailable_s", "longest_ack_gap_s", "longest_delivery_gap_s"):
        assert measured(metric)["value"] is not None
        row = measured(metric, "second")
        assert row["value"] is None
        assert row["evidence"] == "the load had ended when the fault was injected"


@pytest.mark.parametrize(
    ("partitions", "partition", "place"),
    [(0, -1, "main/p0"), (1, 0, "main/partition 0/p0"), (2, 1, "main/partition 1/p0")],
)
def test_a_place_names_its_partition_if_the_topic_has_partitions(judge, partitions, partition, place):
    history = Clients(partitions=partitions)
    for number in range(LOAD_S):
        name = {"producer": "p0", "seq": number, "key": "k"}
        at = number * SECOND
        history.publish(**name, at=at, partition=partition, offset=number, segment=5)
        history.deliver(**name, at=at + 5000, partition=partition, offset=number)
    # The first message of another key has no ack, which would name its partition.
    history.publish(producer="p0", seq=LOAD_S, key="new", at=40 * SECOND, outcome="unknown", partition=None)
    measured = judge(history.fault("first", injected=39, effective=39.5))

    waiting = place if partitions == 0 else "main/unknown partition/p0"
    assert measured("rto_s")["evidence"].startswith(f"{waiting} ")
    assert measured("rto_s")["at_least"] is None or partitions
    assert f"message that {place} sent" in measured("first_ack_s")["evidence"]
    assert measured("longest_ack_gap_s")["evidence"].startswith(f"{place} had no ack")


@pytest.mark.parametrize(
    ("stood_still", "first_ack"),
    [
        # It ended when the fault was injected, or before, and so delayed no ack after it.
        ((24, 27), 6.3),
        ((5, 8), 6.3),
        # It began when the ack had come.
        ((33.3, 40), 6.3),
        ((24, 27.001), None),
        ((33.2, 40), None),
    ],
)
def test_only_a_standstill_between_the_injection_and_the_first_ack_delays_it(judge, stood_still, first_ack):
    history = Clients(bounds={"first_ack_s": {"max": 6.25}}).fault("first", injected=27, effective=27.5)
    history.load(acked_after=silence(1, 27.5, 33.3))
    estimate = judge(stand_still(history, *stood_still))("first_ack_s")

    assert estimate["value"] == (None if first_ack is None else pytest.approx(first_ack))
    if first_ack is None:
        least = max(0.0, stood_still[0] - 27)
        assert estimate["evidence"].startswith(f"between {least:g} and 6.3 s: ")


def test_the_first_ack_of_another_producer_has_its_own_limit(judge):
    history = Clients(bounds={"first_ack_s": {"max": 5}}).load(acked_after=silence(1, 28, 33.3))
    for number in range(LOAD_S):
        history.publish(
            producer="p1", seq=number, key="other", at=number * SECOND, partition=0, offset=5000 + number, segment=6
        )
    history.fault("first", injected=28, effective=28)
    row = judge(stand_still(history, 30, 40))("first_ack_s")

    assert row["evidence"].startswith("between 2 and 5.3 s: ")


def test_a_gap_within_a_standstill_may_have_been_none(judge):
    history = Clients(names=("first", "second"), bounds={"longest_ack_gap_s": {"max": 5}})
    history.load(acked_after=lambda _, second: 57 - second if 50 <= second < 57 else 0.01)
    # No other gap touches the time until the second fault.
    history.fault("first", injected=50, effective=50).fault("second", injected=56, effective=56)
    row = judge(stand_still(history, 49.8, 57.2))("longest_ack_gap_s")

    assert row["value"] is None
    assert row["evidence"].startswith("between 0 and 7.09 s: ")


@pytest.mark.parametrize(("kind", "client"), [("ack", "p0"), ("delivery", "c0")])
def test_a_gap_that_begins_when_a_standstill_has_no_effect_any_more_is_the_systems(judge, kind, client):
    metric = f"longest_{kind}_gap_s"
    history = Clients(bounds={metric: {"max": 5}}).fault("first", injected=50, effective=50)
    away = silence(1, 50, 57)
    history.load(**{"acked_after" if kind == "ack" else "delivered_after": away})
    # The last event before the gap is that of the message which was due at 49.9 s.
    last = 49.91 if kind == "ack" else 49.915
    # The standstill has effects for as long again.
    row = judge(stand_still(history, last - 4, last - 2, client=client))(metric)

    assert row["value"] is not None
    assert "stood still" not in row["evidence"]


def test_a_message_that_is_late_within_a_second_after_a_standstill_may_be_so_for_it(judge):
    bounds = {name: {"max": 0.1} for name in ("rto_s", "unavailable_s")}
    history = Clients(bounds=bounds).fault("first", injected=49, effective=49)
    # A message that is due at 50 s is late from 51 s on. A standstill of 0.2 s has effects until 51.2 s.
    history.load(acked_after=lambda _, second: 1.15 if second == 50 else 0.01)
    measured = judge(stand_still(history, 50, 50.2))

    for metric in ("rto_s", "unavailable_s"):
        assert measured(metric)["value"] is None
        assert "stood still" in measured(metric)["evidence"]


def test_a_subscription_that_moves_has_one_place_in_both_clusters(judge):
    moves = {"to": "other", "after": "first", "after_s": 1}
    subscriptions = [{"name": "audit", "moves": moves}, {"name": "stays"}]
    history = Clients(clusters=("main", "other"), subscriptions=subscriptions).load()
    for row in history.deliveries:
        if row["received_at"] > START + 51 * SECOND:
            row["cluster"] = "other"
    stays = [{**row, "cluster": "main", "subscription": "stays"} for row in history.deliveries]
    history.deliveries = [
        row for row in history.deliveries if not 0 < row["received_at"] - START - 50 * SECOND < SECOND
    ]
    history.deliveries += stays
    row = judge(history.fault("first", injected=49, effective=49.5))("longest_delivery_gap_s")

    assert row["value"] == pytest.approx(1.1, abs=0.02)
    assert row["evidence"].startswith("main>other/audit/partition ")


def test_a_subscription_has_to_get_the_messages_that_are_replicated_to_its_cluster(judge):
    history = Clients(clusters=("main", "other"), workload={"namespace": REPLICATED, "produce_on": ["other"]})
    history.topic = f"persistent://{REPLICATED}/orders"
    history.load()
    for row in history.publishes:
        row["cluster"] = "other"
    history.deliveries = [row for row in history.deliveries if row["partition"] == 0]
    row = judge(history.fault("first", injected=30, effective=31))("longest_delivery_gap_s")

    assert row["value"] == pytest.approx(LOAD_S)
    assert row["evidence"].startswith("main/audit/partition 1 had no delivery until the end of the load")


@pytest.mark.parametrize("silent", ["first", "last"])
def test_each_subscription_of_a_cluster_has_to_get_its_messages(judge, silent):
    history = Clients(subscriptions=[{"name": "first"}, {"name": "last"}]).load()
    history.deliveries = [
        {**row, "subscription": {"first": "last", "last": "first"}[silent]} for row in history.deliveries
    ]
    row = judge(history.fault("first", injected=30, effective=31))("longest_delivery_gap_s")

    assert row["value"] == pytest.approx(LOAD_S)
    assert row["evidence"].startswith(f"main/{silent}/partition 1 had no delivery until the end of the load")


def test_a_fault_after_the_last_message_that_was_due_has_no_first_ack(judge):
    history = Clients(bounds={"first_ack_s": {"max": 10}}).load()
    history.publishes = [row for row in history.publishes if row["scheduled_at"] < START + 20 * SECOND]
    row = judge(history.fault("first", injected=30, effective=30.5))("first_ack_s")

    assert (row["value"], row["at_least"]) == (70, 70)
    assert row["evidence"] == "no message that was due after the effect was acked"


def test_without_a_subscription_no_gap_in_deliveries_is_measured(judge):
    history = Clients(subscriptions=[]).load()
    history.deliveries.clear()
    row = judge(history.fault("first", injected=30, effective=30.5))("longest_delivery_gap_s")

    assert (row["value"], row["evidence"]) == (None, "nobody consumed")


def test_no_gap_is_measured_without_an_event_and_without_an_expected_one(judge):
    history = Clients().load()
    history.publishes.clear()
    history.deliveries.clear()
    measured = judge(history.fault("first", injected=30, effective=30.5))

    for kind in ("ack", "delivery"):
        row = measured(f"longest_{kind}_gap_s")
        assert (row["value"], row["evidence"]) == (None, f"no {kind} was recorded, and none was expected")


def late_until(*late):
    """The delays of acks if messages of (partition, second) get them late, at the time after it."""
    ends = {(partition, second): end for partition, second, end in late}
    return lambda where, second: ends[where, second] - second if (where, second) in ends else 0.01


def test_late_times_that_touch_each_other_are_one_interruption(judge):
    """The first message is late from 30 to 33 s, and the second one from 33 s on."""
    history = Clients().load(acked_after=late_until((1, 29.0, 33.0), (1, 32.0, 36.0)))
    measured = judge(history.fault("first", injected=34, effective=34))

    # Both began before the fault, and count whole.
    assert measured("unavailable_s")["value"] == 6
    assert "1 places" in measured("rto_s")["evidence"]


@pytest.mark.parametrize("places", [(1, 1, 1), (0, 1, 1)])
def test_a_late_time_within_a_longer_one_ends_nothing(judge, places):
    late = ((places[0], 29.0, 40.0), (places[1], 30.0, 32.0), (places[2], 34.0, 36.0))
    history = Clients().load(acked_after=late_until(*late)).fault("first", injected=28, effective=28)
    measured = judge(history)

    assert measured("unavailable_s")["value"] == 10
    assert (
        f"main/partition {places[0]}/p0 was interrupted longest, for 10.000 s" in measured("unavailable_s")["evidence"]
    )


def test_an_interruption_that_ends_with_an_injection_or_begins_with_the_next_one_is_of_no_fault_between(judge):
    history = Clients(names=("first", "second", "third"))
    history.load(acked_after=late_until((1, 29.0, 33.0), (1, 49.0, 52.0)))
    for name, second in (("first", 20), ("second", 33), ("third", 50)):
        history.fault(name, injected=second, effective=second)
    measured = judge(history)

    for metric, values in {"rto_s": [13, 0, 2], "unavailable_s": [3, 0, 2]}.items():
        assert [measured(metric, name)["value"] for name in ("first", "second", "third")] == values


def test_a_gap_that_begins_with_the_next_injection_is_not_of_this_fault(judge):
    """Partition 1 has an ack at 40.000 s, and the next one at 46.010 s."""
    history = Clients(names=("first", "second"))
    silent = silence(1, 39.95, 46.01)
    history.load(acked_after=lambda where, second: 0.1 if (where, second) == (1, 39.9) else silent(where, second))
    history.fault("first", injected=30, effective=30).fault("second", injected=40, effective=40)
    measured = judge(history)

    assert measured("longest_ack_gap_s", "first")["value"] < 1
    assert measured("longest_ack_gap_s", "second")["value"] == pytest.approx(6.01)


def test_a_gap_that_is_over_when_the_fault_is_injected_is_not_of_it(judge):
    """Partition 1 has no ack from 33.9 s to 40.000 s."""
    history = Clients().load(acked_after=silence(1, 34, 40)).fault("first", injected=40, effective=40)

    assert judge(history)("longest_ack_gap_s")["value"] < 1


def test_the_first_gap_begins_with_the_load(judge):
    history = Clients().load(acked_after=silence(1, 0, 20)).fault("first", injected=15, effective=15)

    assert judge(history)("longest_ack_gap_s")["value"] == 20


def test_no_time_is_left_if_the_standstill_covers_the_whole_interruption(judge):
    history = Clients(bounds={"rto_s": {"max": 1}}).fault("first", injected=29, effective=29)
    # The effect of the standstill lasts as long again.
    row = judge(stand_still(history.load(acked_after=late_until((1, 29.0, 34.0))), 30, 32))("rto_s")

    assert (row["value"], row["at_least"], row["at_most"]) == (None, 0, 5)


@pytest.mark.parametrize("later", [0, 1])
def test_the_first_ack_of_all_attempts_ends_a_late_time(judge, later):
    """A producer's second process publishes the message again, and gets an ack after 30 s."""
    history = Clients().load().fault("first", injected=39, effective=39)
    row = next(row for row in history.publishes if row["scheduled_at"] == START + 40 * SECOND)
    scheduled = row["scheduled_at"] + later * SECOND
    history.publishes.append({**row, "epoch": 1, "scheduled_at": scheduled, "settled_at": START + 70 * SECOND})
    assert judge(history)("rto_s")["value"] == 0
    # Without an ack of the first attempt, the message is late from its first schedule on.
    row.update(outcome="unknown", partition=None, segment=None, offset=None)
    assert judge(history, "again")("unavailable_s")["value"] == 29


@pytest.mark.parametrize("client", ["c0", None])
def test_a_subscription_with_the_name_of_a_producer_has_its_own_events(judge, client):
    """The topic has no partitions, so both places are called `main/p0`."""
    history = Clients(partitions=0, subscriptions=[{"name": "p0"}], bounds={"longest_delivery_gap_s": {"max": 5}})
    history.load(delivered_after=lambda _, second: 57 - second if 50 <= second < 57 else 0.005)
    for row in history.publishes:
        row["partition"] = -1
    for row in history.deliveries:
        row.update(subscription="p0", partition=-1)
    # The producer stood still at another time.
    stand_still(history, 90, 91)
    if client:
        stand_still(history, 51, 56, client=client)
    measured = judge(history.fault("first", injected=49, effective=49))

    assert measured("longest_ack_gap_s")["value"] < 1
    row = measured("longest_delivery_gap_s")
    assert row["value"] == (None if client else pytest.approx(7, abs=0.2))


def test_interruptions_of_another_place_that_begin_meanwhile_divide_none(judge):
    away, short = silence(0, 30, 40), late_until((1, 31.0, 34.0), (1, 34.0, 37.0))
    history = Clients().load(acked_after=lambda where, second: (short if where else away)(where, second))
    row = judge(history.fault("first", injected=29, effective=29))("unavailable_s")

    assert row["value"] == 9
    assert "main/partition 0/p0 was interrupted longest, for 9.000 s" in row["evidence"]


def test_without_partitions_a_message_without_an_ack_is_of_the_same_place(judge):
    history = Clients(partitions=0).load(is_acked=lambda _, second: second < 40)
    row = judge(history.fault("first", injected=39, effective=40))("first_ack_s")

    assert row["value"] is None
    assert "no message of main/p0, one of 1 such places of 1, that was due after" in row["evidence"]


def test_a_message_that_is_sent_at_the_moment_of_the_effect_is_sent_after_it(judge):
    history = Clients().load()
    history.publishes = [row for row in history.publishes if row["scheduled_at"] <= START + 40 * SECOND]
    row = judge(history.fault("first", injected=39, effective=40))("first_ack_s")

    assert row["value"] == pytest.approx(1.01)


@pytest.mark.parametrize("due", [99.0, 99.9])
def test_an_ack_after_the_load_of_a_message_that_cannot_be_late_in_it_is_no_interruption(judge, due):
    """One message was never acked. Each message that is due from `due` on gets its ack when the load has ended."""
    history = Clients().load(
        is_acked=lambda where, second: (where, second) != (1, 40.0),
        acked_after=lambda _, second: 100.1 - second if second >= due else 0.01,
    )
    row = judge(history.fault("first", injected=39, effective=39.5))("rto_s")

    assert row["value"] == 61
    assert "main/partition 1/p0 has messages that were never acked" in row["evidence"]


@pytest.mark.parametrize(("phase_begins", "rto"), [(40, 61), (40.001, 0)])
def test_a_message_that_is_due_when_the_steady_phase_begins_counts(judge, phase_begins, rto):
    history = Clients().load(is_acked=lambda where, second: (where, second) != (1, 40.0))
    times = {"steady_at": phase_begins, "impact_at": 50, "recovery_at": 90, "ends_at": LOAD_S}
    history.leave(PhaseTimes(**{name: START + int(second * SECOND) for name, second in times.items()}))
    row = judge(history.fault("first", injected=39, effective=39.5))("rto_s")

    assert row["value"] == rto


@pytest.mark.parametrize(("of_first", "unavailable"), [((50, 57), None), ((90, 91), 6)])
def test_the_standstill_of_another_producer_is_no_cause(judge, of_first, unavailable):
    history = Clients(bounds={"unavailable_s": {"max": 5}}).fault("first", injected=49, effective=49)
    stand_still(history.load(acked_after=lambda _, second: 57 - second if 50 <= second < 57 else 0.01), *of_first)
    other = {"p0": "p1", "start": 50, "end": 57} if of_first == (90, 91) else {"p0": "p1", "start": 90, "end": 91}

    def add_other(run):
        times = ((START + other["start"] * SECOND, START + other["end"] * SECOND),)
        counts = dict.fromkeys(("scheduled", "acked", "failed", "unknown"))
        write_record(run, ProducerEnd(task=1, producer="p1", standstills=times, problem=None, at=START, **counts))

    assert judge(history, change=add_other)("unavailable_s")["value"] == unavailable


def test_a_cluster_without_a_subscription_expects_no_delivery(judge):
    history = Clients(clusters=("main", "other")).load()
    history.publish(producer="p1", seq=0, key="k9", cluster="other", partition=0, segment=5, offset=7, at=0)
    row = judge(history.fault("first", injected=49, effective=49.5))("longest_delivery_gap_s")

    assert row["value"] < 1


def test_a_producer_that_never_got_an_ack_and_stood_still_itself_may_have_caused_a_part_of_it(judge):
    history = Clients(bounds={"longest_ack_gap_s": {"max": 1}}).load(is_acked=lambda *_: False)
    row = judge(stand_still(history.fault("first", injected=49, effective=49.5), 20, 30))("longest_ack_gap_s")

    # The standstill has effects until 40 s.
    assert (row["value"], row["at_least"], row["at_most"]) == (100, 60, 100)
    assert "stood still" in row["evidence"]


class Growing(Clients):
    """A topic that gets a third and a fourth partition at 30 s. From 40 s on, key k0 is in partition 2 instead of 0.

    Key k1 stays in partition 1.
    """

    def __init__(self):
        super().__init__(workload={"grows_to": 4}, names=("first", "earlier"))
        scenario = self.scenario.model_dump(mode="json")
        scenario["faults"][0] |= {"kind": "grow", "targets": {"now": "topic_owner"}}
        self.scenario = Scenario.model_validate(scenario)
        self.fault("first", injected=30, effective=31)

    def load(self, **delays):
        super().load(**delays)
        moved = START + 40 * SECOND
        number_of = {}
        for row in self.publishes:
            if row["key"] == "k0" and row["partition"] is not None and row["scheduled_at"] >= moved:
                number_of[row["seq"]] = len(number_of)
        for table in (self.publishes, self.stored, self.deliveries):
            for row in table:
                if row["seq"] in number_of:
                    row.update(partition=2, offset=number_of[row["seq"]])
        return self


def test_a_partition_that_is_added_is_not_silent_before_its_first_message(judge):
    measured = judge(Growing().load())

    for metric in ("longest_ack_gap_s", "longest_delivery_gap_s"):
        # The old partition of the key is not silent behind its last message either.
        assert measured(metric)["value"] == pytest.approx(0.1)
        assert "of 3 places" in measured(metric)["evidence"]
    assert measured("rto_s")["value"] == 0


def test_the_first_ack_of_a_partition_that_is_added_shows_when_a_producer_uses_it(judge):
    first_ack = judge(Growing().load())("first_ack_s")

    assert first_ack["value"] == pytest.approx(40.01 - 30)
    assert "main/partition 2/p0" in first_ack["evidence"]


def test_a_partition_that_is_added_after_a_fault_does_not_delay_its_first_ack(judge):
    measured = judge(Growing().load().fault("earlier", injected=20, effective=20.5))

    assert measured("first_ack_s", "earlier")["value"] == pytest.approx(0.51)
    assert measured("first_ack_s")["value"] == pytest.approx(40.01 - 30)


def test_a_partition_that_is_added_is_silent_from_its_first_due_message_on(judge):
    measured = judge(Growing().load(acked_after=silence(0, 40, 47)))

    gap = measured("longest_ack_gap_s")
    assert gap["value"] == pytest.approx(47 - 40)
    assert "main/partition 2/p0" in gap["evidence"]
    gap = measured("longest_delivery_gap_s")
    assert gap["value"] == pytest.approx(47.005 - 40)
    assert "main/audit/partition 2" in gap["evidence"]


def test_a_partition_that_is_added_and_delivers_nothing_has_a_gap_until_the_load_ends(judge):
    history = Growing().load()
    history.deliveries = [row for row in history.deliveries if row["partition"] != 2]
    gap = judge(history)("longest_delivery_gap_s")

    assert gap["value"] == pytest.approx(LOAD_S - 40)
    assert "main/audit/partition 2" in gap["evidence"]


def test_a_partition_that_acks_nothing_after_a_while_has_a_gap_until_the_load_ends(judge):
    gap = judge(Growing().load(is_acked=lambda where, second: where == 1 or second < 60))("longest_ack_gap_s")

    assert gap["value"] == pytest.approx(LOAD_S - 59.91)
    assert "main/partition 2/p0" in gap["evidence"]


@pytest.mark.parametrize(("silent", "place"), [((35, 38), "partition 0"), ((45, 48), "partition 2")])
def test_a_message_without_an_ack_was_due_in_the_partition_that_its_key_had_then(judge, silent, place):
    first, last = silent
    measured = judge(Growing().load(is_acked=lambda where, second: where == 1 or not first <= second < last))

    for metric in ("rto_s", "unavailable_s", "longest_ack_gap_s"):
        assert f"main/{place}/p0" in measured(metric)["evidence"]
    # Such a message is late until the load ends, and the messages behind it are not.
    assert measured("rto_s")["value"] == pytest.approx(LOAD_S - 30)


def test_a_message_before_the_first_ack_of_its_key_was_due_in_the_first_partition_of_the_key(judge):
    measured = judge(Growing().load(is_acked=lambda where, second: where == 1 or second >= 2))

    assert "main/partition 0/p0" in measured("rto_s")["evidence"]


def be_quiet(history, start, end, *, producers=()):
    steps = ((start, 0), (end, 20))
    steps = tuple(RateStep(at=START + at * SECOND, rate=rate, producers=producers) for at, rate in steps)
    history.leave(LoadRates(steps=steps, at=START))
    return history


@pytest.mark.parametrize(
    ("quiet", "producers", "acks", "deliveries"),
    [
        (None, (), 8.0, 8.0),
        # What is left of the gap lies before the quiet time, or after it.
        ((44, 50), ("main-p0",), 8.0, 8.0),
        ((50, 56), ("main-p0",), 2.0, 8.0),
        ((52, 70), (), 2.1, 2.1),
        ((51, 55), (), 3.0, 3.0),
        ((50, 58), ("another",), 8.0, 8.0),
    ],
)
def test_a_time_in_which_there_was_nothing_to_send_is_no_gap(judge, quiet, producers, acks, deliveries):
    history = Clients().fault("first", injected=49, effective=49).load(acked_after=silence(1, 50, 58))
    for row in (*history.publishes, *history.stored, *history.deliveries):
        row["producer"] = "main-p0"
    if quiet:
        be_quiet(history, *quiet, producers=producers)
    measured = judge(history)
    assert measured("longest_ack_gap_s")["value"] == pytest.approx(acks, abs=0.2)
    assert measured("longest_delivery_gap_s")["value"] == pytest.approx(deliveries, abs=0.2)
