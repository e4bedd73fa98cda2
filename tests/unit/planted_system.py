"""A messaging system whose clients and cluster are what a test gives, found as a user's own system is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from types import SimpleNamespace
from typing import Any

import pytest
from brokerproof.experiment.abilities import Ability
from brokerproof.run.directory import Run
from brokerproof.systems.pulsar.system import Pulsar

# Has a scenario run on it: `load_scenario(file, topologies, {**ON_PLANTED, …})`.
ON_PLANTED = {"overrides.system": "planted"}


class PlantedSystem(Pulsar):
    """Has Pulsar's roles and topologies, and none of its servers."""

    name = "planted"

    def __init__(
        self,
        *,
        clients: Callable[[str], Any] | None = None,
        cluster: object = None,
        nodes: object = None,
        abilities: Collection[Ability] = tuple(Ability),
    ) -> None:
        """`clients` makes those of a cluster by its name; `cluster` is asked and administered, `nodes` provisioned."""
        self._clients, self._cluster, self._nodes = clients, cluster, nodes
        self.abilities = frozenset(abilities)

    def fetch(self, version: str, say: Callable[[str], None]) -> None:
        """Nothing."""

    def provisioning(self, run: Run) -> Any:
        return self._nodes

    def administration(self, run: Run) -> Any:
        return self._cluster

    def observation(self, run: Run, *, patience_s: float = 10.0) -> Any:
        return self._cluster

    def clients(self, run: Run, cluster: str, region: str | None = None) -> Any:
        assert self._clients is not None, "the test plants no clients"
        return self._clients(cluster)


def plant_system(monkeypatch: pytest.MonkeyPatch, system: object, name: str = "planted") -> None:
    """Have the registry find the system by the setting for systems that are not built in."""
    monkeypatch.setitem(sys.modules, "planted_system", SimpleNamespace(SYSTEM=system))
    monkeypatch.setenv("BROKERPROOF_SYSTEMS", f"{name}=planted_system:SYSTEM")
