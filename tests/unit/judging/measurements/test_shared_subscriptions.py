"""How consumers shared a subscription, with the values known: redeliveries, overtaking, and the busiest consumer.

The load is steady from 0 s, and its phases last from 0 to 10, 50 and 60 s. `first` is injected at 20 s.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from brokerproof.run.records import PhaseTimes
from brokerproof_judging.measurements.measured_values import MeasuredValue
from brokerproof_judging.measurements.run_times import NEVER_STEADY, read_run_times
from brokerproof_judging.measurements.shared_subscriptions import measure_sharing

from ..history import MILLISECOND, SECOND, START, History

SUBSCRIPTIONS = [
    {"name": "keyed", "type": "key_shared", "consumers": 2},
    {"name": "other", "type": "key_shared"},
    {"name": "shared", "type": "shared"},
]
Measure = Callable[[History], dict[tuple[str, str], MeasuredValue]]


class Shared(History):
    """Deliveries of one key of p0 to the subscription `keyed`, at times in seconds."""

    def __init__(self, *, steady: bool = True, **scenario: Any) -> None:
        faults = [
            {"name": name, "kind": "kill", "targets": {"nodes": ["broker-eu-1-main"]}} for name in ("first", "never")
        ]
        super().__init__(subscriptions=scenario.pop("subscriptions", SUBSCRIPTIONS), faults=faults, **scenario)
        if steady:
            times = {"steady_at": 0, "impact_at": 10, "recovery_at": 50, "ends_at": 60}
            self.leave(PhaseTimes(**{name: START + second * SECOND for name, second in times.items()}))
        for state, second in (("injecting", 20), ("effective", 21)):
            row = {"fault": "first", "kind": "kill", "targets": ["broker-eu-1-main"], "state": state}
            self.faults.append({**row, "at": START + second * SECOND})

    def give(self, *seqs: int, at: float, **values: Any) -> Shared:
        """Deliver messages one millisecond after the other."""
        for number, seq in enumerate(seqs):
            moment = int(at * SECOND) + number * MILLISECOND
            place = {"producer": "p0", "seq": seq, "key": "k", "subscription": "keyed", "offset": seq}
            self.deliver(**{**place, **values}, at=moment)
        return self


@pytest.fixture
def measure(tmp_path: Path) -> Measure:
    def measure(history: History) -> dict[tuple[str, str], MeasuredValue]:
        run = history.write(tmp_path / "run")
        return {(each.metric, each.subject): each for each in measure_sharing(run, read_run_times(run))}

    return measure


def read(found: dict[tuple[str, str], MeasuredValue], metric: str, subject: str = "keyed") -> tuple[float | None, str]:
    estimate = found[metric, subject].estimate
    return estimate.value, estimate.evidence


def test_a_message_is_redelivered_if_it_came_again_or_the_system_says_so(measure: Measure) -> None:
    # 1 came again, 2 came once with a count, and 3 came again with a count.
    history = Shared().give(0, 1, 2, 3, at=1).give(1, at=2).give(3, at=3, redelivery_count=1)
    history.deliveries[2]["redelivery_count"] = 1
    # A message of another subscription, one without an identity, and one that is stored at two positions.
    history.give(7, at=4, subscription="shared")
    history.give(0, at=4, offset=100)
    for producer, seq in ((None, None), ("p0", None), (None, 1)):
        for _ in range(2):
            history.deliver(producer=producer, seq=seq, subscription="keyed", offset=200, at=5 * SECOND)
    # A cluster in which the subscription has no consumers.
    history.give(8, 8, at=6, cluster="other")
    found = measure(history)
    why = "of 4 messages; 2 came again from one position, and the system had delivered 2 before"
    assert read(found, "redelivered_messages") == (3, why)
    why = "of 1 messages; 0 came again from one position, and the system had delivered 0 before"
    assert read(found, "redelivered_messages", "shared") == (0, why)


def test_a_message_counts_once_however_often_it_is_redelivered(measure: Measure) -> None:
    history = Shared().give(0, at=1).give(0, at=2).give(0, at=3, redelivery_count=2)
    assert read(measure(history), "redelivered_messages")[0] == 1


@pytest.mark.parametrize("values", [{"offset": 1}, {"offset": 1, "redelivery_count": 1}])
def test_a_message_of_two_positions_is_redelivered_if_it_came_again_from_one(
    measure: Measure, values: dict[str, Any]
) -> None:
    history = Shared().give(0, at=1).give(*([0] if "redelivery_count" in values else [0, 0]), at=2, **values)
    assert read(measure(history), "redelivered_messages")[0] == 1


def test_messages_of_two_producers_with_one_number_are_two(measure: Measure) -> None:
    history = Shared().give(0, at=1).give(0, at=2, producer="p1", offset=1)
    why = "of 2 messages; 0 came again from one position, and the system had delivered 0 before"
    assert read(measure(history), "redelivered_messages") == (0, why)


def test_a_subscription_that_moved_counts_a_message_in_each_cluster(measure: Measure) -> None:
    moves = {"to": "other", "after": "first", "after_s": 1}
    keyed = {"name": "keyed", "type": "key_shared", "cluster": "main", "moves": moves}
    history = Shared(clusters=("main", "other"), subscriptions=[keyed])
    # The positions of two clusters have nothing to do with each other, and neither have their orders.
    history.give(0, 2, at=1).give(0, 1, at=4, cluster="other")
    found = measure(history)
    why = "of 4 messages; 0 came again from one position, and the system had delivered 0 before"
    assert read(found, "redelivered_messages") == (0, why)
    assert read(found, "overtaken_messages") == (0, "of 4 messages")


def test_a_message_is_overtaken_by_a_later_one_of_its_key_that_came_last_before_it(measure: Measure) -> None:
    # 0 and 1 come again behind 2, which came last at 1.002 s; 3 comes later than all.
    history = Shared().give(0, 1, 2, at=1).give(0, at=4).give(1, at=6).give(3, at=9)
    # Messages without an identity overtake none.
    for producer, seq in ((None, None), ("p0", None), (None, 9)):
        history.deliver(producer=producer, seq=seq, key="k", subscription="keyed", offset=200, at=SECOND // 2)
    found = measure(history)
    assert read(found, "overtaken_messages") == (2, "of 4 messages")
    assert read(found, "longest_overtaking_s") == (pytest.approx(6 - 1.002), "of 4 messages")


def test_messages_that_all_come_again_in_order_are_not_overtaken(measure: Measure) -> None:
    found = measure(Shared().give(0, 1, 2, at=1).give(0, 1, 2, at=4))
    assert read(found, "overtaken_messages") == (0, "of 3 messages")
    assert read(found, "longest_overtaking_s") == (0, "of 3 messages")


@pytest.mark.parametrize(
    "other",
    [{"key": "other"}, {"producer": "p1"}, {"topic": "other"}, {"subscription": "other"}, {"cluster": "other"}],
)
def test_only_messages_of_the_same_key_overtake_each_other(measure: Measure, other: dict[str, Any]) -> None:
    found = measure(Shared().give(1, at=1, **other).give(0, at=4))
    assert read(found, "overtaken_messages")[0] == 0


@pytest.mark.parametrize(("second", "overtaken"), [(4, 1), (0.5, 0)])
def test_a_message_is_overtaken_by_a_later_one_of_its_key_from_another_partition(
    measure: Measure, second: float, overtaken: int
) -> None:
    # The key moved from partition 0, in which message 0 is, to partition 4.
    found = measure(Shared().give(1, at=1, partition=4).give(0, at=second, partition=0))
    assert read(found, "overtaken_messages") == (overtaken, "of 2 messages")
    assert read(found, "longest_overtaking_s")[0] == pytest.approx(max(0, second - 1) if overtaken else 0)


@pytest.mark.parametrize(("clock_error_us", "overtaken"), [(500_000, 0), (499_999, 1)])
def test_a_message_is_not_overtaken_within_the_clocks_error(
    measure: Measure, clock_error_us: int, overtaken: int
) -> None:
    history = Shared().give(1, at=1).give(0, at=1.5)
    history.facts["clock_error_us"] = clock_error_us
    found = measure(history)
    assert read(found, "overtaken_messages")[0] == overtaken
    assert read(found, "longest_overtaking_s")[0] == overtaken * 0.5


def test_order_is_not_measured_of_a_subscription_that_promises_none(measure: Measure) -> None:
    found = measure(Shared().give(1, 0, at=1, subscription="shared"))
    assert not {"overtaken_messages", "longest_overtaking_s"} & {metric for metric, name in found if name == "shared"}


@pytest.mark.parametrize("bound", ["overtaken_messages", "longest_overtaking_s/keyed"])
@pytest.mark.parametrize("kind", ["exclusive", "failover"])
def test_order_is_measured_of_each_subscription_that_promises_it_if_the_scenario_bounds_it(
    measure: Measure, bound: str, kind: str
) -> None:
    subscriptions = [{"name": "keyed", "type": kind}, {"name": "shared", "type": "shared"}]
    history = Shared(subscriptions=subscriptions, bounds={bound: {"max": 5}})
    history.give(1, at=1, partition=4).give(0, at=4, partition=0).give(1, 0, at=5, subscription="shared")
    found = measure(history)
    assert read(found, "overtaken_messages") == (1, "of 2 messages")
    assert read(found, "longest_overtaking_s") == (3, "of 2 messages")
    of_keyed = {metric for metric, name in found if name.startswith("keyed")}
    assert of_keyed == {"overtaken_messages", "longest_overtaking_s"}
    assert not of_keyed & {metric for metric, name in found if name.startswith("shared")}


def test_order_is_not_measured_of_an_exclusive_subscription_if_other_metrics_have_bounds(measure: Measure) -> None:
    history = Shared(subscriptions=[{"name": "keyed"}], bounds={"redelivered_messages": {"max": 5}})
    assert measure(history.give(1, 0, at=1)) == {}


def test_the_busiest_consumer_has_the_largest_share(measure: Measure) -> None:
    history = Shared().give(0, 1, 2, at=1).give(3, at=2, consumer="consumer-1")
    history.give(4, at=15).give(5, 6, at=20, consumer="consumer-1", incarnation=1).give(7, at=59.9).give(8, at=60)
    found = measure(history)
    why = "consumer-0 received 3 of 4 deliveries to 2 consumers"
    assert read(found, "largest_consumer_share", "keyed/steady") == (0.75, why)
    why = "consumer-1 received 2 of 3 deliveries to 2 consumers"
    assert read(found, "largest_consumer_share", "keyed/impact") == (pytest.approx(2 / 3), why)
    assert read(found, "largest_consumer_share", "keyed/first") == (pytest.approx(2 / 3), why)
    assert read(found, "largest_consumer_share", "keyed/recovery")[0] == 1


def test_a_share_without_deliveries_is_not_known(measure: Measure) -> None:
    found = measure(Shared().give(0, at=1))
    assert read(found, "largest_consumer_share", "keyed/steady")[0] == 1
    assert read(found, "largest_consumer_share", "keyed/first") == (None, "no message was delivered in this time")
    assert read(found, "largest_consumer_share", "keyed/never") == (None, "the fault never became effective")
    assert read(found, "largest_consumer_share", "shared/steady")[0] is None
    assert read(found, "redelivered_messages", "shared") == (0, "the subscription got no message")


def test_no_share_is_known_if_the_load_never_became_steady(measure: Measure) -> None:
    found = measure(Shared(steady=False).give(0, at=1))
    assert read(found, "largest_consumer_share", "keyed/steady") == (None, NEVER_STEADY)


def test_nothing_is_measured_of_a_subscription_that_shares_nothing(measure: Measure) -> None:
    assert measure(Shared(subscriptions=[{"name": "keyed", "consumers": 2}]).give(0, 0, at=1)) == {}
