"""How many keys moved to another partition of a topic that got more of them, with the number known.

Of three keys of p0, `old` stays in partition 0, and `k` moves to partition 1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from brokerproof_judging.measurements.measured_values import make_measurements
from brokerproof_judging.measurements.publishing import measure_moved_keys

from ..history import SECOND, History

GROWING = {"partitions": 1, "grows_to": 2}


def plant(**scenario: Any) -> History:
    history = History(workload=scenario.pop("workload", GROWING), **scenario)
    for seq, (key, partition) in enumerate([("old", 0), ("k", 0), ("old", 0), ("k", 1), ("k", 1)]):
        history.publish(producer="p0", seq=seq, key=key, partition=partition, segment=5, offset=seq, at=seq * SECOND)
    return history


def measure(history: History, directory: Path) -> list[tuple[str, str, float | None, str]]:
    run = history.write(directory)
    return [
        (each.metric, each.subject, each.estimate.value, each.estimate.evidence) for each in measure_moved_keys(run)
    ]


def test_a_key_moved_if_messages_of_it_were_acked_in_two_partitions(tmp_path: Path) -> None:
    assert measure(plant(), tmp_path / "run") == [("moved_keys", "run", 1.0, "of 2 keys with an ack")]


@pytest.mark.parametrize(
    "values",
    [
        {"partition": None, "outcome": "unknown"},
        {"partition": 1, "producer": "p1"},
        {"partition": 1, "cluster": "other"},
        {"partition": 1, "topic": "other"},
    ],
    ids=["no ack", "another producer", "another cluster", "another topic"],
)
def test_a_message_elsewhere_moves_no_key(tmp_path: Path, values: dict[str, Any]) -> None:
    history = plant()
    history.publish(**{"producer": "p0", "seq": 9, "key": "old", "at": 9 * SECOND, "segment": 5, "offset": 9, **values})
    ((*_, moved, _),) = measure(history, tmp_path / "run")
    assert moved == 1


def test_without_an_ack_no_key_moved(tmp_path: Path) -> None:
    assert measure(History(workload=GROWING), tmp_path / "run") == [("moved_keys", "run", 0.0, "of 0 keys with an ack")]


def test_nothing_is_measured_of_a_topic_that_keeps_its_partitions(tmp_path: Path) -> None:
    assert measure(plant(workload={"partitions": 2}), tmp_path / "run") == []


@pytest.mark.parametrize(
    ("bound", "result"), [({"min": 1}, "held"), ({"min": 2}, "undecided"), ({"max": 0}, "unexpected")]
)
def test_a_run_in_which_too_few_keys_moved_shows_nothing(tmp_path: Path, bound: dict[str, int], result: str) -> None:
    # The library of expectations can be imported only after Spark.
    from brokerproof_judging.suites.measurement_expectation import find_bound_result

    run = plant(bounds={"moved_keys": bound}).write(tmp_path / "run")
    (row,) = make_measurements(run, list(measure_moved_keys(run)))
    found = find_bound_result(row.model_dump(mode="json"), minimum=None, maximum=None, required=False)
    assert str(found) == result
