"""The search for states that are worth reaching, among the runs of a scenario that draws its faults.

Each run takes a seed whose faults are likely to reach the states that earlier runs reached least. So a search goes on
from run to run, and needs no list of seeds. A search that never reached a state shows nothing about it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

from brokerproof.experiment.fault import Fault
from brokerproof.experiment.numbers import join_names
from brokerproof.experiment.scenario import Scenario
from brokerproof.faults.registry import draw_faults
from brokerproof.results.history_schema import RecordedRun

# The number of further seeds that are looked at. The best one is taken.
_CANDIDATES = 40
# The chance with which a trait that no run had reaches a state. It weighs as much as one run.
_NEW_TRAIT = 0.1
# One fault follows another one if it begins at most this many seconds after the other one's end.
_FOLLOWS_S = 20.0


@dataclass(frozen=True, kw_only=True)
class StateCount:
    """In how many of the `runs` that measured a state a run was in it at least once."""

    state: str
    reached: int
    runs: int


def count_states(runs: Iterable[RecordedRun]) -> list[StateCount]:
    """Return for each state that the runs of a search are for how many of them reached it, the rarest first."""
    measured, reached = Counter[str](), Counter[str]()
    states: dict[str, None] = {}
    for run in runs:
        wanted = (run.parameters["scenario"].get("draw") or {}).get("states", ())
        states |= dict.fromkeys(wanted)
        for row in run.measurements:
            if row.metric == "reached" and row.subject in wanted and row.value is not None:
                measured[row.subject] += 1
                reached[row.subject] += row.value >= 1
    counts = [StateCount(state=state, reached=reached[state], runs=measured[state]) for state in states]
    return sorted(counts, key=lambda count: count.reached)


def explain_vacuous(counts: Sequence[StateCount]) -> str | None:
    """Return a sentence about the states that no run reached; None if there is none."""
    never = [count.state for count in counts if not count.reached]
    return f"the search shows nothing about {join_names(never)}: no run reached this" if never else None


def choose_seed(scenario: Scenario, runs: Sequence[RecordedRun]) -> int:
    """Return the seed for the next run of a scenario with `draw`, by its recorded runs.

    The seed is greater than each that runs have had. Of the next `_CANDIDATES`, it is the one with the greatest sum
    over all states: the chance that the seed's faults reach the state, divided by one more than the number of runs
    that reached it. For this chance, each trait of the faults (see `_list_traits`) reaches the state or not, on its
    own (a noisy or: Pearl, Probabilistic Reasoning in Intelligent Systems, 1988, 4.3.2), as in the runs with this
    trait. So for a state that no run reached, the faults with the most new traits come first.
    """
    assert scenario.draw is not None
    mine = [run for run in runs if _draws_alike(run, scenario)]
    had, reached_with = Counter[str](), Counter[tuple[str, str]]()
    seeds = [-1]
    for run in mine:
        recorded = run.parameters["scenario"]
        seeds.append(recorded["draw"]["seed"])
        states = {row.subject for row in run.measurements if row.metric == "reached" and (row.value or 0) >= 1}
        for trait in _list_traits(Fault.model_validate(fault) for fault in recorded["faults"]):
            had[trait] += 1
            reached_with.update((trait, state) for state in states)
    times = Counter({count.state: count.reached for count in count_states(mine)})
    needs = {state: 1 / (1 + times[state]) for state in scenario.draw.states}

    def promise(seed: int) -> float:
        traits = _list_traits(draw_faults(scenario, seed))
        return sum(
            need * (1 - prod(1 - (reached_with[trait, state] + _NEW_TRAIT) / (had[trait] + 1) for trait in traits))
            for state, need in needs.items()
        )

    first = max(seeds) + 1
    # The first of several that promise the same.
    return max(range(first, first + _CANDIDATES), key=promise)


def _draws_alike(run: RecordedRun, scenario: Scenario) -> bool:
    """Whether a run drew from the same moves on the same topology."""
    recorded = run.parameters["scenario"]
    draw = recorded.get("draw") or {}
    assert scenario.draw is not None
    moves = scenario.draw.model_dump(mode="json")["moves"]
    return draw.get("seed") is not None and draw["moves"] == moves and recorded["topology"] == scenario.topology


def _list_traits(faults: Iterable[Fault]) -> Collection[str]:
    """Return what a schedule has: its moves, and each pair of moves that overlap, or follow each other closely."""
    return set(_iterate_traits(sorted(faults, key=lambda fault: fault.at_s)))


def _iterate_traits(faults: Sequence[Fault]) -> Iterator[str]:
    names = [fault.name.rpartition("_")[0] for fault in faults]
    yield from names
    for (one, earlier), (other, later) in combinations(zip(names, faults, strict=True), 2):
        if later.at_s <= earlier.at_s + (earlier.heal_after_s or 0) + _FOLLOWS_S:
            yield f"{one} {other}"
