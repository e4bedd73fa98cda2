"""The search for states: how often runs reached each, and which seed comes next."""

from __future__ import annotations

import pytest
from brokerproof.experiment.states import STATES
from brokerproof.faults.registry import draw_faults
from brokerproof.results.state_search import choose_seed, count_states, explain_vacuous

MOVES = {
    "frozen": {"kind": "pause", "targets": {"role": "broker"}, "lasts_s": [1, 5]},
    "killed": {"kind": "kill", "targets": {"role": "broker"}, "lasts_s": [1, 5]},
}
RARE, COMMON = "two_owners", "sent_again"


@pytest.fixture
def search(sqlite_history, record, scenario):
    """Records runs of a scenario that draws its faults: `search(seed, states that it reached)`. Returns the runs."""

    def make(seed=None, moves=MOVES, **values):
        draw = {"moves": moves, "seed": seed, "at_once": 1, "rest_s": [50, 60], **values}
        drawn = scenario(faults=[], draw=draw)
        return drawn.model_copy(update={"faults": draw_faults(drawn, seed)}) if seed is not None else drawn

    def search(*runs, **values):
        for seed, reached in runs:
            changes = make(seed, **values).model_dump(mode="json", exclude={"name"})
            measured = {("reached", state): float(state in reached) for state in STATES}
            record(changes=changes, measured=measured)
        return sqlite_history.list_runs(limit=100)

    search.scenario = make
    return search


def test_states_are_counted_by_run_the_rarest_first(search):
    counts = count_states(search((1, {COMMON}), (2, {COMMON, RARE}), (3, {COMMON})))
    assert {count.state: (count.reached, count.runs) for count in counts} == {
        **dict.fromkeys(STATES, (0, 3)),
        RARE: (1, 3),
        COMMON: (3, 3),
    }
    assert [count.reached for count in counts] == sorted(count.reached for count in counts)
    why = explain_vacuous(counts)
    assert why is not None
    assert "producer_fenced" in why
    assert RARE not in why


def test_a_search_that_reached_every_state_is_not_vacuous(search):
    assert explain_vacuous(count_states(search((1, set(STATES))))) is None


def test_a_run_without_a_draw_counts_for_no_state(record, sqlite_history):
    record(measured={("reached", RARE): 1.0})
    assert count_states(sqlite_history.list_runs()) == []


def test_only_the_states_that_a_search_is_for_count(search):
    counts = count_states(search((1, {COMMON, RARE}), (2, {COMMON}), states=[RARE]))
    assert [(count.state, count.reached, count.runs) for count in counts] == [(RARE, 1, 2)]
    assert explain_vacuous(counts) is None


def list_moves(search, seed, **values):
    return {fault.name.rpartition("_")[0] for fault in draw_faults(search.scenario(**values), seed)}


def find_seeds(search, moves, first=0):
    return [seed for seed in range(first, first + 40) if list_moves(search, seed) == moves]


def test_the_first_seed_of_all_is_the_first_that_promises_most(search):
    assert choose_seed(search.scenario(), []) in range(40)


def test_the_next_seed_has_what_led_to_the_rarest_state(search):
    frozen, killed = find_seeds(search, {"frozen"})[:2], find_seeds(search, {"killed"})[:2]
    others = set(STATES) - {RARE}
    runs = search(*((seed, others | {RARE}) for seed in frozen[:1]), *((seed, others) for seed in (*killed, frozen[1])))
    chosen = choose_seed(search.scenario(), runs)
    assert chosen > max(*frozen, *killed)
    assert "frozen" in list_moves(search, chosen)


def test_while_no_run_reaches_a_state_the_seed_with_the_most_new_faults_comes_next(search):
    moves = {f"killed_{letter}": MOVES["killed"] for letter in "abcdef"}
    had = list_moves(search, 0, moves=moves)
    new = {seed: len(list_moves(search, seed, moves=moves) - had) for seed in range(1, 41)}
    runs = search((0, set()), moves=moves)
    assert choose_seed(search.scenario(moves=moves), runs) == max(new, key=new.__getitem__) > 1


def test_a_seed_is_never_taken_twice_and_runs_with_other_moves_do_not_count(search):
    runs = search((11, set()))
    assert choose_seed(search.scenario(), runs) > 11
    other = {"killed": MOVES["killed"]}
    assert choose_seed(search.scenario(moves=other), runs) == choose_seed(search.scenario(moves=other), [])
