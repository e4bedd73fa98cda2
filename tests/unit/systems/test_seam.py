"""The seam between the core and a messaging system is small, and what a system can do is found from its methods."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from brokerproof.errors import RunError
from brokerproof.experiment.abilities import Ability
from brokerproof.experiment.workload import Workload
from brokerproof.systems.abilities import (
    PROTOCOLS,
    ConfirmsAcks,
    CountsMissingCopies,
    ReassignsTopics,
    explain_lack,
    find_abilities,
    find_workload_abilities,
    require,
)
from brokerproof.systems.destinations import find_replication_drains
from brokerproof.systems.protocols import System
from brokerproof.systems.pulsar.observation import PulsarObservation
from brokerproof.systems.pulsar.system import PULSAR, Pulsar
from seam import MANDATORY, OPTIONAL, list_members
from testlog_system.system import TESTLOG

from ..planted_system import plant_system

MOST_MANDATORY_MEMBERS = 41


class Bare:
    """A part, or a system, without any method that only some systems have."""


def make_system(*, observation: type = Bare, declared: frozenset[Ability] = frozenset()) -> Any:
    return SimpleNamespace(provisioning=Bare, administration=Bare, observation=observation, declared_abilities=declared)


def test_a_system_has_few_mandatory_members() -> None:
    members = [f"{protocol.__name__}.{name}" for protocol in MANDATORY for name in list_members(protocol)]
    assert "System.name" in members
    assert "Reader.next_position" in members
    assert len(members) <= MOST_MANDATORY_MEMBERS, members


def test_no_member_is_mandatory_and_optional() -> None:
    mandatory = {name for protocol in MANDATORY for name in list_members(protocol)}
    assert [name for protocol in OPTIONAL for name in list_members(protocol) if name in mandatory] == []


def test_every_protocol_of_an_ability_is_optional() -> None:
    assert set(PROTOCOLS.values()) <= set(OPTIONAL)


def test_pulsar_has_every_ability_and_declares_those_that_no_method_shows() -> None:
    assert find_abilities(PULSAR) == set(Ability)
    assert PULSAR.declared_abilities == set(Ability) - PROTOCOLS.keys() - {Ability.STORAGE}


def test_the_abilities_of_the_log_server_are_those_of_its_methods() -> None:
    assert find_abilities(TESTLOG) == {
        *{Ability.STORAGE, Ability.POSITIONS, Ability.REASSIGNMENT},
        *{Ability.CONFIRMED_ACKS, Ability.CUMULATIVE_ACKS},
    }
    assert TESTLOG.declared_abilities == {Ability.POSITIONS, Ability.CUMULATIVE_ACKS}


def test_a_system_without_optional_methods_has_only_what_it_declares() -> None:
    assert find_abilities(make_system(declared=frozenset({Ability.REPAIR}))) == {Ability.STORAGE, Ability.REPAIR}


def test_a_declaration_does_not_replace_a_method() -> None:
    assert find_abilities(make_system(declared=frozenset({Ability.COPIES}))) == {Ability.STORAGE}


def test_a_part_with_some_methods_of_an_ability_does_not_have_it() -> None:
    class Half(Bare):
        def find_holders(self, cluster: str | None = None) -> list[str]:
            return []

    assert find_abilities(make_system(observation=Half)) == {Ability.STORAGE}


def test_a_topic_that_stores_nothing_lacks_what_is_about_stored_messages() -> None:
    stored, unstored = (Workload(namespace="t/n", stored=value) for value in (None, False))
    usable = find_workload_abilities(PULSAR, unstored)
    assert usable >= {Ability.UNSTORED_TOPICS, Ability.MEMBERSHIP, Ability.REASSIGNMENT}
    assert usable.isdisjoint({Ability.STORAGE, Ability.POSITIONS, Ability.CONFIRMED_ACKS, Ability.DEDUPLICATION})
    assert find_workload_abilities(PULSAR, stored) == set(Ability)


@pytest.mark.parametrize(
    ("system", "stored", "ability", "why"),
    [
        (PULSAR, None, Ability.STORAGE, ""),
        (PULSAR, False, Ability.STORAGE, "the topic stores no messages"),
        (TESTLOG, False, Ability.UNSTORED_TOPICS, "testlog cannot serve a topic without storing its messages"),
    ],
)
def test_why_a_workload_cannot_use_an_ability(system: System, stored: bool | None, ability: Ability, why: str) -> None:
    assert explain_lack(system, Workload(namespace="t/n", stored=stored), ability) == why


@pytest.mark.parametrize("ability", PROTOCOLS)
def test_pulsar_without_one_method_lacks_one_ability(ability: Ability) -> None:
    name = list_members(PROTOCOLS[ability])[0]
    parts = ("provisioning", "administration", "observation")
    without = {part: type("Part", (getattr(PULSAR, part),), {name: None}) for part in parts}
    system = type("Lacking", (Pulsar,), {**without, name: None})()
    assert find_abilities(system) == set(Ability) - {ability}


def test_a_part_that_implements_a_protocol_is_returned() -> None:
    part = SimpleNamespace(reassign=lambda cluster=None: None)
    assert require(part, ReassignsTopics) is part


def test_a_part_that_does_not_implement_a_protocol_is_refused() -> None:
    with pytest.raises(RunError, match="Bare does not implement CountsMissingCopies"):
        require(Bare(), CountsMissingCopies)


def test_pulsar_s_observation_confirms_acks_and_a_bare_part_does_not() -> None:
    assert issubclass(PulsarObservation, ConfirmsAcks)
    assert not issubclass(Bare, ConfirmsAcks)


def test_a_system_that_replicates_nothing_has_no_replication_to_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    plant_system(monkeypatch, TESTLOG)
    topology: Any = SimpleNamespace(system="planted")
    observation: Any = Bare()
    assert find_replication_drains(topology, observation) == []


def test_replication_that_cannot_be_asked_for_is_no_proof_of_a_drain() -> None:
    topology: Any = SimpleNamespace(system="pulsar")
    observation: Any = Bare()
    with pytest.raises(RunError, match="Bare does not implement ObservesReplication"):
        find_replication_drains(topology, observation)
