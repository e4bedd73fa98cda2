"""What the queries that compare messages find in given rows, such as the rows of one bucket of a long run."""

from __future__ import annotations

import pyarrow as pa
import pytest
from brokerproof.experiment.guarantees import Anomaly
from brokerproof_judging.database import define_values, load_table, open_database, register_tables, select_rows
from brokerproof_judging.messages.comparisons import COMPARISONS
from brokerproof_judging.messages.message_columns import define_macros, read_query
from brokerproof_judging.messages.message_facts import find_anomaly

from ..history import SECOND

PLACE = {"cluster": "main", "topic": "t", "partition": 0, "segment": 5, "offset": 10, "batch_index": -1}
LOGS = [{"cluster": "other"}, {"topic": "u"}, {"partition": 1}]


def find(anomaly, rows, clock_error_us=0):
    """Return the findings of an anomaly's query in `rows`."""
    schema = COMPARISONS[anomaly].schema
    with open_database() as connection:
        define_macros(connection)
        define_values(connection, {"clock_error_us": clock_error_us})
        load_table(connection, "rows", iter(pa.Table.from_pylist(rows, schema=schema).to_batches()), schema)
        return [row for batch in find_anomaly(connection, anomaly) for row in batch.to_pylist()]


def find_conflicts(rows):
    found = find(Anomaly.POSITION_CONFLICT, rows)
    return {(row["who"], row["number"], row["subscription"], row["detail"].rpartition(" ")[2]) for row in found}


@pytest.mark.parametrize(
    ("column", "second", "third"),
    [
        ("cluster", "other", "third"),
        ("topic", "u", "v"),
        ("partition", 1, 2),
        ("segment", 6, 7),
        ("offset", 11, 12),
        ("batch_index", 0, 1),
    ],
)
def test_only_messages_at_one_position_conflict(column, second, third):
    log, delivered = {**PLACE, "subscription": ""}, {**PLACE, "subscription": "audit", column: second}
    rows = [
        {**log, "who": "p0", "number": 5},
        # The log shows its conflict.
        {**log, "who": "p0", "number": 5, "subscription": "audit"},
        {**log, "who": "p1", "number": 5},
        {**delivered, "who": "p0", "number": 4},
        {**delivered, "who": "p0", "number": 5},
        {**log, column: third, "who": "p2", "number": 6},
    ]

    assert find_conflicts(rows) == {
        ("p0", 5, "", "p1/5"),
        ("p1", 5, "", "p0/5"),
        ("p0", 4, "audit", "p0/5"),
        ("p0", 5, "audit", "p0/4"),
    }


def test_only_an_ack_names_a_position():
    publish = {**PLACE, "who": "p0", "number": 5, "outcome": "acked"}
    with open_database() as connection:
        publishes = [publish, {**publish, "number": 6, "outcome": "unknown"}]
        elsewhere = pa.Table.from_pylist([{**publish, "subscription": "audit"}])
        register_tables(
            connection,
            {
                "publishes": pa.Table.from_pylist(publishes),
                "stored": elsewhere.slice(1),
                "delivered_elsewhere": elsewhere.slice(1),
            },
        )
        assert [row["number"] for row in select_rows(connection, read_query("rows/position_conflict"))] == [5]


def find_regressed(*acks):
    """Return the numbers of the messages that are found by the second, as in a run of many parts of two messages each.

    An ack is the second of sending, the second of settling and the offset. It may have other values of columns.
    """
    publishes = [
        {
            **{**PLACE, "who": "p0", "number": number, "outcome": "acked", "offset": offset},
            **{"sent_at": round(sent * SECOND), "settled_at": round(settled * SECOND)},
            **(changes[0] if changes else {}),
        }
        for number, (sent, settled, offset, *changes) in enumerate(acks)
    ]
    with open_database() as connection:
        define_macros(connection)
        define_values(connection, {"clock_error_us": 0, "second_us": SECOND})
        register_tables(connection, {"publishes": pa.Table.from_pylist(publishes)})
        connection.execute(f"CREATE TABLE all_rows AS {read_query('rows/position_regressed')}")
        connection.execute("CREATE VIEW rows AS FROM all_rows WHERE number // 2 = getvariable('part')")
        for part in range(-(-len(acks) // 2)):
            connection.execute("SET VARIABLE part = ?", [part])
            create = "INSERT INTO" if part else "CREATE TABLE"
            connection.execute(f"{create} highest {'' if part else 'AS'} {read_query('highest_position_by_second')}")
        connection.execute("DROP VIEW rows; ALTER TABLE all_rows RENAME TO rows")
        connection.execute(f"INSERT INTO rows BY NAME {read_query('highest_position_before_second')}")
        return {
            number
            for batch in find_anomaly(connection, "position_regressed")
            for number in batch.column("number").to_pylist()
        }


def test_a_position_regresses_behind_an_ack_of_the_second_before():
    assert find_regressed((0.1, 0.2, 20), (1.1, 1.2, 3)) == {1}


def test_a_position_regresses_behind_the_highest_ack_of_any_part():
    assert find_regressed((0.1, 0.2, 20), (0.1, 0.2, 2), (0.1, 0.2, 1), (1.1, 1.2, 3)) == {3}


def test_an_attempt_that_was_settled_at_once_is_compared():
    assert find_regressed((0.1, 0.2, 20), (1.1, 1.1, 3)) == {1}


@pytest.mark.parametrize(("first", "second"), [("acked", "unknown"), ("unknown", "acked")])
def test_the_position_of_an_attempt_that_was_not_acked_does_not_count(first, second):
    assert find_regressed((0.1, 0.2, 20, {"outcome": first}), (1.1, 1.2, 3, {"outcome": second})) == set()


def test_a_position_regresses_behind_the_highest_ack_of_all_seconds_before():
    assert find_regressed((0.1, 0.2, 20), (0.1, 1.2, 3), (2.1, 2.2, 4)) == {2}


def test_a_position_does_not_regress_behind_an_ack_that_was_settled_later_in_its_second():
    assert find_regressed((0.1, 1.5, 20), (1.1, 1.2, 3), (2.1, 2.2, 21)) == set()


@pytest.mark.parametrize("log", LOGS)
def test_a_position_does_not_regress_behind_an_ack_of_another_log(log):
    assert find_regressed((0.1, 0.2, 20, log), (0.3, 0.4, 2), (1.1, 1.2, 3), (1.1, 1.2, 21, log)) == set()


@pytest.mark.parametrize("log", LOGS)
def test_a_position_does_not_regress_behind_an_ack_of_another_log_in_its_second(log):
    assert find_regressed((0.1, 0.2, 20, log), (0.3, 0.4, 2)) == set()


MESSAGE = {"cluster": "main", "topic": "t", "subscription": "audit", "partition": 0, "who": "p0", "key": "k"}
OTHERS = [*({name: f"another {name}"} for name in MESSAGE if name != "partition"), {"partition": 1}, {"key": None}]


def received(number, rank, moment, arrival=None, consumer="c0", incarnation=0, **changes):
    """A message that is stored at a rank and received at a moment. By default, moments tell the order of arrival."""
    return {
        **MESSAGE,
        **{"number": number, "segment": 5, "offset": rank, "batch_index": -1, "moment": moment},
        **{"consumer": consumer, "incarnation": incarnation, "arrival": moment if arrival is None else arrival},
        **changes,
    }


def find_late(*rows, clock_error_us=0):
    """Return the numbers of the messages that are delivered out of order."""
    return {row["number"] for row in find(Anomaly.DELIVERED_OUT_OF_ORDER, rows, clock_error_us)}


# Both are received before message 10, which needs the search: one has a higher seq and the other a higher position.
HIGHER_SEQ, HIGHER_POSITION = received(11, 5, 1), received(9, 11, 2)


@pytest.mark.parametrize("consumer", ["c0", "c1"])
def test_a_message_is_late_after_one_of_its_key_and_log(consumer):
    before = [received(2, 2, 100, consumer=consumer), received(0, 0, 150, consumer=consumer)]
    assert find_late(*before, received(1, 1, 200)) == {0, 1}


@pytest.mark.parametrize("consumer", ["c0", "c1"])
@pytest.mark.parametrize("other", OTHERS)
def test_a_message_is_not_late_after_one_of_another_key_or_log(consumer, other):
    assert find_late(received(2, 2, 100, consumer=consumer, **other), received(1, 1, 200)) == set()


def test_a_message_is_late_only_after_one_with_a_higher_seq_and_a_higher_position():
    assert find_late(HIGHER_SEQ, HIGHER_POSITION, received(10, 10, 200)) == set()
    assert 10 in find_late(HIGHER_SEQ, HIGHER_POSITION, received(12, 12, 3), received(10, 10, 200))


def test_a_message_that_is_stored_and_received_after_one_with_a_lower_seq_is_not_late():
    assert find_late(received(1, 2, 100), received(2, 1, 200)) == set()


@pytest.mark.parametrize("step", [1, -1])
def test_a_message_at_the_same_position_is_not_stored_behind(step):
    rows = [received(1, 5, 200), received(2, 5, 1), received(0, 6, 2)]
    assert find_late(*rows[::step]) == set()


@pytest.mark.parametrize("other", OTHERS)
def test_the_search_leaves_out_other_keys_and_logs(other):
    assert find_late(HIGHER_SEQ, HIGHER_POSITION, received(12, 12, 3, **other), received(10, 10, 200)) == set()


@pytest.mark.parametrize("others", [(), (HIGHER_SEQ, HIGHER_POSITION)])
@pytest.mark.parametrize(("moment", "late"), [(200 - 51, True), (200 - 50, False)])
def test_deliveries_to_two_consumers_are_ordered_beyond_the_clocks_error(others, moment, late):
    rows = [*others, received(12, 12, moment, consumer="c1"), received(10, 10, 200)]
    assert (10 in find_late(*rows, clock_error_us=50)) is late


@pytest.mark.parametrize("others", [(), (HIGHER_SEQ, HIGHER_POSITION)])
@pytest.mark.parametrize("other", [{"incarnation": 1}, {"consumer": "c1"}])
def test_arrivals_at_two_consumers_or_incarnations_are_not_compared(others, other):
    assert find_late(*others, received(12, 12, 300, arrival=3, **other), received(10, 10, 200, arrival=4)) == set()


def test_a_clock_that_was_set_back_does_not_order_deliveries_to_one_incarnation():
    rows = [received(0, 0, 10, arrival=0), received(1, 1, 100, arrival=1), received(2, 2, 50, arrival=2)]
    assert find_late(*rows) == set()
