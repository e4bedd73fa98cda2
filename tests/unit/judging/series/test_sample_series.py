"""The series of samples: levels, counters, lists of names, owners."""

from __future__ import annotations

from brokerproof.run.series import OwnerChange
from brokerproof_judging.series.message_series import TimeSteps, make_time_steps
from brokerproof_judging.series.run_series import make_sample_series

from ..history import SECOND, START, History

STEPS = TimeSteps(start_us=START, step_s=1, count=5)


def sample(history, second, source, metric, value):
    history.observations.append(
        {"at": START + int(second * SECOND), "source": source, "metric": metric, "value": value}
    )


def read(history, tmp_path, steps=STEPS):
    return make_sample_series(history.write(tmp_path / "run"), steps)


def test_a_level_is_the_last_sample_of_its_step_and_unknown_where_nobody_answered(tmp_path):
    history = History()
    for second, value in ((0.1, "5"), (0.9, "7"), (2.0, "0"), (4.5, "3")):
        sample(history, second, "topic:t", "backlog:audit", value)
    (series,), owners = read(history, tmp_path)
    assert (series.source, series.metric) == ("topic:t", "backlog:audit")
    assert series.values == (7.0, None, 0.0, None, 3.0)
    assert owners == ()


def test_a_counter_is_what_was_added_per_second_and_never_negative_after_a_restart(tmp_path):
    history = History()
    for second, value in ((0.5, "1000"), (1.5, "3000"), (2.5, "100"), (4.5, "900")):
        sample(history, second, "node:bookie-1", "bytes_written", value)
    (series,), _ = read(history, tmp_path)
    # It began anew with 100; in the step without a sample it may have done so again.
    assert series.values == (None, 2000.0, 100.0, None, None)


def test_a_list_of_names_is_how_many_they_are(tmp_path):
    history = History()
    sample(history, 1, "cluster:main", "alive:broker", '["b1", "b2"]')
    (series,), _ = read(history, tmp_path)
    assert series.values == (None, 2.0, None, None, None)


def test_owners_are_told_when_they_change_nobody_among_them(tmp_path):
    history = History()
    for second, owner in ((0, "b1"), (1, "b1"), (2, ""), (3, "b2"), (4, "b2")):
        sample(history, second, "topic:t", "owner", owner)
    _, owners = read(history, tmp_path)
    assert owners == tuple(
        OwnerChange(topic="t", at=START + second * SECOND, owner=owner)
        for second, owner in ((0, "b1"), (2, ""), (3, "b2"))
    )


def test_no_answer_is_no_owner_and_not_the_last_one_and_each_partition_has_its_own(tmp_path):
    history = History()
    for second, metric, owner in (
        (0, "owner:0", "b1"),
        (1, "owner:1", "b2"),
        (2, "owner:0", None),
        (3, "owner:1", "b2"),
    ):
        sample(history, second, "topic:t", metric, owner)
    _, owners = read(history, tmp_path)
    assert [(one.topic, (one.at - START) / SECOND, one.owner) for one in owners] == [
        ("t-partition-0", 0, "b1"), ("t-partition-0", 2, None), ("t-partition-1", 1, "b2"),
    ]  # fmt: skip


def test_a_long_run_has_longer_steps_and_all_of_them_cover_it():
    steps = make_time_steps(START + 5, START + 3 * 3600 * SECOND)
    assert steps.start_us == START
    assert steps.step_s == 10
    assert steps.count == 1080
    end_us = START + 3 * 3600 * SECOND
    assert steps.find(START - 1) is None
    assert steps.find(end_us) is None
    assert steps.find(end_us - 1) == 1079
