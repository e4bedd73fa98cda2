"""How often a planted run was in each state that is worth reaching, beside the nearest run that never was in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from brokerproof.experiment.states import STATES
from brokerproof_judging.measurements.measured_values import make_measurements
from brokerproof_judging.measurements.reached_states import measure_states

from ..history import SECOND, START, History

BOOKIES = ["bookie-eu-1-main", "bookie-us-1-main"]


def measure(history: History, directory: Path) -> dict[str, tuple[float | None, str]]:
    found = {each.subject: each.estimate for each in measure_states(history.write(directory / "run"))}
    assert list(found) == list(STATES)
    return {state: (estimate.value, estimate.evidence) for state, estimate in found.items() if estimate.value}


def copy(history: History, at: float, holders: list[str], *, segment: int = 5, first_offset: int = 0) -> None:
    history.copies.append(
        {
            **{"cluster": "main", "topic": history.topic, "partition": -1, "at": START + int(at * SECOND)},
            **{"moment": "end", "segment": segment, "first_offset": first_offset, "state": "OPEN"},
            **{"holders": holders, "regions": [], "regions_required": []},
        }
    )


def acked(history: History, seq: int, at: float, **values: Any) -> None:
    history.publish(producer="p0", seq=seq, at=int(at * SECOND), **{"segment": 5, "offset": seq, **values})


def wipe(history: History, node: str, effective: float, back: float | None, kind: str = "destroy") -> None:
    times = {"injecting": effective - 0.1, "effective": effective, "recovered": back}
    for state, at in times.items():
        if at is not None:
            row = {"fault": f"{node} {effective}", "kind": kind, "targets": [node], "state": state}
            history.faults.append({**row, "at": START + int(at * SECOND)})


def change_copies(history: History, *, first_offset: int = 10, outcome: str = "acked", segment: int = 5) -> None:
    copy(history, 1, BOOKIES)
    copy(history, 1, BOOKIES[::-1], first_offset=first_offset)
    acked(history, 3, 1)
    acked(history, 12, 2, outcome=outcome, segment=segment)


def hand_over(history: History, *, consumer: str = "consumer-1", seq: int | None = 1) -> None:
    for name in ("consumer-0", consumer):
        history.deliver(producer="p0", seq=seq, at=SECOND, consumer=name, segment=5, offset=1)


def fence(history: History, *, error: str = "ProducerFenced") -> None:
    acked(history, 1, 1)
    acked(history, 2, 2, outcome="failed", error=error)
    acked(history, 3, 2, outcome="failed", error=error)


def write_beside(history: History, *, older_sent: float = 3, partition: int = -1) -> None:
    acked(history, 1, 1, segment=5)
    acked(history, 2, 2, segment=7)
    acked(history, 3, older_sent, segment=5, partition=partition)


def write_to_wiped(
    history: History, *, sent: float = 9, back: float | None = 8, second: str = BOOKIES[1], kind: str = "destroy"
) -> None:
    copy(history, 1, BOOKIES)
    wipe(history, BOOKIES[0], 2, 3)
    wipe(history, second, 5, back, kind)
    # A later look at the segment changes nothing.
    copy(history, 10, BOOKIES)
    acked(history, 1, 1.5)
    acked(history, 2, sent)


@pytest.mark.parametrize(
    ("plant", "state", "times", "example"),
    [
        (change_copies, "copies_changed_in_flight", 1, "5 from offset 10"),
        (hand_over, "handed_over_unacknowledged", 1, "p0/1 at audit"),
        (fence, "producer_fenced", 1, "p0, process 0"),
        (write_beside, "two_owners", 1, "5 beside 7"),
        (write_to_wiped, "wiped_copies_written", 1, "p0/2 in 5"),
    ],
)
def test_a_run_that_was_in_a_state_says_how_often(
    tmp_path: Path, plant: Callable[..., None], state: str, times: int, example: str
) -> None:
    history = History()
    plant(history)
    assert measure(history, tmp_path)[state] == (times, example)


@pytest.mark.parametrize(
    ("plant", "values"),
    [
        (change_copies, {"first_offset": 0}),
        (change_copies, {"first_offset": 13}),
        (change_copies, {"outcome": "unknown"}),
        (change_copies, {"segment": 6}),
        (hand_over, {"consumer": "consumer-0"}),
        (hand_over, {"seq": None}),
        (fence, {"error": "Timeout"}),
        (write_beside, {"older_sent": 1.5}),
        (write_beside, {"partition": 1}),
        (write_to_wiped, {"sent": 7}),
        (write_to_wiped, {"back": None}),
        (write_to_wiped, {"second": "bookie-us-2-main"}),
        (write_to_wiped, {"kind": "kill"}),
    ],
)
def test_a_run_that_was_nearly_in_a_state_was_in_none(
    tmp_path: Path, plant: Callable[..., None], values: dict[str, Any]
) -> None:
    history = History()
    plant(history, **values)
    assert measure(history, tmp_path) == {}


def test_a_run_without_tables_was_in_no_state(tmp_path: Path) -> None:
    assert measure(History(), tmp_path) == {}


@pytest.mark.parametrize(("sent", "result"), [(9, "held"), (7, "undecided")])
def test_a_run_that_never_was_in_the_state_that_it_is_about_shows_nothing(
    tmp_path: Path, sent: float, result: str
) -> None:
    # The library of expectations can be imported only after Spark.
    from brokerproof_judging.suites.measurement_expectation import find_bound_result

    history = History(bounds={"reached/wiped_copies_written": {"min": 1}})
    write_to_wiped(history, sent=sent)
    run = history.write(tmp_path / "run")
    rows = {row.subject: row for row in make_measurements(run, list(measure_states(run)))}
    found = find_bound_result(
        rows["wiped_copies_written"].model_dump(mode="json"), minimum=None, maximum=None, required=False
    )
    assert str(found) == result
