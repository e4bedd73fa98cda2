"""Which processes of a client a fault ended, and when the client was away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from brokerproof.errors import RunError
from brokerproof.run.directory import Run
from brokerproof.run.records import ClientEpoch, ClientEpochs, ClientState, write_record
from brokerproof_judging.client_lives import intersect, list_absences, list_epochs_ended_by_faults
from brokerproof_judging.measurements.standstills import read_standstills
from builders import make_run

OVER = 100


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return make_run(tmp_path / "run", "sync_nominal", {"workload.subscriptions": [{"name": "audit", "consumers": 2}]})


def live(run: Run, client: str, *epochs: dict[str, Any]) -> None:
    """Leave the record of a client's processes, each with the times of its begin, connection and end."""
    lives = tuple(ClientEpoch(epoch=number, **{"started_at": 0, **each}) for number, each in enumerate(epochs))
    rest = {"followed": 0, "state": ClientState.RUNNING, "evidence": "", "over": True, "at": OVER}
    write_record(run, ClientEpochs(client=client, epochs=lives, **rest))


def test_a_client_is_away_from_the_end_of_a_process_until_the_next_one_is_connected(run: Run) -> None:
    live(
        run,
        "load-0",
        {"ready_at": 1, "ended_at": 10, "fault": "f"},
        {"started_at": 12, "ready_at": 15, "ended_at": 30, "fault": "g"},
        # It never got its connection.
        {"started_at": 35, "ended_at": 40},
    )
    assert list_absences(run, "load-0") == [(10, 15), (30, OVER)]
    assert list_epochs_ended_by_faults(run, "load-0") == {0, 1}


def test_a_client_with_a_second_process_that_was_refused_or_took_over_was_never_away(run: Run) -> None:
    live(run, "load-0", {"ready_at": 1}, {"started_at": 5, "ended_at": 8, "fault": "f"})
    assert (list_absences(run, "load-0"), list_epochs_ended_by_faults(run, "load-0")) == ([], {1})
    live(run, "load-0", {"ready_at": 1, "ended_at": 9, "fault": "f"}, {"started_at": 5, "ready_at": 8})
    assert (list_absences(run, "load-0"), list_epochs_ended_by_faults(run, "load-0")) == ([], {0})


def test_a_client_that_stays_dead_is_away_until_its_task_is_over(run: Run) -> None:
    live(run, "load-0", {"ready_at": 1, "ended_at": 10, "fault": "f"})
    assert list_absences(run, "load-0") == [(10, OVER)]


@pytest.mark.parametrize(
    "epochs",
    [(), ({"ended_at": 40, "fault": "f"},), ({"ended_at": 10, "fault": "f"}, {"started_at": 12, "ended_at": 40})],
)
def test_a_client_that_was_never_connected_is_away_all_the_time(run: Run, epochs: tuple[dict[str, Any], ...]) -> None:
    live(run, "consume-1", *epochs)
    assert list_absences(run, "consume-1") == [(0, OVER)]


def test_a_client_that_ended_by_itself_or_that_no_fault_acts_on_was_never_away(run: Run) -> None:
    live(run, "load-0", {"ready_at": 1, "ended_at": 10})
    for client in ("load-0", "load-1"):
        assert (list_absences(run, client), list_epochs_ended_by_faults(run, client)) == ([], set())


def test_a_damaged_record_of_lives_is_an_error(run: Run) -> None:
    Path(run.path("state")).mkdir(exist_ok=True)
    Path(run.path("state", "client_epochs-load-0.json")).write_text("{")
    for read in (list_absences, list_epochs_ended_by_faults):
        with pytest.raises(RunError):
            read(run, "load-0")


@pytest.mark.parametrize(
    ("clients", "together"),
    [
        ([], []),
        ([[(1, 5)]], [(1, 5)]),
        ([[(1, 5)], []], []),
        ([[(1, 5), (8, 9)], [(2, 3), (4, 8)]], [(2, 3), (4, 5)]),
        ([[(1, 9)], [(2, 6)], [(5, 8)]], [(5, 6)]),
        # They touch in a moment only.
        ([[(1, 5)], [(5, 8)]], []),
    ],
)
def test_what_several_clients_have_in_common(clients: list[list[tuple[int, int]]], together: list[Any]) -> None:
    assert intersect(clients) == together


def test_a_subscription_stands_still_only_while_all_its_consumers_are_away(run: Run) -> None:
    live(run, "load-1", {"ready_at": 1, "ended_at": 50, "fault": "h"})
    live(run, "consume-0", {"ready_at": 1, "ended_at": 10, "fault": "f"}, {"ready_at": 20})
    live(run, "consume-1", {"ready_at": 1})
    found = read_standstills(run)
    assert found.of_acks == {"mycluster-p1": [(50, OVER)]}
    assert found.of_consumers == {"audit": []}
    assert found.of_deliveries == {"audit": [(50, OVER)]}
    live(run, "consume-1", {"ready_at": 1, "ended_at": 18, "fault": "g"}, {"ready_at": 30})
    assert read_standstills(run).of_consumers == {"audit": [(18, 20)]}
