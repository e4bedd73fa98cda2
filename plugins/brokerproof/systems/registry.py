"""The registry of messaging systems, and functions that make the objects with which a run uses its system.

These objects provide nodes, administer and observe clusters, or connect clients.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from brokerproof.errors import InputError
from brokerproof.experiment.abilities import Ability
from brokerproof.experiment.topology import Topology
from brokerproof.experiment.workload import ClientSettings, Workload
from brokerproof.experiment.yaml_models import parse, suggest_name
from brokerproof.run.directory import Run
from brokerproof.settings import systems_from_environment
from brokerproof.systems.abilities import SeparatesRuns, find_workload_abilities, require
from brokerproof.systems.clients import Clients
from brokerproof.systems.protocols import Administration, Observation, Provisioning, System

# {system: MODULE:ATTRIBUTE of its object}. The module is imported when a topology names the system.
_BUILT_IN: Mapping[str, str] = {"pulsar": "brokerproof.systems.pulsar.system:PULSAR"}


def list_systems() -> list[str]:
    """Return the names of the systems that topologies can use: built-in ones and those in `BROKERPROOF_SYSTEMS`."""
    return list(_list_places())


def load_system(name: str) -> System:
    """Return the system called `name`. Raises InputError if there is none, or if its module cannot be imported."""
    places = _list_places()
    if name not in places:
        raise InputError(f"no system is called `{name}`", field="system", remedy=suggest_name(name, places))
    module, _, attribute = places[name].partition(":")
    try:
        system: System = getattr(import_module(module), attribute)
    except Exception as error:  # An import runs the module's code, which may raise anything.
        raise InputError(
            f"the system `{name}` cannot be imported from {places[name]}: {error!r}",
            field="BROKERPROOF_SYSTEMS",
            remedy="write `name=module:attribute`, and put the module where Python finds it (PYTHONPATH)",
        ) from error
    return system


def find_system(topology: Topology) -> System:
    """Return the system that a topology names. Raises InputError as `load_system` does."""
    return load_system(topology.system)


def parse_client_settings(system: System, workload: Workload) -> ClientSettings:
    """Return the workload's client settings as the system's model.

    Raises InputError, with the field's path in the scenario, if a setting is invalid.
    """
    try:
        return parse(system.client_settings, workload.client.model_dump(), file="")
    except InputError as error:
        raise error.locate(below="workload.client") from None


def list_abilities(run: Run) -> frozenset[Ability]:
    return find_workload_abilities(find_system(run.topology), run.scenario.workload)


def name_topic(run: Run) -> str:
    return find_system(run.topology).topic(use_own_names(run).scenario.workload)


def make_provisioning(run: Run) -> Provisioning:
    return find_system(run.topology).provisioning(run)


def make_administration(run: Run) -> Administration:
    return find_system(run.topology).administration(use_own_names(run))


def make_observation(run: Run, *, patience_s: float = 10.0) -> Observation:
    """Return the object that observes the run's clusters.

    A request waits `patience_s` seconds for a node's answer. Then it goes to the next node.
    """
    return find_system(run.topology).observation(use_own_names(run), patience_s=patience_s)


def make_clients(run: Run, cluster: str, region: str | None = None) -> Clients:
    """Return clients that connect to a cluster of the run from `region`, across the emulated links between regions.

    Without a region, the clients connect to the cluster directly.
    """
    return find_system(run.topology).clients(use_own_names(run), cluster, region)


def use_own_names(run: Run) -> Run:
    """Return the run with the names that its topics have on a cluster that earlier runs used.

    run.json keeps the names of the scenario's file, because runs are compared by its content.
    """
    if run.facts.cluster_use == 1:
        return run
    system = require(find_system(run.topology), SeparatesRuns)
    scenario, topology = system.separate(run.scenario, run.topology, run.facts.cluster_use)
    return run.with_facts(
        scenario=scenario.model_dump(mode="json"), topology=topology.model_dump(mode="json"), cluster_use=1
    )


def _list_places() -> dict[str, str]:
    return {**_BUILT_IN, **systems_from_environment()}
