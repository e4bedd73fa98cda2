"""Loads a scenario and its topology, and checks both against the available messaging systems, runtimes and faults.

If the messaging system or runtime lacks an ability that a scenario needs, the error names the field and a remedy. This
module also checks the files of expectation suites.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from brokerproof.directories import Directories, make_directories
from brokerproof.errors import InputError
from brokerproof.experiment.abilities import Ability
from brokerproof.experiment.fault import Fault
from brokerproof.experiment.guarantees import Anomaly, Guarantee, Suite, is_illegal
from brokerproof.experiment.layered_file import extend_field
from brokerproof.experiment.metrics import METRICS
from brokerproof.experiment.scenario import DEFAULT_VERSION, Scenario
from brokerproof.experiment.topology import Topology, read_topology
from brokerproof.experiment.workload import Client
from brokerproof.experiment.yaml_models import apply_overrides, parse, read_yaml, suggest_name
from brokerproof.faults.registry import FAULT_KINDS
from brokerproof.faults.targets import list_possible_targets
from brokerproof.runtimes.protocols import MEANINGS, EmulatesLinks, RunsImages, SupervisesNodes
from brokerproof.runtimes.registry import RUNTIMES, load_runtime, runtimes_that_can
from brokerproof.settings import variable
from brokerproof.suites.suite_file import read_suite
from brokerproof.suites.suite_names import ENDING
from brokerproof.systems.abilities import find_abilities
from brokerproof.systems.destinations import list_clusters_reached, list_reached
from brokerproof.systems.protocols import System
from brokerproof.systems.registry import find_system, parse_client_settings
from brokerproof.systems.roles import check_roles, coordinates, list_nodes_that

# The ids of the DAGs that do not run a scenario. No scenario may have one of these names.
_RESERVED_NAMES = frozenset({"campaign", "unusable_scenarios"})


def load_scenario(
    path: Path,
    topologies: Path | Directories,
    overrides: Mapping[str, Any] | None = None,
    *,
    suites: Collection[str] | None = None,
) -> tuple[Scenario, Topology]:
    """Return the scenario in the file `path` and the topology that it names, both checked.

    `topologies` is one directory of topology files, or several. `overrides` is {dotted path: value}, as given with
    `--set`, and replaces values in the scenario. `suites` are the names that `expect.failed_suites` may contain; None
    allows every name. Raises InputError if the scenario or the topology cannot be used.
    """
    settings = make_directories(topologies).below("settings")
    extended = extend_field(read_yaml(path), "settings", settings, file=path)
    content = apply_overrides(extended, overrides or {}, source="--set")
    scenario = parse(Scenario, {"name": path.stem, **content}, file=str(path))
    if path.stem in _RESERVED_NAMES:
        raise InputError(
            f"a scenario cannot be called `{path.stem}`, because a DAG is", file=str(path), remedy="rename the file"
        )
    if scenario.name != path.stem:
        raise InputError(
            f"is `{scenario.name}`, not the file's name", file=str(path), field="name", remedy="leave it out"
        )
    if "runtime" not in scenario.model_fields_set:
        # The runtime comes from a setting, so the error must name the setting's variable instead of the file.
        _check_known(scenario.runtime, RUNTIMES, "runtime", variable("runtime"))
    try:
        topology = load_topology(scenario.topology, topologies, scenario.overrides)
        system = find_system(topology)
        for role in scenario.settings:
            _check_known(role, system.roles, f"role of {system.name}", f"settings.{role}")
        topology = topology.model_copy(
            update={
                "settings": {
                    role: {**topology.settings.get(role, {}), **scenario.settings.get(role, {})}
                    for role in system.roles
                }
            }
        )
        if scenario.version == DEFAULT_VERSION:
            scenario = scenario.model_copy(update={"version": system.versions[0]})
        scenario = _fill_client_settings(scenario, system)
        check_scenario(scenario, topology)
        for index, suite in enumerate(scenario.expect.failed_suites if suites is not None else ()):
            _check_known(suite, suites or (), "suite", f"expect.failed_suites.{index}")
    except InputError as error:
        if error.file:
            raise
        raise InputError(error.problem, file=str(path), field=error.field, remedy=error.remedy) from None
    return scenario, topology


def load_topology(name: str, topologies: Path | Directories, overrides: Mapping[str, Any] | None = None) -> Topology:
    """Return the checked topology in `NAME.yaml`, with all defaults. Raises InputError if it cannot be used."""
    return read_topology(name, make_directories(topologies), overrides, check=check_topology)


def check_suites(expectations: Directories) -> None:
    """Raises InputError for the first problem that `list_suite_problems` finds."""
    for problem in list_suite_problems(expectations):
        raise problem


def list_suite_problems(expectations: Directories) -> list[InputError]:
    """Return an error for each unreadable directory of expectation suites, and for each suite that cannot be used.

    A suite cannot be used if its file is invalid, or if two of the user's directories have a file of its name. If the
    file of one of Brokerproof's own suites (the enum `Suite`) is missing, that is an error too.
    """
    problems = expectations.list_problems(ENDING)
    files = expectations.list_files(ENDING)
    named = {error.file for error in problems}
    for suite in (suite for suite in Suite if suite not in files):
        if any(file.endswith(f"/{suite}{ENDING}") for file in named):
            continue
        left_out = expectations.has_left_out(suite, ENDING)
        problems.append(
            InputError(
                f"no directory has {suite}{ENDING}",
                field=expectations.variable,
                remedy="let it end with `:` to have the shipped one" if left_out else "add it",
            )
        )
    for name, file in files.items():
        try:
            read_suite([str(file.parent)], name)
        except InputError as error:
            problems.append(error)
    return problems


def check_topology(topology: Topology) -> Topology:
    """Return the topology with all defaults of its system. Raises InputError if the system cannot run it."""
    system = find_system(topology)
    check_roles(topology, system)
    heaps = {role: traits.heap_mb for role, traits in system.roles.items() if traits.heap_mb is not None}
    return system.validate(topology.model_copy(update={"heap_mb": heaps | topology.heap_mb}))


def check_scenario(scenario: Scenario, topology: Topology) -> None:
    """Raises InputError if the scenario asks for something that does not exist or cannot be done."""
    system = find_system(topology)
    _check_known(scenario.version, system.versions, "pinned version", "version")
    _check_known(scenario.runtime, RUNTIMES, "runtime", "runtime")
    if issubclass(load_runtime(scenario.runtime), RunsImages):
        _check_able(system, Ability.IMAGES, "runtime", remedy="use `runtime: process`")
    if topology.links:
        _check_able(system, Ability.LINKS, "topology", remedy="use a topology without `links`")
        _check_runtime(scenario, EmulatesLinks, field="runtime", otherwise="a topology without `links`")
    if topology.restarted_after_s:
        _check_runtime(scenario, SupervisesNodes, field="runtime", otherwise="a topology without `restart`")
    for index, fault in enumerate(scenario.faults):
        try:
            _check_fault(fault, scenario, topology)
        except InputError as error:
            field = ".".join(filter(None, (f"faults.{index}", error.field)))
            raise InputError(error.problem, field=field, remedy=error.remedy) from None
    for index, cluster in enumerate(scenario.workload.produce_on):
        _check_known(cluster, topology.clusters, "cluster", f"workload.produce_on.{index}")
    system.check(scenario, topology)
    _check_subscriptions(scenario, topology)
    for index, cluster in enumerate(scenario.destroyed):
        _check_known(cluster, topology.clusters, "cluster", f"destroyed.{index}")
    _check_places_of_clients(scenario, topology)
    for phase, region in scenario.owner.by_phase.items():
        _check_known(region, topology.regions, "region", f"owner.{phase}")
    _check_judgement(scenario, topology, system)


def _fill_client_settings(scenario: Scenario, system: System) -> Scenario:
    """Return the scenario with the system's defaults for client settings. Raises InputError for an unusable value."""
    settings = parse_client_settings(system, scenario.workload)
    client = Client.model_validate(settings.model_dump(mode="json"))
    return scenario.model_copy(update={"workload": scenario.workload.model_copy(update={"client": client})})


def _check_fault(fault: Fault, scenario: Scenario, topology: Topology) -> None:
    """Raises InputError if the fault cannot be injected. The error's `field` is a dotted path inside the fault."""
    _check_known(fault.kind, FAULT_KINDS, "fault kind", "kind")
    kind, system, targets = FAULT_KINDS[fault.kind], find_system(topology), fault.targets
    for node in targets.nodes:
        _check_known(node, topology.nodes, "node", "targets.nodes")
    if targets.region:
        _check_known(targets.region, topology.regions, "region", "targets.region")
    if targets.role:
        _check_known(targets.role, system.roles, f"role of {system.name}", "targets.role")
    if targets.cluster:
        _check_known(targets.cluster, topology.clusters, "cluster", "targets.cluster")
    kind.check(fault, topology)
    if kind.needs:
        _check_able(system, kind.needs, "kind", remedy="use another kind of fault")
    if kind.needs_of_runtime:
        _check_runtime(scenario, kind.needs_of_runtime, field="kind", otherwise="another kind of fault")
    if targets.asks_who_leads:
        _check_leader(scenario, topology, targets.cluster)
    elif targets.now not in (None, "topic_owner"):
        _check_able(system, Ability.COPIES, "targets.now", remedy="choose the nodes by name, region or role")
    if not list_possible_targets(targets, topology):
        chosen = targets.model_dump(mode="json", exclude_defaults=True, exclude={"count"})
        words = " and ".join(f"{name} `{value}`" for name, value in chosen.items())
        raise InputError(
            f"no node of `{scenario.topology}` has {words}", field="targets", remedy="leave one of them out"
        )
    if fault.when and fault.when.healthy:
        earlier = next(one for one in scenario.faults if one.name == fault.when.healthy)
        is_known = earlier.kind in FAULT_KINDS
        if is_known and earlier.earliest_heal_s is None and not FAULT_KINDS[earlier.kind].helps:
            raise InputError(
                f"`{earlier.name}` is not healed before the load has ended",
                field="when.healthy",
                remedy=f"give `{earlier.name}` a `heal_after_s` or `heal_at_s`",
            )
    if fault.when and fault.when.rereplicated:
        for ability in (Ability.REPAIR, Ability.UNDER_REPLICATION):
            _check_able(system, ability, "when.rereplicated", remedy="leave it out, or wait with `at_s`")


def _check_leader(scenario: Scenario, topology: Topology, cluster: str | None) -> None:
    """Raises InputError if the system cannot name a cluster's leader, or fewer than two nodes coordinate the cluster.

    `cluster` is the fault's target. If it is None, the first cluster that the workload publishes to is checked.
    """
    otherwise = "choose the nodes by name, region or role"
    _check_able(find_system(topology), Ability.COORDINATORS, "targets.now", remedy=otherwise)
    asked = cluster or scenario.workload.list_homes(topology)[0]
    names = list_nodes_that(coordinates, topology, asked)
    if len(names) < 2:
        raise InputError(
            f"{f'only {names[0]}' if names else 'no node'} coordinates `{asked}`, so no node is elected as its leader",
            field="targets.now",
            remedy=f"{otherwise}, or use a topology with three such nodes, such as `sync_ensemble_witness`",
        )


def _check_subscriptions(scenario: Scenario, topology: Topology) -> None:
    workload, system = scenario.workload, find_system(topology)
    topic, reached = system.topic(workload), list_clusters_reached(topology, workload)
    places: set[tuple[str, str]] = set()
    for index, subscription in enumerate(workload.subscriptions):
        at = f"workload.subscriptions.{index}"
        fields = [f"{at}.cluster", f"{at}.moves.to"]
        if subscription.moves:
            _check_able(system, Ability.MOVING_SUBSCRIPTIONS, f"{at}.moves", remedy="leave it out")
        for cluster, field in zip(subscription.list_clusters(topology), fields, strict=False):
            _check_known(cluster, topology.clusters, "cluster", field)
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
            faults = [fault.name for fault in scenario.faults]
            _check_known(subscription.moves.after, faults, "fault", f"{at}.moves.after")
        if subscription.replicated:
            _check_able(system, Ability.REPLICATED_SUBSCRIPTIONS, f"{at}.replicated", remedy="leave it out")
            if not list_reached(system, topology, subscription.find_home(topology), topic)[1:]:
                raise InputError(
                    f"`{topic}` is replicated to no other cluster",
                    field=f"{at}.replicated",
                    remedy="leave it out, or use a topology with `replicated_to`",
                )


def _check_places_of_clients(scenario: Scenario, topology: Topology) -> None:
    """Raises InputError if clients are in an unknown region, or if they have a region and the topology has no links."""
    workload = scenario.workload
    placed = {
        "workload.region": workload.region,
        **{f"workload.subscriptions.{index}.region": one.region for index, one in enumerate(workload.subscriptions)},
    }
    for field, region in placed.items():
        if region is None:
            continue
        _check_known(region, topology.regions, "region", field)
        if not topology.links:
            raise InputError(
                f"topology `{scenario.topology}` has no links, so that its clients are in no region",
                field=field,
                remedy="leave it out, or use a topology with `links`",
            )


def _check_judgement(scenario: Scenario, topology: Topology, system: System) -> None:
    """Raises InputError if the messaging system lacks an ability that judging the scenario needs.

    The scenario's guarantee may need an ability, and so may each metric and anomaly that it names. Raises InputError
    also if an entry of `loosen`, which permits an anomaly, has no effect.
    """
    if scenario.guarantee is Guarantee.EFFECTIVELY_ONCE:
        _check_able(system, Ability.DEDUPLICATION, "guarantee", remedy="choose another guarantee")
    for anomaly in scenario.loosen:
        _check_loosened(anomaly, scenario, topology)
    for field, needs in _judged(scenario):
        if needs:
            _check_able(system, needs, field, remedy="leave it out")


def _check_loosened(anomaly: Anomaly, scenario: Scenario, topology: Topology) -> None:
    """Raises InputError if the entry of the scenario's `loosen` that permits the anomaly has no effect.

    An entry has no effect if it matches no message, or only messages for which the anomaly is permitted anyway.
    """
    field, messages, facts = f"loosen.{anomaly}", scenario.loosen[anomaly], anomaly.facts
    subscriptions = scenario.workload.subscriptions
    if messages.home is not None:
        homes = scenario.workload.list_homes(topology)
        _check_known(messages.home, homes, "cluster that is published to", f"{field}.home")
    if messages.subscription is not None:
        _check_known(
            messages.subscription, [one.name for one in subscriptions], "subscription", f"{field}.subscription"
        )
        if not facts.at_subscriptions:
            raise InputError(
                f"`{anomaly}` is found in logs, not at a subscription",
                field=f"{field}.subscription",
                remedy="leave it out",
            )
    for name in ("outcome", "home") if not facts.outcomes else ():
        if getattr(messages, name) is not None:
            raise InputError(
                f"a message that is `{anomaly}` was never published, so it has no {name}",
                field=f"{field}.{name}",
                remedy="leave it out",
            )
    if messages.outcome is not None:
        _check_known(messages.outcome, facts.outcomes, f"outcome of `{anomaly}`", f"{field}.outcome")
    # A workload without subscriptions has only logs, which have no subscription type.
    types = [one.type for one in subscriptions if messages.subscription in (None, one.name)] or (None,)
    if not any(is_illegal(anomaly, scenario.guarantee, each, tightened=scenario.tighten) for each in types):
        raise InputError(
            f"`{anomaly}` is legal already under `{scenario.guarantee}`", field=field, remedy="leave it out"
        )


def _judged(scenario: Scenario) -> Iterator[tuple[str, Ability | None]]:
    """Yield each field of the scenario that names a metric or an anomaly, with the ability that judging it needs.

    The ability is None if judging needs no special ability.
    """
    for key in scenario.bounds:
        yield f"bounds.{key}", METRICS[key.split("/")[0]].needs
    for index, anomaly in enumerate(scenario.tighten):
        yield f"tighten.{index}", anomaly.facts.needs
    for anomaly in scenario.loosen:
        yield f"loosen.{anomaly}", anomaly.facts.needs
    for anomaly in scenario.expect.at_least:
        yield f"expect.at_least.{anomaly}", anomaly.facts.needs


def _check_able(system: System, ability: Ability, field: str, *, remedy: str) -> None:
    if ability not in find_abilities(system):
        raise InputError(f"{system.name} cannot {ability.meaning}", field=field, remedy=remedy)


def _check_runtime(scenario: Scenario, ability: type, *, field: str, otherwise: str) -> None:
    if not issubclass(load_runtime(scenario.runtime), ability):
        able = runtimes_that_can(ability)
        raise InputError(
            f"the runtime `{scenario.runtime}` cannot {MEANINGS[ability]}",
            field=field,
            remedy=f"use {' or '.join([*(f'`runtime: {name}`' for name in able), otherwise])}",
        )


def _check_known(name: str, known: Collection[str], noun: str, field: str) -> None:
    if name not in known:
        raise InputError(f"no {noun} is called `{name}`", field=field, remedy=suggest_name(name, known))
