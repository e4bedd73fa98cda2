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


def depose(
    history: History, *, owner: str = "broker-a", after: str = "broker-b", back: float | None = 6, kind: str = "pause"
) -> None:
    wipe(history, "broker-a", 2, back, kind)
    for at, value in ((1, owner), (3, ""), (5, after), (7, "broker-c")):
        row = {"at": START + at * SECOND, "source": "topic:orders", "metric": "owner", "value": value}
        history.observations.append(row)


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


def go_on_elsewhere(history: History, *, late_acked: float = 4, segment: int = 6, between: int | None = None) -> None:
    acked(history, 1, 1, settled_at=START + int(late_acked * SECOND))
    acked(history, 2, 3, segment=segment)
    if between is not None:
        acked(history, 3, 9, segment=between)


def leave_wiped(history: History, *, left: float = 9, node: str = BOOKIES[0], segment: int = 7) -> None:
    copy(history, 1, ["bookie-eu-2-main", "bookie-us-2-main"])
    copy(history, 1, BOOKIES, first_offset=10)
    wipe(history, node, 2, 3)
    # Where the repair puts the copies later says nothing about the segment's end.
    copy(history, 8, ["bookie-eu-2-main", "bookie-us-2-main"], first_offset=10)
    acked(history, 12, 1.5)
    acked(history, 13, left, segment=segment)


def leave_unanswered(history: History, *, outcome: str = "unknown", delivered: int = 1, again: str = "unknown") -> None:
    acked(history, 1, 1, outcome=outcome, segment=None)
    acked(history, 1, 2, outcome=again, segment=None, epoch=1)
    history.deliver(producer="p0", seq=delivered, at=3 * SECOND, segment=5, offset=1)


def send_again(history: History, *, epoch: int = 1, seq: int = 1, sent_at: int | None = START) -> None:
    acked(history, 1, 1)
    acked(history, seq, 2, epoch=epoch, sent_at=sent_at)


@pytest.mark.parametrize(
    ("plant", "state", "times", "example"),
    [
        (change_copies, "copies_changed_in_flight", 1, "5 from offset 10"),
        (go_on_elsewhere, "segment_changed_in_flight", 1, "5 before 6"),
        (depose, "deposed_owner_returned", 1, "broker-a of topic:orders"),
        (write_beside, "two_owners", 1, "5 beside 7"),
        (write_to_wiped, "wiped_copies_written", 1, "p0/2 in 5"),
        (leave_wiped, "wiped_copies_recovered", 1, "5 of bookie-eu-1-main"),
        (leave_unanswered, "unanswered_delivered", 1, "p0/1"),
        (send_again, "sent_again", 1, "p0/1"),
        (fence, "producer_fenced", 1, "p0, process 0"),
        (hand_over, "handed_over_unacknowledged", 1, "p0/1 at audit"),
    ],
)
def test_a_run_that_was_in_a_state_says_how_often(
    tmp_path: Path, plant: Callable[..., None], state: str, times: int, example: str
) -> None:
    history = History()
    plant(history)
    assert measure(history, tmp_path)[state] == (times, example)


@pytest.mark.parametrize(
    ("plant", "state", "values"),
    [
        (change_copies, "copies_changed_in_flight", {"first_offset": 0}),
        (change_copies, "copies_changed_in_flight", {"first_offset": 13}),
        (change_copies, "copies_changed_in_flight", {"outcome": "unknown"}),
        (change_copies, "copies_changed_in_flight", {"segment": 6}),
        (go_on_elsewhere, "segment_changed_in_flight", {"late_acked": 3}),
        (go_on_elsewhere, "segment_changed_in_flight", {"segment": 5}),
        (depose, "deposed_owner_returned", {"owner": "broker-d"}),
        (depose, "deposed_owner_returned", {"after": "broker-a"}),
        (depose, "deposed_owner_returned", {"back": 4}),
        (depose, "deposed_owner_returned", {"back": None}),
        (depose, "deposed_owner_returned", {"kind": "kill"}),
        (depose, "deposed_owner_returned", {"kind": "unload"}),
        (write_beside, "two_owners", {"older_sent": 1.5}),
        (write_beside, "two_owners", {"partition": 1}),
        (write_to_wiped, "wiped_copies_written", {"sent": 7}),
        (write_to_wiped, "wiped_copies_written", {"back": None}),
        (write_to_wiped, "wiped_copies_written", {"second": "bookie-us-2-main"}),
        (write_to_wiped, "wiped_copies_written", {"kind": "kill"}),
        (leave_wiped, "wiped_copies_recovered", {"left": 2.5}),
        (leave_wiped, "wiped_copies_recovered", {"node": "bookie-eu-2-main"}),
        (leave_wiped, "wiped_copies_recovered", {"segment": 5}),
        (leave_unanswered, "unanswered_delivered", {"outcome": "failed", "again": "failed"}),
        (leave_unanswered, "unanswered_delivered", {"again": "acked"}),
        (leave_unanswered, "unanswered_delivered", {"delivered": 2}),
        (send_again, "sent_again", {"epoch": 0}),
        (send_again, "sent_again", {"seq": 2}),
        (send_again, "sent_again", {"sent_at": None}),
        (fence, "producer_fenced", {"error": "Timeout"}),
        (hand_over, "handed_over_unacknowledged", {"consumer": "consumer-0"}),
        (hand_over, "handed_over_unacknowledged", {"seq": None}),
    ],
)
def test_a_run_that_was_nearly_in_a_state_was_not_in_it(
    tmp_path: Path, plant: Callable[..., None], state: str, values: dict[str, Any]
) -> None:
    history = History()
    plant(history, **values)
    assert state not in measure(history, tmp_path)


def test_a_segment_is_compared_only_with_the_one_ahead_of_it(tmp_path: Path) -> None:
    history = History()
    go_on_elsewhere(history, segment=8, between=7)
    assert measure(history, tmp_path)["segment_changed_in_flight"] == (1, "7 before 8")


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


def test_a_state_that_nobody_watched_for_is_not_known(tmp_path: Path) -> None:
    history = History()
    acked(history, 1, 1)
    found = {each.subject: each.estimate for each in measure_states(history.write(tmp_path / "run"))}
    copies, owners = "no list of copies was recorded", "the topic's owner was not sampled"
    assert {state: estimate.evidence for state, estimate in found.items() if estimate.value is None} == {
        "copies_changed_in_flight": copies,
        "deposed_owner_returned": owners,
        "wiped_copies_written": copies,
        "wiped_copies_recovered": copies,
    }
    assert {estimate.value for estimate in found.values()} == {None, 0.0}
