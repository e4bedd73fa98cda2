"""The search for the highest rate that is held, against producers with a known limit, on a simulated clock."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from brokerproof.clients.producing import make_schedule, plan_producers
from brokerproof.errors import DeadlineError, RunError
from brokerproof.experiment.workload import MOST_RATE
from brokerproof.faults.rate_search import RateSearch, make_rate, search_rate
from brokerproof.run.directory import Run
from brokerproof.run.live_status import LiveStatus
from brokerproof.run.load_rate import FIRST_RATE, find_rate, find_target_rate
from brokerproof.run.records import FoundRate, LoadRates, StepProblem, read_record, write_record
from builders import make_run
from simulated_clock import SimulatedClock


class Producers(SimulatedClock):
    """A clock and the run's producers: while time passes, each gets acks for at most a number of messages a second."""

    def __init__(self, run: Run, limit: float, *, warm_after_s: float = 0.0, silent: bool = False) -> None:
        """`limit` is in messages/s of all producers. Before `warm_after_s`, it is a tenth."""
        super().__init__()
        self._run, self._tasks, self._silent = run, plan_producers(run), silent
        self._limit, self._start_at, self._warm_after_s = limit / len(self._tasks), self.now_s(), warm_after_s
        self._acked = dict.fromkeys(self._tasks, 0.0)

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        limit = self._limit * (1 if self.now_s() > self._start_at + self._warm_after_s else 0.1)
        rates = read_record(self._run, LoadRates)
        for task in self._tasks:
            due = make_schedule(self._run, task, self._start_at, rates).count_due(self.now_s())
            self._acked[task] = min(due, self._acked[task] + limit * seconds)
            if not self._silent:
                acked = int(self._acked[task])
                LiveStatus(self._run, task.client).show(due=due, due_us=self.now_us(), acked=acked)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return make_run(tmp_path / "run", "sync_nominal", {"workload.rate": "max"})


def search(run: Run, producers: Producers, busy: float = 50.0) -> FoundRate:
    stage: Any = SimpleNamespace(run=run, clock=producers, show=lambda **content: None)
    return search_rate(stage, lambda: busy)


def test_the_rates_are_a_series_with_equal_factors() -> None:
    rates = [make_rate(number) for number in range(-1, 81)]
    assert (rates[:4], rates[-1]) == ([900, FIRST_RATE, 1120, 1250], MOST_RATE)
    assert all(1.09 < higher / lower < 1.16 for lower, higher in pairwise(rates))


def test_a_miss_shortens_the_leaps_and_three_misses_end_the_search() -> None:
    search, tried = RateSearch(), list[int]()
    while (number := search.next) is not None:
        tried.append(number)
        search.judge(number, is_held=number <= 16)
    assert tried == [6, 12, 18, 15, 18, 16, 17]
    assert (search.held, search.missed) == (16, 17)


def test_a_search_that_meets_no_limit_ends_at_the_highest_rate() -> None:
    search = RateSearch()
    while (number := search.next) is not None:
        search.judge(number, is_held=True)
    assert (make_rate(search.held), search.missed) == (MOST_RATE, None)


@pytest.mark.parametrize("limit", [1_050, 1_320, 7_700, 41_000, 690_000])
def test_the_highest_held_rate_is_found_and_a_rate_below_the_limit_is_kept(run: Run, limit: int) -> None:
    found = search(run, Producers(run, limit))
    # A step is too short for a rate that is only a little too high.
    assert found.rate < limit < found.missed
    assert found.held < 1.09 * limit
    assert found.missed / found.held < 1.16
    assert 0.86 < found.rate / found.held < 0.92
    assert (find_rate(run), find_target_rate(run), found.busy) == (found.rate, found.rate, 50.0)


def test_producers_are_no_longer_behind_when_the_search_ends(run: Run) -> None:
    producers = Producers(run, 41_000)
    found = search(run, producers)
    rates = read_record(run, LoadRates)
    assert rates is not None
    assert rates.steps[-1].rate == found.rate
    # The lower rates, at which producers catch up, come before the last one.
    assert sum(later.rate < earlier.rate for earlier, later in pairwise(rates.steps)) >= 3


def test_rates_that_a_cold_cluster_missed_are_tried_again(run: Run) -> None:
    found = search(run, Producers(run, 41_000, warm_after_s=20))
    assert found.held > 4_100


def test_a_cluster_that_does_not_hold_the_first_rate_is_named(run: Run) -> None:
    with pytest.raises(DeadlineError, match=r"the topic never held 1,000 messages/s within 180 s.*give workload.rate"):
        search(run, Producers(run, 300))
    assert find_rate(run) is None


def test_a_producer_that_shows_nothing_holds_no_rate(run: Run) -> None:
    with pytest.raises(DeadlineError, match="the topic never held 1,000 messages/s"):
        search(run, Producers(run, 41_000, silent=True))


def test_a_load_that_failed_ends_the_search(run: Run) -> None:
    write_record(run, StepProblem(step="load", problem="no slots"))
    with pytest.raises(RunError, match="the load failed before its rate was found: no slots"):
        search(run, Producers(run, 41_000))


def test_a_rate_of_several_clusters_is_of_each_of_them(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", "geo_nominal", {"workload.rate": "max"})
    homes = len(run.scenario.workload.produce_on)
    assert homes > 1
    found = search(run, Producers(run, homes * 9_000))
    assert found.held == 9_000
    assert find_target_rate(run) == homes * found.rate
