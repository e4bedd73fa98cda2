"""Interruptions, gaps and first acks of a planted run, each beside the nearest run that has none.

A producer publishes ten messages a second to each of two partitions, acked after 10 ms and delivered 5 ms later. The
load is steady from 0 s and ends at 100 s.
"""

from __future__ import annotations

import pytest
from brokerproof.run.records import PhaseTimes

from ..history import MILLISECOND, SECOND, START, History
from ..judged import Judged

PARTITIONS = (0, 1)
LOAD_S = 100


class Clients(History):
    """Two partitions of a producer each; `delays` and `unacked` say what a message's ack does."""

    def __init__(self, **scenario):
        names = scenario.pop("names", ("first",))
        faults = [{"name": name, "kind": "kill", "targets": {"nodes": ["broker-eu-1-main"]}} for name in names]
        super().__init__(workload={"rate": 20, "partitions": 2}, faults=faults, **scenario)
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
                    self.publish(**name, at=at, partition=None, entry_id=None, outcome=outcome, **times)
                    continue
                after = acked_after(partition, second) if acked_after else 0.01
                acked = at + round(after * SECOND)
                place = {**name, "partition": partition, "entry_id": self.next_entry(partition=partition)}
                self.publish(**place, at=at, settled_at=START + acked, ledger_id=5)
                self.store(**place)
                later = delivered_after(partition, second) if delivered_after else 0.005
                self.deliver(**place, at=acked + round(later * SECOND))
        return self


def silence(partition, start, end):
    """The delay of acks if a partition acks nothing from one moment to another."""
    return lambda where, second: end - second if where == partition and start <= second < end else 0.01


@pytest.fixture
def judge(spark, tmp_path):
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

    reading = judge(history)("first_ack_s")

    assert reading["value"] == pytest.approx(10)
    assert "main/partition 1/p0" in reading["evidence"]


def test_messages_that_are_nearly_late_interrupt_nobody(judge):
    measured = judge(Clients().load(acked_after=silence(1, 30, 30.9)).fault("first", injected=29.5, effective=30))

    assert (measured("rto_s")["value"], measured("unavailable_s")["value"]) == (0, 0)
    assert "no message was more than 1 s late" in measured("rto_s")["evidence"]
    assert "resolution: 1 ms" in measured("rto_s")["evidence"]


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
def test_a_message_that_was_never_acked_is_late_until_the_end(judge, outcome):
    history = Clients().load(is_acked=lambda where, second: (where, second) != (1, 40.0), outcome=outcome)
    measured = judge(history.fault("first", injected=39, effective=39.5))

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


def test_a_partition_whose_messages_another_one_held_back_is_away_as_long(judge):
    """No message of partition 1 is without an answer, so only those that were not sent show that it was away."""
    history = Clients().load(is_acked=lambda where, second: second < 40, outcome="not_sent")
    for row in history.publishes:
        if row["outcome"] == "not_sent" and row["key"] == "k0" and row["seq"] < 900:
            row.update(outcome="unknown", sent_at=row["scheduled_at"])
    measured = judge(history.fault("first", injected=39, effective=40))

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


def test_a_producer_that_never_got_an_ack_is_named_beside_one_that_goes_on(judge):
    history = Clients(bounds={"first_ack_s": {"max": 50}}).load()
    for seq in range(10):
        at = (40 + seq) * SECOND
        history.publish(producer="p1", seq=seq, at=at, partition=None, entry_id=None, outcome="unknown")
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


@pytest.mark.parametrize(("second", "rto"), [(30.004, None), (35, 0.0)])
def test_no_message_can_be_late_between_two_faults_that_are_less_than_that_apart(judge, second, rto):
    history = Clients(names=("first", "second"), bounds={"rto_s/first": {"max": 5}}).load(
        acked_after=lambda where, at: 70 - at if 36 <= at < 70 else 0.01
    )
    history.fault("first", injected=30, effective=30.001).fault("second", injected=second, effective=second + 0.1)
    row = judge(history)("rto_s")
    assert row["value"] == rto
    assert row["cut_off_by"] == (None if rto is not None else "second")


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
