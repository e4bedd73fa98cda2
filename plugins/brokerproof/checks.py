"""Loads a scenario with its topology, and checks it against the systems, runtimes and faults that there are.

Everything that starts a run begins here: the DAG files, the command line, `reserve`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from brokerproof.errors import InputError
from brokerproof.experiment.layered_file import extend_field
from brokerproof.experiment.scenario import DEFAULT_VERSION, Scenario
from brokerproof.experiment.topology import Topology, read_topology
from brokerproof.experiment.yaml_models import apply_overrides, parse, read_yaml, suggest_name
from brokerproof.faults.registry import FAULT_KINDS
from brokerproof.runtimes.registry import RUNTIMES
from brokerproof.systems.destinations import clusters_reached
from brokerproof.systems.registry import system_of
from brokerproof.systems.roles import check_roles


def load_scenario(path: Path, topologies: Path, settings: Mapping[str, Any] | None = None) -> tuple[Scenario, Topology]:
    """The scenario in a file and its topology, checked against each other.

    `settings` replaces values by dotted path, as `--set` does. Raises InputError.
    """
    extended = extend_field(read_yaml(path), "settings", topologies / "settings", file=path)
    content = apply_overrides(extended, settings or {}, source="--set")
    scenario = parse(Scenario, {"name": path.stem, **content}, file=str(path))
    if scenario.name != path.stem:
        raise InputError(
            f"is `{scenario.name}`, not the file's name", file=str(path), field="name", remedy="leave it out"
        )
    try:
        topology = load_topology(scenario.topology, topologies, scenario.overrides)
        system = system_of(topology)
        for role in scenario.settings:
            _known(role, system.roles, f"role of {system.name}", f"settings.{role}")
        settings = {
            role: {**topology.settings.get(role, {}), **scenario.settings.get(role, {})} for role in system.roles
        }
        topology = topology.model_copy(update={"settings": settings})
        if scenario.version == DEFAULT_VERSION:
            scenario = scenario.model_copy(update={"version": system.default_version})
        check(scenario, topology)
    except InputError as error:
        if error.file:
            raise
        raise InputError(error.problem, file=str(path), field=error.field, remedy=error.remedy) from None
    return scenario, topology


def load_topology(name: str, directory: Path, overrides: Mapping[str, Any] | None = None) -> Topology:
    """The topology in `directory/name.yaml`, checked by its system and with all defaults. Raises InputError."""
    return read_topology(name, directory, overrides, check=check_topology)


def check_topology(topology: Topology) -> Topology:
    """The topology with all defaults of its system. Raises InputError where the system cannot run it."""
    system = system_of(topology)
    check_roles(topology, system)
    heaps = {role: traits.heap_mb for role, traits in system.roles.items() if traits.heap_mb is not None}
    return system.validate(topology.model_copy(update={"heap_mb": heaps | topology.heap_mb}))


def check(scenario: Scenario, topology: Topology) -> None:
    """Raises InputError where the scenario names something that the topology or Brokerproof does not have."""
    system = system_of(topology)
    _known(scenario.version, system.versions(), "pinned version", "version")
    _known(scenario.runtime, RUNTIMES, "runtime", "runtime")
    for index, fault in enumerate(scenario.faults):
        at = f"faults.{index}"
        if fault.kind not in FAULT_KINDS:
            raise InputError(
                f"no fault kind is called `{fault.kind}`",
                field=f"{at}.kind",
                remedy=suggest_name(fault.kind, FAULT_KINDS),
            )
        for node in fault.targets.nodes:
            _known(node, topology.nodes, "node", f"{at}.targets.nodes")
        if fault.targets.region:
            _known(fault.targets.region, topology.regions, "region", f"{at}.targets.region")
        if fault.targets.role:
            _known(fault.targets.role, system.roles, f"role of {system.name}", f"{at}.targets.role")
        if fault.targets.cluster:
            _known(fault.targets.cluster, topology.clusters, "cluster", f"{at}.targets.cluster")
        try:
            FAULT_KINDS[fault.kind].check(fault, topology)
        except InputError as error:
            raise InputError(error.problem, field=f"{at}.{error.field}", remedy=error.remedy) from None
    workload = scenario.workload
    for index, cluster in enumerate(workload.produce_on):
        _known(cluster, topology.clusters, "cluster", f"workload.produce_on.{index}")
    system.check(scenario, topology)
    _check_subscriptions(scenario, topology)
    for index, cluster in enumerate(scenario.destroyed):
        _known(cluster, topology.clusters, "cluster", f"destroyed.{index}")
    placed = {
        "workload.region": workload.region,
        **{f"workload.subscriptions.{index}.region": one.region for index, one in enumerate(workload.subscriptions)},
    }
    for field, region in placed.items():
        if region is None:
            continue
        _known(region, topology.regions, "region", field)
        if not topology.links:
            raise InputError(
                f"topology `{scenario.topology}` has no links, so that its clients are in no region",
                field=field,
                remedy="leave it out, or use a topology with `links`",
            )
    for phase in ("steady", "recovery"):
        region = getattr(scenario.owner, phase)
        if region is not None:
            _known(region, topology.regions, "region", f"owner.{phase}")


def _check_subscriptions(scenario: Scenario, topology: Topology) -> None:
    workload, system = scenario.workload, system_of(topology)
    topic, reached = system.topic(workload), clusters_reached(topology, workload)
    places: set[tuple[str, str]] = set()
    for index, subscription in enumerate(workload.subscriptions):
        at = f"workload.subscriptions.{index}"
        fields = [f"{at}.cluster", f"{at}.moves.to"]
        for cluster, field in zip(subscription.places(topology), fields, strict=False):
            _known(cluster, topology.clusters, "cluster", field)
            if cluster not in reached:
                raise InputError(
                    f"nothing that is published reaches `{cluster}`", field=field, remedy=suggest_name(cluster, reached)
                )
            if (cluster, subscription.name) in places:
                raise InputError(
                    f"`{cluster}` has two subscriptions called `{subscription.name}`",
                    field=f"{at}.name",
                    remedy="rename one",
                )
            places.add((cluster, subscription.name))
        if subscription.moves:
            _known(subscription.moves.after, [fault.name for fault in scenario.faults], "fault", f"{at}.moves.after")
        if subscription.replicated and not system.reached(topology, subscription.home(topology), topic)[1:]:
            raise InputError(
                f"`{topic}` is replicated to no other cluster",
                field=f"{at}.replicated",
                remedy="leave it out, or use a topology with `replicated_to`",
            )


def _known(name: str, known: Any, noun: str, field: str) -> None:
    if name not in known:
        raise InputError(f"no {noun} is called `{name}`", field=field, remedy=suggest_name(name, known))
