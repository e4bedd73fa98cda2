"""Faults that are drawn from a seed: their times, what may follow what, and mistakes in what may be drawn."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from brokerproof.checks import load_scenario
from brokerproof.errors import InputError
from brokerproof.experiment.abilities import Ability
from brokerproof.experiment.draw import Draw
from brokerproof.experiment.fault import Fault
from builders import SCENARIOS, TOPOLOGIES

SEEDS = range(60)
MOVES: dict[str, Any] = {
    "killed": {"kind": "kill", "targets": {"role": "broker"}, "lasts_s": [1, 20]},
    "wiped": {"kind": "destroy", "targets": {"nodes": ["bookie-eu-1"]}, "lasts_s": [10, 30]},
    "wiped_too": {"kind": "destroy", "targets": {"nodes": ["bookie-eu-2"]}, "lasts_s": [10, 30]},
    "unloaded": {"kind": "unload", "targets": {"now": "topic_owner"}},
}
IMPACT_S = 100.0


def draw(seed: int, **values: Any) -> list[Fault]:
    return Draw.model_validate({"moves": MOVES} | values).draw_faults(seed, IMPACT_S, ["destroy"])


def find_end(fault: Fault) -> float:
    return fault.at_s + (fault.heal_after_s or 0)


def test_a_seed_gives_the_same_faults_and_another_seed_others() -> None:
    assert draw(7) == draw(7)
    assert len({str(draw(seed)) for seed in SEEDS}) == len(SEEDS)


def test_the_faults_of_a_seed_stay_the_same_from_version_to_version() -> None:
    assert [(fault.name, fault.at_s, fault.heal_after_s) for fault in draw(7)] == [
        ("wiped_1", 3.9, 14.1),
        ("killed_1", 29.1, 11.9),
        ("unloaded_1", 29.4, None),
        ("wiped_2", 48.7, 22.3),
    ]


def test_every_fault_ends_in_the_impact_phase_and_lasts_as_long_as_its_move_may() -> None:
    for fault in (fault for seed in SEEDS for fault in draw(seed)):
        assert find_end(fault) <= IMPACT_S
        lasts_s = MOVES[fault.name.rpartition("_")[0]].get("lasts_s")
        assert (fault.heal_after_s is None) == (lasts_s is None)
        if fault.heal_after_s is not None:
            assert lasts_s[0] <= fault.heal_after_s <= lasts_s[1]


def test_an_episode_has_no_more_faults_than_it_may_and_rests_follow_it() -> None:
    # Times are rounded to 0.1 s.
    for seed in SEEDS:
        for earlier, later in pairwise(draw(seed, at_once=1, apart_s=0, rest_s=[5, 9])):
            assert 4.8 <= later.at_s - find_end(earlier) <= 9.2
    together = (draw(seed, at_once=3) for seed in SEEDS)
    assert any(later.at_s < find_end(earlier) for faults in together for earlier, later in pairwise(faults))


def test_data_is_wiped_only_after_what_was_wiped_before_is_replicated_again() -> None:
    waited = 0
    for seed in SEEDS:
        wipes = [fault for fault in draw(seed, at_once=4, repaired_within_s=77) if fault.kind == "destroy"]
        for earlier, later in pairwise([None, *wipes]):
            assert later is not None
            assert (later.when and later.when.rereplicated) == (earlier and earlier.name)
            assert later.when is None or later.when.within_s == 77
            waited += later.when is not None
    assert waited
    assert all(fault.when is None for seed in SEEDS for fault in draw(seed) if fault.kind != "destroy")


def load(tmp_path: Path, **values: Any) -> Any:
    content = yaml.safe_load((SCENARIOS / "sync_nominal.yaml").read_text())
    file = tmp_path / "drawn.yaml"
    content["phases"]["impact_s"] = IMPACT_S
    file.write_text(yaml.dump(content | {"draw": {"moves": MOVES, "seed": 5} | values}))
    return load_scenario(file, TOPOLOGIES)[0]


def test_an_episode_acts_on_the_same_nodes_only_once_unless_they_are_chosen_when_it_begins() -> None:
    frozen = {"kind": "pause", "targets": {"role": "broker"}, "lasts_s": [1, 20]}
    owner = {"kind": "pause", "targets": {"now": "topic_owner"}, "lasts_s": [1, 20]}
    moves = {"killed": MOVES["killed"], "frozen": frozen, "unloaded": MOVES["unloaded"], "owner_frozen": owner}
    # Episodes are far apart, so faults that are near each other are of one.
    drawn = [draw(seed, moves=moves, at_once=2, rest_s=[20, 30]) for seed in SEEDS]
    together = {
        frozenset(fault.name.rpartition("_")[0] for fault in pair)
        for faults in drawn
        for pair in pairwise(faults)
        if pair[1].at_s - pair[0].at_s <= 5
    }
    assert frozenset({"unloaded", "owner_frozen"}) in together
    assert frozenset({"killed", "unloaded"}) in together
    assert frozenset({"killed", "frozen"}) not in together


def test_a_scenario_has_the_faults_of_its_seed_and_none_without_one(tmp_path: Path) -> None:
    scenario = load(tmp_path)
    assert scenario.faults
    assert scenario.faults == draw(5)
    assert load(tmp_path, seed=None).faults == []
    # What a run has recorded is read as it is.
    assert type(scenario).model_validate_json(scenario.model_dump_json()) == scenario


@pytest.mark.parametrize("file", sorted(SCENARIOS.glob("search_*.yaml")), ids=lambda file: file.stem)
def test_each_seed_of_a_shipped_search_can_be_run(file: Path) -> None:
    scenario = load_scenario(file, TOPOLOGIES)[0]
    met = set[str]()
    for seed in range(30):
        drawn = load_scenario(file, TOPOLOGIES, {"draw.seed": seed})[0].faults[len(scenario.faults) :]
        assert drawn
        met |= {fault.name.rpartition("_")[0] for fault in drawn}
    assert met == set(scenario.draw.moves)


def change(name: str, **values: Any) -> dict[str, Any]:
    return {"moves": {name: MOVES[name] | values}}


@pytest.mark.parametrize(
    ("values", "field", "problem"),
    [
        ({"moves": {}}, "draw.moves", "at least 1"),
        ({"seed": -1}, "draw.seed", "0"),
        ({"rest_s": [9, 3]}, "draw.rest_s", "9 is over 3"),
        ({"states": ["two_owner"]}, "draw.states", "two_owners"),
        (change("killed", lasts_s=[9, 3]), "draw.moves.killed.lasts_s", "9 is over 3"),
        (change("killed", lasts_s=[1, 95]), "draw.moves", "longer than the impact phase"),
        (change("killed", kind="crash"), "draw.moves.killed.kind", "`crash`"),
        (change("killed", targets={"role": "brocker"}), "draw.moves.killed.targets.role", "broker"),
        (change("unloaded", targets={"role": "broker"}), "draw.moves.unloaded.targets.now", "owner"),
    ],
)
def test_a_mistake_in_what_may_be_drawn_is_named(
    tmp_path: Path, values: dict[str, Any], field: str, problem: str
) -> None:
    with pytest.raises(InputError) as raised:
        load(tmp_path, **values)
    assert field in str(raised.value)
    assert problem in str(raised.value)


def test_only_a_system_that_repairs_can_be_wiped_by_draw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    explain = lambda _system, _workload, ability: "cannot" if ability is Ability.REPAIR else None  # noqa: E731
    monkeypatch.setattr("brokerproof.checks.explain_lack", explain)
    with pytest.raises(InputError, match=r"draw\.moves\.wiped\.kind: cannot .*wiped again"):
        load(tmp_path)
    load(tmp_path, moves={"killed": MOVES["killed"]})
