"""Generated scenarios: the same seed gives the same file, every one is valid, and everything that may vary does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import scenario_generator
import write_scenarios
import yaml
from brokerproof.checks import load_scenario
from brokerproof.directories import Directories
from brokerproof.errors import InputError
from brokerproof.experiment.fault import ClientMoment
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.workload import ClientRole, Commit
from brokerproof.faults.registry import FAULT_KINDS
from brokerproof.systems.pulsar.client_settings import PulsarClientSettings
from builders import SCENARIOS, SYSTEMS, TOPOLOGIES
from scenario_generator import QUICK, SLOW, GeneratedScenario, generate_scenario, list_fields
from testlog_system.client_settings import LogClientSettings

# A system whose faults are those of nodes; and one with everything, on topologies with links and without.
TESTLOG = (["three_servers"], Directories((SYSTEMS / "topologies",)))
PULSAR = (
    ["sync_active_passive", "sync_active_passive_wan", "geo_replication_wan", "active_active", "sync_ensemble_witness"],
    Directories((TOPOLOGIES,)),
)
WRITTEN = Directories((SCENARIOS,))
SEEDS = range(200)
# Of the settings of clients, no scenario has these.
NOT_GENERATED = {"access", "batch_index_acks"}


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKERPROOF_SYSTEMS", "testlog=testlog_system.system:TESTLOG")


def generate(
    seeds: range, on: tuple[list[str], Directories], directory: Path
) -> list[tuple[GeneratedScenario, Scenario]]:
    topologies, directories = on
    pace = QUICK if on is TESTLOG else SLOW
    made = [generate_scenario(seed, topologies, directories, directory, pace=pace, written=WRITTEN) for seed in seeds]
    return [(one, load_scenario(directory / f"{one.name}.yaml", directories)[0]) for one in made]


def list_client_settings(made: list[tuple[GeneratedScenario, Scenario]]) -> set[str]:
    """The settings of clients in the files. A loaded scenario has every setting."""
    return set().union(*(yaml.safe_load(one.text)["workload"].get("client", {}) for one, _ in made))


@pytest.mark.parametrize("on", [TESTLOG, PULSAR], ids=["testlog", "pulsar"])
def test_the_same_seed_gives_the_same_file_and_another_one_another_file(
    on: tuple[list[str], Directories], tmp_path: Path
) -> None:
    (tmp_path / "again").mkdir()
    texts = [one.text for one, _ in generate(range(10), on, tmp_path)]
    assert texts == [one.text for one, _ in generate(range(10), on, tmp_path / "again")]
    assert len(set(texts)) == 10


def test_a_seed_gives_what_it_always_gave(tmp_path: Path) -> None:
    """A seed that somebody wrote down must mean the same run later."""
    ((_, scenario),) = generate(range(7, 8), TESTLOG, tmp_path)
    assert [fault.kind for fault in scenario.faults if not fault.targets.client] == ["pause"]


def test_the_choices_about_clients_change_nothing_else_of_a_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def list_rests() -> list[dict[str, Any]]:
        """The scenarios without what is chosen about clients."""
        rests = []
        for one, _ in generate(range(60), TESTLOG, tmp_path):
            content = one.content
            of_nodes = [fault for fault in content.get("faults", []) if not _is_about_clients(fault)]
            bounds = {key: bound for key, bound in content.get("bounds", {}).items() if "_outputs/" not in key}
            for subscription in content["workload"].get("subscriptions", []):
                subscription.pop("commit", None)
                subscription.pop("standby", None)
            client = content["workload"].pop("client", {})
            client.pop("on_restart", None)
            rests.append({**content, "faults": of_nodes, "bounds": bounds, "client": client})
        return rests

    with_clients = list_rests()
    for name in ("_add_outputs", "_add_client_faults"):
        monkeypatch.setattr(scenario_generator._Maker, name, lambda *_: None)
    assert list_rests() == with_clients


def _is_about_clients(fault: dict[str, Any]) -> bool:
    return "client" in fault["targets"] or fault["name"].endswith("_after_client")


def test_every_kind_of_fault_of_clients_is_drawn_with_every_way_to_choose_them_and_with_outputs(tmp_path: Path) -> None:
    made = generate(range(400), TESTLOG, tmp_path)
    faults = [fault for _, scenario in made for fault in scenario.faults if fault.targets.client]
    kinds = {name for name, kind in FAULT_KINDS.items() if kind.is_for_clients}
    assert {(fault.kind, fault.targets.client) for fault in faults} == {
        (kind, role)
        for kind in kinds
        for role in ClientRole
        if (kind, role) not in {("fence", "consumer"), ("quiet", "consumer"), ("start", "producer")}
    }
    assert {field for fault in faults for field in fault.targets.model_fields_set} == {
        "client", "names", "subscription", "cluster", "count", "now",
    }  # fmt: skip
    assert {fault.targets.moment for fault in faults} == {None, *ClientMoment}
    of_clients = {fault.name for fault in faults}
    waiting = [fault for _, scenario in made for fault in scenario.faults if fault.when]
    assert {
        (fault.targets.client is not None, fault.when.earlier_fault[0])
        for fault in waiting
        if fault.when and fault.when.earlier_fault[1] in of_clients
    } == {(of_client, condition) for of_client in (True, False) for condition in ("healthy", "unhealthy")}
    subscriptions = [each for _, scenario in made for each in scenario.workload.subscriptions]
    assert {each.commit for each in subscriptions} == {None, *Commit}
    assert {each.standby for each in subscriptions} == {None, 1, 2}
    # Such a run is over before a streaming query has started again.
    assert {each.streaming for each in subscriptions} == {None}


def test_a_small_system_gets_every_kind_of_fault_of_nodes_and_every_way_to_choose_them(tmp_path: Path) -> None:
    made = generate(SEEDS, TESTLOG, tmp_path)
    faults = [fault for _, scenario in made for fault in scenario.faults if not fault.targets.client]
    assert {fault.kind for fault in faults} == {"stop", "kill", "destroy", "start", "pause", "unload"}
    assert {field for fault in faults for field in fault.targets.model_fields_set} == {
        "nodes", "cluster", "region", "role", "now", "count",
    }  # fmt: skip
    fields = set().union(*(list_fields(scenario) for _, scenario in made))
    assert fields >= {
        "overrides", "guarantee", "tighten", "loosen", "workload.partitions", "workload.produce_on", "destroyed",
        "workload.hot_key_share",
        "workload.subscriptions.type", "workload.subscriptions.cluster", "faults.when.unhealthy", "faults.heal_at_s",
        "faults.permanent", "bounds", "owner.steady", "owner.recovery", "settle_s", "tags",
        "late_after_s",
        "regression.tolerance", "regression.window", "regression.tolerances",
    }  # fmt: skip
    assert list_client_settings(made) == set(LogClientSettings.model_fields) - NOT_GENERATED
    workloads = [scenario.workload for _, scenario in made]
    assert min(one.rate for one in workloads) < 60 < 490 < max(one.rate for one in workloads)
    assert {len(one.subscriptions) for one in workloads} == {0, 1, 2, 3}
    phases = [scenario.phases for _, scenario in made]
    for field, least, most in (("steady_s", 1, 2), ("impact_s", 4, 10), ("recovery_s", 1, 3)):
        lengths = [getattr(one, field) for one in phases]
        assert least <= min(lengths) <= max(lengths) <= most
    assert sum(_overlap(scenario) for _, scenario in made) > 20


def test_a_large_system_gets_every_kind_of_fault_and_several_clusters(tmp_path: Path) -> None:
    made = generate(SEEDS, PULSAR, tmp_path)
    faults = [fault for _, scenario in made for fault in scenario.faults if not fault.targets.client]
    assert {fault.kind for fault in faults} == {name for name, kind in FAULT_KINDS.items() if kind.is_for_nodes}
    assert {fault.targets.now for fault in faults} == {
        None, "topic_owner", "topic_holders", "coordination_leader", "coordination_followers",
    }  # fmt: skip
    fields = set().union(*(list_fields(scenario) for _, scenario in made))
    assert fields >= {
        "faults.link.delay_ms", "faults.link.bandwidth_mbit", "faults.link.direction", "faults.link.regions",
        "faults.when.rereplicated", "workload.region", "workload.subscriptions.region",
        "workload.subscriptions.consumers", "workload.subscriptions.moves.to", "workload.subscriptions.streaming",
        "workload.subscriptions.negative_ack_every", "workload.grows_to",
    }  # fmt: skip
    assert list_client_settings(made) == set(PulsarClientSettings.model_fields) - NOT_GENERATED
    assert {len(scenario.workload.produce_on) for _, scenario in made} >= {0, 1, 2}


def test_every_refusal_is_a_sentence_with_a_place_and_a_remedy(tmp_path: Path) -> None:
    refusals = [
        refusal for on in (TESTLOG, PULSAR) for one, _ in generate(range(100), on, tmp_path) for refusal in one.refusals
    ]
    assert refusals
    for refusal in refusals:
        assert "generated_" in refusal or "overrides of topology" in refusal or "topologies/" in refusal, refusal
        assert refusal.endswith(")"), refusal


def _overlap(scenario: Scenario) -> bool:
    """Whether two faults name the same node."""
    named = [set(fault.targets.nodes) for fault in scenario.faults]
    return any(one & other for number, one in enumerate(named) for other in named[:number])


def test_scenarios_for_a_slow_system_are_written_as_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = tmp_path / "scenarios"
    assert write_scenarios.main([str(written), "--topology", "sync_active_passive", "--count", "3", "--seed", "5"]) == 0
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == [
        "generated_5", "generated_6", "generated_7",
    ]  # fmt: skip
    for file in sorted(written.iterdir()):
        load_scenario(file, PULSAR[1])


def test_a_topology_that_is_not_there_is_an_error_and_makes_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no topology is called `nowhere`"):
        generate_scenario(1, ["nowhere"], TESTLOG[1], tmp_path)
    assert list(tmp_path.iterdir()) == []
