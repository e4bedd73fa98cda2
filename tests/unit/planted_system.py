"""A messaging system whose clients and cluster are what a test gives, found as a user's own system is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from brokerproof.run.directory import Run
from brokerproof.systems.pulsar.observation import PulsarObservation
from brokerproof.systems.pulsar.provisioning import PulsarProvisioning
from brokerproof.systems.pulsar.system import Pulsar, PulsarAdministration

# Has a scenario run on it: `load_scenario(file, topologies, {**ON_PLANTED, …})`.
ON_PLANTED = {"overrides.system": "planted"}


class PlantedSystem(Pulsar):
    """Has Pulsar's roles and topologies, and none of its servers."""

    name = "planted"

    def __init__(
        self, *, clients: Callable[[str], Any] | None = None, cluster: object = None, nodes: object = None
    ) -> None:
        """`clients` makes those of a cluster by its name; `cluster` is asked and administered, `nodes` provisioned."""
        self._clients = clients
        self.provisioning = make_part(PulsarProvisioning, nodes)
        self.administration = make_part(PulsarAdministration, cluster)
        self.observation = make_part(PulsarObservation, cluster)

    # Nothing has to be fetched.
    fetch = None  # type: ignore[assignment]

    def clients(self, run: Run, cluster: str, region: str | None = None) -> Any:
        assert self._clients is not None, "the test plants no clients"
        return self._clients(cluster)


def make_part(pulsar: type, part: object) -> Any:
    """A class with the methods of Pulsar's part, so that scenarios may need them. Its only instance is `part`."""
    return type("PlantedPart", (pulsar,), {"__new__": lambda *_, **__: part})


def plant_system(monkeypatch: pytest.MonkeyPatch, system: object, name: str = "planted") -> None:
    """Have the registry find the system by the setting for systems that are not built in."""
    monkeypatch.setitem(sys.modules, "planted_system", SimpleNamespace(SYSTEM=system))
    monkeypatch.setenv("BROKERPROOF_SYSTEMS", f"{name}=planted_system:SYSTEM")
