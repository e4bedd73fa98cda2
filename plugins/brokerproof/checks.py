"""Loads a scenario and its topology, and checks both against the available messaging systems, runtimes and faults.

If the messaging system or runtime lacks an ability that a scenario needs, the error names the field and a remedy. This
module also checks the files of expectation suites.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from brokerproof.directories import Directories, make_directories
from brokerproof.errors import InputError, Mistakes
from brokerproof.experiment.abilities import Ability
from brokerproof.experiment.draw import Draw
from brokerproof.experiment.fault import GROW, Fault, When
from brokerproof.experiment.guarantees import Anomaly, Guarantee, Suite
from brokerproof.experiment.layered_file import extend_field
from brokerproof.experiment.metrics import METRICS
from brokerproof.experiment.numbers import join_names
from brokerproof.experiment.scenario import DEFAULT_VERSION, Scenario, list_cases
from brokerproof.experiment.topology import Topology, read_topology
from brokerproof.experiment.workload import Acks, Client, Commit, OnRestart, Workload
from brokerproof.experiment.yaml_models import (
    IDENTIFIER,
    apply_overrides,
    parse,
    read_yaml,
    suggest_name,
    write_value,
)
from brokerproof.faults.registry import FAULT_KINDS, draw_faults, list_destroying_faults, suggest_kind
from brokerproof.faults.targets import list_clients, list_possible_targets
from brokerproof.runtimes.protocols import MEANINGS, EmulatesLinks, RunsImages, SupervisesNodes
from brokerproof.runtimes.registry import RUNTIMES, load_runtime, runtimes_that_can
from brokerproof.settings import variable
from brokerproof.suites.suite_file import read_suite
from brokerproof.suites.suite_names import ENDING
from brokerproof.systems.abilities import explain_lack
from brokerproof.systems.destinations import list_clusters_reached, list_reached
from brokerproof.systems.protocols import System
from brokerproof.systems.registry import find_system, parse_client_settings
from brokerproof.systems.roles import check_roles, coordinates, list_nodes_that

# The ids of the DAGs that do not run a scenario. No scenario may have one of these names.
_RESERVED_NAMES = frozenset({"campaign", "clean_up", "unusable_scenarios"})


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
    file, mistakes = str(path), Mistakes()
    settings = make_directories(topologies).below("settings")
    content = read_yaml(path)
    with mistakes.collect():
        content = extend_field(content, "settings", settings, file=path)
    if mistakes:
        del content["settings"]
    content = apply_overrides(content, overrides or {}, source="--set")
    scenario: Scenario | None = None
    topology: Topology | None = None
    name = path.stem if re.fullmatch(IDENTIFIER, path.stem) else "unnamed"
    with mistakes.collect():
        scenario = parse(Scenario, {**content, "name": name}, file=file)
    if isinstance(named := content.get("topology"), str):
        changes = content.get("overrides")
        usable = (
            {path: value for path, value in changes.items() if isinstance(path, str)}
            if isinstance(changes, Mapping)
            else {}
        )
        with mistakes.collect(file=file):
            topology = load_topology(named, topologies, usable)
    # These names are checked even if the scenario or its topology has other mistakes.
    mistakes.found += [each.locate(file=file) for each in _list_name_mistakes(path.stem, content, suites)]
    if topology is not None:
        with mistakes.collect(file=file):
            if scenario is None:
                Mistakes(_list_unknown_names(content, topology)).raise_all()
            else:
                scenario, topology = _complete(scenario, topology)
    mistakes.raise_all()
    assert scenario is not None
    assert topology is not None
    return scenario, topology


def load_cases(
    path: Path,
    topologies: Path | Directories,
    overrides: Mapping[str, Any] | None = None,
    *,
    suites: Collection[str] | None = None,
) -> list[tuple[Scenario, Topology, dict[str, Any]]]:
    """Return the scenario in the file `path`, its topology, and `overrides`, once for each case of its matrix.

    The overrides then have the case's values too. If `overrides` has a `case`, only this one is returned. Arguments and
    errors are those of `load_scenario`; an error in a case names it.
    """
    whole, topology = load_scenario(path, topologies, overrides, suites=suites)
    found: list[tuple[Scenario, Topology, dict[str, Any]]] = []
    mistakes = Mistakes()
    cases = {case.name: case for case in list_cases(whole.matrix)}
    if whole.case:
        mistakes.found += _find_unknown(whole.case, cases, "case", "case")
        cases = {whole.case: cases[whole.case]} if whole.case in cases else {}
    for case in cases.values():
        if not case.name:
            return [(whole, topology, dict(overrides or {}))]
        changes = {**case.overrides, "case": case.name, **(overrides or {})}
        try:
            found.append((*load_scenario(path, topologies, changes, suites=suites), changes))
        except InputError as error:
            mistakes.found += [
                InputError(
                    f"{each.problem}, in the case {case.name}", file=each.file, field=each.field, remedy=each.remedy
                )
                for each in error.mistakes
            ]
    mistakes.raise_all()
    return found


def _list_name_mistakes(stem: str, content: Mapping[str, Any], suites: Collection[str] | None) -> Iterator[InputError]:
    """Yield the mistakes in a scenario's name, in the kinds of its faults, and in the suites that it expects to fail.

    `content` may have any other mistakes.
    """
    if not re.fullmatch(IDENTIFIER, stem):
        yield InputError(
            f"a scenario cannot be called `{stem}`",
            remedy="rename the file: use lower-case letters, digits and `_`, with a letter first",
        )
    if stem in _RESERVED_NAMES:
        yield InputError(f"a scenario cannot be called `{stem}`, because a DAG is", remedy="rename the file")
    if (own := content.get("name", stem)) != stem:
        yield InputError(f"is `{write_value(own)}`, not the file's name", field="name", remedy="leave it out")
    faults, expect = content.get("faults"), content.get("expect")
    for index, fault in enumerate(faults if isinstance(faults, list) else ()):
        kind = fault.get("kind") if isinstance(fault, Mapping) else None
        if isinstance(kind, str) and kind not in FAULT_KINDS:
            yield InputError(
                f"no fault kind is called `{kind}`", field=f"faults.{index}.kind", remedy=suggest_kind(kind)
            )
    failed = expect.get("failed_suites") if isinstance(expect, Mapping) else None
    for index, suite in enumerate(failed if isinstance(failed, list) and suites is not None else ()):
        if isinstance(suite, str):
            yield from _find_unknown(suite, suites or (), "suite", f"expect.failed_suites.{index}")


def _complete(scenario: Scenario, topology: Topology) -> tuple[Scenario, Topology]:
    """Return a scenario with its system's defaults, and its topology with the scenario's settings, both checked."""
    system, mistakes = find_system(topology), Mistakes()
    topology = topology.model_copy(
        update={
            "settings": {
                role: {**topology.settings.get(role, {}), **scenario.settings.get(role, {})} for role in system.roles
            }
        }
    )
    if scenario.version == DEFAULT_VERSION:
        scenario = scenario.model_copy(update={"version": system.versions[0]})
    with mistakes.collect():
        scenario = _fill_client_settings(scenario, system)
    with mistakes.collect():
        check_scenario(scenario, topology)
    mistakes.raise_all()
    if scenario.draw is not None and scenario.draw.seed is not None:
        given = {field: getattr(scenario, field) for field in scenario.model_fields_set}
        faults = [*scenario.faults, *draw_faults(scenario, scenario.draw.seed)]
        scenario = Scenario.model_validate({**given, "faults": faults})
    return scenario, topology


def load_topology(name: str, topologies: Path | Directories, overrides: Mapping[str, Any] | None = None) -> Topology:
    """Return the checked topology in `NAME.yaml`, with all defaults. Raises InputError if it cannot be used."""
    return read_topology(name, make_directories(topologies), overrides, check=check_topology)


def check_suites(expectations: Directories) -> None:
    """Raises InputError for the problems that `list_suite_problems` finds."""
    Mistakes(list_suite_problems(expectations)).raise_all()


def list_suite_problems(expectations: Directories) -> list[InputError]:
    """Return an error for each unreadable directory of expectation suites, and for each suite that cannot be used.

    A suite cannot be used if its file is invalid, or if two of the user's directories have a file of its name. If the
    file of one of Brokerproof's own suites (the enum `Suite`) is missing, that is an error too.
    """
    problems = expectations.list_problems(ENDING)
    files = expectations.list_files(ENDING)
    named = {PurePath(error.file).name for error in problems}
    missing = [suite for suite in Suite if suite not in files and f"{suite}{ENDING}" not in named]
    if missing:
        left_out = all(expectations.has_left_out(suite, ENDING) for suite in missing)
        problems.append(
            InputError(
                f"no directory has {join_names(f'{suite}{ENDING}' for suite in missing)}",
                field=expectations.variable,
                remedy=f"let it end with `:` to have the shipped {'one' if len(missing) == 1 else 'ones'}"
                if left_out
                else f"add {'it' if len(missing) == 1 else 'them'}",
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
    unknown = list(_list_unknown_names(scenario.model_dump(mode="json", exclude_unset=True), topology))

    def are_known(at: str) -> bool:
        return not any(f"{mistake.field}.".startswith(f"{at}.") for mistake in unknown)

    mistakes, homes_are_known, topic_is_known = Mistakes(unknown), are_known("workload.produce_on"), False
    with mistakes.collect():
        _check_platform(scenario, topology, system)
    for index, fault in enumerate(scenario.faults):
        at = f"faults.{index}"
        targets_are_known = are_known(f"{at}.targets")
        found = _list_fault_mistakes(fault, scenario, topology, targets_are_known, homes_are_known)
        mistakes.found += [mistake.locate(below=at) for mistake in found]
    if scenario.draw is not None:
        mistakes.found += _list_draw_mistakes(scenario.draw, scenario, topology, are_known, homes_are_known)
    if homes_are_known:
        with mistakes.collect():
            system.check(scenario, topology)
            topic_is_known = True
    mistakes.found += _list_subscription_mistakes(scenario, topology, topic_is_known=topic_is_known)
    mistakes.found += _list_destruction_mistakes(scenario)
    mistakes.found += _list_client_place_mistakes(scenario, topology)
    mistakes.found += _list_judgement_mistakes(scenario, topology, system)
    mistakes.raise_all()


def _list_unknown_names(content: Mapping[str, Any], topology: Topology) -> Iterator[InputError]:
    """Yield a mistake for each name in a scenario's content that its topology and the system do not have.

    `content` may have any other mistakes.
    """
    system = find_system(topology)
    clusters, regions = ("cluster", topology.clusters), ("region", topology.regions)
    roles: tuple[str, Collection[str]] = (f"role of {system.name}", system.roles)
    kinds: Mapping[str, tuple[str, Collection[str]]] = {
        "runtime": ("runtime", RUNTIMES),
        "version": ("pinned version", (DEFAULT_VERSION, *system.versions)),
        **{
            f"{faults}.*.targets.{field}": known
            for faults in ("faults", "draw.moves")
            for field, known in {
                "nodes": ("node", topology.nodes),
                "cluster": clusters,
                "region": regions,
                "role": roles,
            }.items()
        },
        "workload.produce_on.*": clusters,
        "workload.region": regions,
        "workload.subscriptions.*.cluster": clusters,
        "workload.subscriptions.*.moves.to": clusters,
        "workload.subscriptions.*.region": regions,
        "destroyed.*": clusters,
        "owner.*": regions,
    }
    for pattern, (noun, known) in kinds.items():
        for field, value in _find_values(content, pattern.split(".")):
            for name in value if isinstance(value, list) else [value]:
                if isinstance(name, str) and name not in known:
                    remedy = suggest_name(name, set(known) - {DEFAULT_VERSION})
                    yield InputError(f"no {noun} is called `{name}`", field=field, remedy=remedy)
    settings = content.get("settings")
    for role in settings if isinstance(settings, Mapping) else ():
        yield from _find_unknown(str(role), system.roles, roles[0], f"settings.{role}")


def _find_values(content: Any, path: Sequence[str], at: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted path, value) for each value at `path`, in which `*` is every key or index."""
    if not path:
        yield at, content
        return
    name, *rest = path
    items = content.items() if isinstance(content, Mapping) else enumerate(content) if isinstance(content, list) else ()
    for key, value in items:
        if name in ("*", key):
            yield from _find_values(value, rest, f"{at}.{key}" if at else str(key))


def _check_platform(scenario: Scenario, topology: Topology, system: System) -> None:
    """Raises InputError if a setting names an unknown runtime, or if runtime or system cannot run such a topology."""
    if scenario.runtime not in RUNTIMES:
        if "runtime" in scenario.model_fields_set:
            return
        remedy = suggest_name(scenario.runtime, RUNTIMES)
        raise InputError(f"no runtime is called `{scenario.runtime}`", file=variable("runtime"), remedy=remedy)
    mistakes = Mistakes()
    if issubclass(load_runtime(scenario.runtime), RunsImages):
        mistakes.found += _find_inability(
            system, scenario.workload, Ability.IMAGES, "runtime", remedy="use `runtime: process`"
        )
    if topology.links:
        mistakes.found += _find_inability(
            system, scenario.workload, Ability.LINKS, "topology", remedy="use a topology without `links`"
        )
        mistakes.found += _find_inability_of_runtime(scenario, EmulatesLinks, "runtime", "a topology without `links`")
    if topology.restarted_after_s:
        mistakes.found += _find_inability_of_runtime(
            scenario, SupervisesNodes, "runtime", "a topology without `restart`"
        )
    mistakes.raise_all()


def _fill_client_settings(scenario: Scenario, system: System) -> Scenario:
    """Return the scenario with the system's defaults for client settings. Raises InputError for an unusable value."""
    settings = parse_client_settings(system, scenario.workload)
    client = Client.model_validate(settings.model_dump(mode="json"))
    return scenario.model_copy(update={"workload": scenario.workload.model_copy(update={"client": client})})


def _list_fault_mistakes(
    fault: Fault, scenario: Scenario, topology: Topology, targets_are_known: bool, homes_are_known: bool
) -> Iterator[InputError]:
    """Yield the reasons why the fault cannot be injected. The field of each is a dotted path inside the fault.

    `targets_are_known` says whether the topology has all that `fault.targets` names, and `homes_are_known` whether it
    has the clusters that the workload publishes to.
    """
    system, targets = find_system(topology), fault.targets
    if fault.kind not in FAULT_KINDS:
        yield InputError(f"no fault kind is called `{fault.kind}`", field="kind", remedy=suggest_kind(fault.kind))
    else:
        kind, mistakes = FAULT_KINDS[fault.kind], Mistakes()
        with mistakes.collect():
            kind.check(fault, topology)
        yield from mistakes.found
        if fault.kind == GROW:
            yield from _list_growth_mistakes(fault, scenario)
        if kind.needs:
            yield from _find_inability(
                system, scenario.workload, kind.needs, "kind", remedy="use another kind of fault"
            )
        of_runtime = kind.needs_of_runtime if targets.client is None else None
        if of_runtime and scenario.runtime in RUNTIMES and not mistakes:
            yield from _find_inability_of_runtime(scenario, of_runtime, "kind", "another kind of fault")
    if targets.asks_who_leads:
        if targets_are_known and homes_are_known:
            yield from _find_no_leader(scenario, topology, targets.cluster)
    elif targets.client is None and targets.now not in (None, "topic_owner"):
        otherwise = "choose the nodes by name, region or role"
        yield from _find_inability(system, scenario.workload, Ability.COPIES, "targets.now", remedy=otherwise)
    if targets.client is not None:
        yield from _list_client_mistakes(fault, scenario, topology)
    elif targets_are_known and not list_possible_targets(targets, topology):
        chosen = targets.model_dump(mode="json", exclude_defaults=True, exclude={"count"})
        words = " and ".join(f"{name} `{value}`" for name, value in chosen.items())
        yield InputError(
            f"no node of `{scenario.topology}` has {words}", field="targets", remedy="leave one of them out"
        )
    for field, condition in fault.conditions.items():
        for mistake in _list_condition_mistakes(condition, scenario, system):
            yield mistake.locate(below=field)


def _list_draw_mistakes(
    draw: Draw, scenario: Scenario, topology: Topology, are_known: Callable[[str], bool], homes_are_known: bool
) -> Iterator[InputError]:
    """Yield the reasons why a fault of `draw` could not be injected. The other arguments are those of faults."""
    for name in draw.moves:
        at = f"draw.moves.{name}"
        fault = draw.make_fault(name)
        for mistake in _list_fault_mistakes(fault, scenario, topology, are_known(f"{at}.targets"), homes_are_known):
            yield mistake.locate(below=at)
        if fault.kind in FAULT_KINDS and FAULT_KINDS[fault.kind].destroys:
            system, remedy = find_system(topology), "leave it out, because nothing shows when data may be wiped again"
            for ability in (Ability.REPAIR, Ability.UNDER_REPLICATION):
                yield from _find_inability(system, scenario.workload, ability, f"{at}.kind", remedy=remedy)


def _list_condition_mistakes(when: When, scenario: Scenario, system: System) -> Iterator[InputError]:
    """Yield the reasons why a fault cannot wait for a condition. The field of each is one of the condition."""
    condition, name = when.earlier_fault
    earlier = next(one for one in scenario.faults if one.name == name)
    if condition == "rereplicated":
        if earlier.targets.client:
            yield InputError(f"`{name}` is done to clients", field=condition, remedy="name a fault of nodes")
        for ability in (Ability.REPAIR, Ability.UNDER_REPLICATION):
            remedy = "leave it out, or wait with `at_s`"
            yield from _find_inability(system, scenario.workload, ability, condition, remedy=remedy)
    is_known = earlier.kind in FAULT_KINDS
    if condition == "healthy" and is_known and earlier.earliest_heal_s is None and not FAULT_KINDS[earlier.kind].helps:
        yield InputError(
            f"`{name}` is not healed before the load has ended",
            field=condition,
            remedy=f"give `{name}` a `heal_after_s` or `heal_at_s`",
        )


def _list_growth_mistakes(fault: Fault, scenario: Scenario) -> Iterator[InputError]:
    """Yield the reasons why a fault cannot give the topic more partitions."""
    if scenario.workload.grows_to is None:
        yield InputError(
            "the topic keeps its partitions", field="kind", remedy="add `workload.grows_to`, or use another kind"
        )
    first = next(each for each in scenario.faults if each.kind == GROW)
    if fault.name != first.name:
        yield InputError(
            f"`{first.name}` gives the topic all its partitions", field="kind", remedy="leave one of the two out"
        )


def _list_client_mistakes(fault: Fault, scenario: Scenario, topology: Topology) -> Iterator[InputError]:
    """Yield the reasons why a fault cannot act on the clients that its targets select."""
    targets, workload = fault.targets, scenario.workload
    clients = workload.list_clients(topology, targets.client) if targets.client else []
    labels = [client.label for client in clients]
    unknown = [name for name in targets.names if name not in {*labels, *(client.name for client in clients)}]
    for name in unknown:
        yield InputError(
            f"no {targets.client} is called `{name}`", field="targets.names", remedy=suggest_name(name, labels)
        )
    subscriptions = [one.name for one in workload.subscriptions]
    if targets.subscription is not None and targets.subscription not in subscriptions:
        yield from _find_unknown(targets.subscription, subscriptions, "subscription", "targets.subscription")
    elif not unknown and not list_clients(targets, workload, topology):
        yield InputError(f"no {targets.client} fits them", field="targets", remedy="leave one of them out")


def _find_no_leader(scenario: Scenario, topology: Topology, cluster: str | None) -> list[InputError]:
    """Return an error if the system cannot name a cluster's leader, or fewer than two nodes coordinate the cluster.

    `cluster` is the fault's target. If it is None, the first cluster that the workload publishes to is checked.
    """
    otherwise = "choose the nodes by name, region or role"
    if unable := _find_inability(
        find_system(topology), scenario.workload, Ability.COORDINATORS, "targets.now", remedy=otherwise
    ):
        return unable
    asked = cluster or scenario.workload.list_homes(topology)[0]
    names = list_nodes_that(coordinates, topology, asked)
    if len(names) > 1:
        return []
    problem = f"{f'only {names[0]}' if names else 'no node'} coordinates `{asked}`, so no node is elected as its leader"
    remedy = f"{otherwise}, or use a topology with three such nodes, such as `sync_ensemble_witness`"
    return [InputError(problem, field="targets.now", remedy=remedy)]


_ABILITIES_OF_ACKS = {Acks.INDIVIDUAL: Ability.INDIVIDUAL_ACKS, Acks.CUMULATIVE: Ability.CUMULATIVE_ACKS}


def _list_subscription_mistakes(
    scenario: Scenario, topology: Topology, *, topic_is_known: bool
) -> Iterator[InputError]:
    """Yield the mistakes in the subscriptions. If the topic is not known, nothing that depends on it is checked."""
    workload, system = scenario.workload, find_system(topology)
    reached = list_clusters_reached(topology, workload) if topic_is_known else None
    places: set[tuple[str, str]] = set()
    for index, subscription in enumerate(workload.subscriptions):
        at = f"workload.subscriptions.{index}"
        fields = [f"{at}.cluster", f"{at}.moves.to"]
        if subscription.moves:
            yield from _find_inability(
                system, scenario.workload, Ability.MOVING_SUBSCRIPTIONS, f"{at}.moves", remedy="leave it out"
            )
            faults = [fault.name for fault in scenario.faults]
            yield from _find_unknown(subscription.moves.after, faults, "fault", f"{at}.moves.after")
        if subscription.negative_ack_every is not None:
            field = f"{at}.negative_ack_every"
            yield from _find_inability(system, workload, Ability.NEGATIVE_ACKS, field, remedy="leave it out")
        if subscription.commit is Commit.BEFORE:
            yield from _find_inability(
                system,
                scenario.workload,
                Ability.CONFIRMED_ACKS,
                f"{at}.commit",
                remedy="use `commit: after` or `commit: by_key`",
            )
        if subscription.acks is not None:
            yield from _find_inability(
                system, workload, _ABILITIES_OF_ACKS[subscription.acks], f"{at}.acks", remedy="leave it out"
            )
        for cluster, field in zip(subscription.list_clusters(topology), fields, strict=False):
            if reached is not None and cluster in topology.clusters and cluster not in reached:
                yield InputError(
                    f"nothing that is published reaches `{cluster}`", field=field, remedy=suggest_name(cluster, reached)
                )
            if (cluster, subscription.name) in places:
                yield InputError(
                    f"`{cluster}` has two subscriptions called `{subscription.name}`",
                    field=f"{at}.name",
                    remedy="rename one",
                )
            places.add((cluster, subscription.name))
        if subscription.replicated:
            home, field = subscription.find_home(topology), f"{at}.replicated"
            unable = _find_inability(
                system, scenario.workload, Ability.REPLICATED_SUBSCRIPTIONS, field, remedy="leave it out"
            )
            yield from unable
            if unable or reached is None or home not in topology.clusters:
                continue
            topic = system.topic(workload)
            if not list_reached(system, topology, home, topic)[1:]:
                yield InputError(
                    f"`{topic}` is replicated to no other cluster",
                    field=field,
                    remedy="leave it out, or use a topology with `replicated_to`",
                )


def _list_destruction_mistakes(scenario: Scenario) -> Iterator[InputError]:
    """Yield the mistakes in `destroyed`: no fault that destroys, or losses that nothing bounds."""
    destroying = list_destroying_faults(scenario)
    # A fault of an unknown kind may be meant to destroy.
    if scenario.destroyed and not destroying and all(fault.kind in FAULT_KINDS for fault in scenario.faults):
        yield InputError("no fault destroys anything", field="destroyed", remedy="leave it out or add a `destroy`")
    for name in destroying if scenario.destroyed else ():
        bound = scenario.bound("rpo_messages", name)
        if bound is None or bound.max is None:
            yield InputError(
                f"`rpo_messages` has no maximum for `{name}`, so nothing bounds what `destroyed` may lose",
                field="bounds",
                remedy=f"give `rpo_messages` or `rpo_messages/{name}` a `max`",
            )


def _list_client_place_mistakes(scenario: Scenario, topology: Topology) -> Iterator[InputError]:
    """Yield a mistake for clients that are in a region although the topology has no links."""
    workload = scenario.workload
    placed = {
        "workload.region": workload.region,
        **{f"workload.subscriptions.{index}.region": one.region for index, one in enumerate(workload.subscriptions)},
    }
    for field, region in placed.items():
        if region in topology.regions and not topology.links:
            yield InputError(
                f"topology `{scenario.topology}` has no links, so that its clients are in no region",
                field=field,
                remedy="leave it out, or use a topology with `links`",
            )


def _list_judgement_mistakes(scenario: Scenario, topology: Topology, system: System) -> Iterator[InputError]:
    """Yield an error for each ability that judging the scenario needs and that the messaging system lacks.

    The scenario's guarantee may need an ability, and so may each metric and anomaly that it names. Also yield an error
    for each entry of `loosen`, which permits an anomaly, that has no effect.
    """
    if not scenario.workload.is_stored:
        yield from _list_unstored_mistakes(scenario, system)
    if scenario.guarantee is Guarantee.EFFECTIVELY_ONCE:
        yield from _find_inability(
            system, scenario.workload, Ability.DEDUPLICATION, "guarantee", remedy="choose another guarantee"
        )
    if scenario.workload.client.on_restart is OnRestart.CONTINUE:
        at = "workload.client.on_restart"
        yield from _find_inability(system, scenario.workload, Ability.DEDUPLICATION, at, remedy="use `resend`")
    if scenario.workload.grows_to is not None and GROW not in {fault.kind for fault in scenario.faults}:
        yield InputError(
            "no fault gives the topic more partitions",
            field="workload.grows_to",
            remedy=f"add a fault of the kind `{GROW}`, or leave it out",
        )
    for anomaly in scenario.loosen:
        yield from _list_loosened_mistakes(anomaly, scenario, topology)
    for field, needs in _judged(scenario):
        if needs:
            yield from _find_inability(system, scenario.workload, needs, field, remedy="leave it out")


def _list_unstored_mistakes(scenario: Scenario, system: System) -> Iterator[InputError]:
    """Yield the reasons why the scenario's topic cannot be one that stores no messages."""
    workload, field = scenario.workload, "workload.stored"
    yield from _find_inability(system, workload, Ability.UNSTORED_TOPICS, field, remedy="leave it out")
    if scenario.guarantee is not Guarantee.AT_MOST_ONCE:
        yield InputError(
            f"a topic that stores no messages does not keep them `{scenario.guarantee}`",
            field="guarantee",
            remedy="give `at_most_once`",
        )
    if "missed_messages" not in {key.split("/")[0] for key in scenario.bounds}:
        yield InputError(
            "nothing bounds what subscriptions may miss, so the scenario cannot fail by it",
            field="bounds",
            remedy="add `missed_messages: {max: …}`",
        )
    for index, subscription in enumerate(workload.subscriptions):
        if subscription.streaming is not None:
            yield InputError(
                "a streaming query reads a log, and the topic has none",
                field=f"workload.subscriptions.{index}.streaming",
                remedy="leave it out",
            )


def _list_loosened_mistakes(anomaly: Anomaly, scenario: Scenario, topology: Topology) -> list[InputError]:
    """Return errors if the entry of the scenario's `loosen` that permits the anomaly has no effect.

    An entry has no effect if it matches no message, or only messages for which the anomaly is permitted anyway.
    """
    field, messages, facts = f"loosen.{anomaly}", scenario.loosen[anomaly], anomaly.facts
    subscriptions, mistakes = scenario.workload.subscriptions, list[InputError]()
    if not facts.outcomes:
        mistakes += [
            InputError(
                f"a message that is `{anomaly}` was never published, so it has no {name}",
                field=f"{field}.{name}",
                remedy="leave it out",
            )
            for name in ("outcome", "home")
            if getattr(messages, name) is not None
        ]
    else:
        homes = scenario.workload.list_homes(topology)
        mistakes += _find_unknown(messages.home, homes, "cluster that is published to", f"{field}.home")
        mistakes += _find_unknown(messages.outcome, facts.outcomes, f"outcome of `{anomaly}`", f"{field}.outcome")
    if messages.subscription is not None and not facts.at_subscriptions:
        mistakes.append(
            InputError(
                f"`{anomaly}` is found in logs, not at a subscription",
                field=f"{field}.subscription",
                remedy="leave it out",
            )
        )
    else:
        names = [one.name for one in subscriptions]
        mistakes += _find_unknown(messages.subscription, names, "subscription", f"{field}.subscription")
    # A workload without subscriptions has only logs.
    places = [one for one in subscriptions if messages.subscription in (None, one.name)] or (None,)
    if not mistakes and not any(scenario.forbids(anomaly, each) for each in places):
        mistakes.append(
            InputError(f"`{anomaly}` is legal already under `{scenario.guarantee}`", field=field, remedy="leave it out")
        )
    return mistakes


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


def _find_inability(
    system: System, workload: Workload, ability: Ability, field: str, *, remedy: str
) -> list[InputError]:
    lack = explain_lack(system, workload, ability)
    return [InputError(lack, field=field, remedy=remedy)] if lack else []


def _find_inability_of_runtime(scenario: Scenario, ability: type, field: str, otherwise: str) -> list[InputError]:
    if issubclass(load_runtime(scenario.runtime), ability):
        return []
    able = [f"`runtime: {name}`" for name in runtimes_that_can(ability)]
    problem = f"the runtime `{scenario.runtime}` cannot {MEANINGS[ability]}"
    return [InputError(problem, field=field, remedy=f"use {' or '.join([*able, otherwise])}")]


def _find_unknown(name: str | None, known: Collection[str], noun: str, field: str) -> list[InputError]:
    """Return an error if the name is not known. None is no name."""
    if name is None or name in known:
        return []
    return [InputError(f"no {noun} is called `{name}`", field=field, remedy=suggest_name(name, known))]
