"""A scenario's page in Airflow, as Markdown: its warnings, expectation, topology, workload, timeline and bounds."""

from __future__ import annotations

from collections.abc import Sequence

from brokerproof.experiment.draw import Draw
from brokerproof.experiment.fault import When
from brokerproof.experiment.guarantees import Anomaly
from brokerproof.experiment.scenario import Loosened, Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.experiment.workload import Subscription
from brokerproof.experiment.yaml_models import FrozenModel
from brokerproof.run_warnings import RunWarning, list_warnings
from brokerproof.systems.registry import find_system


def write_page(scenario: Scenario, topology: Topology) -> str:
    expect = scenario.expect
    sections = [
        scenario.description,
        *_describe_warnings(list_warnings(scenario, topology)),
        f"**Expected verdict**: `{expect.verdict}`"
        + "".join(f", at least {minimum} × `{anomaly}`" for anomaly, minimum in expect.at_least.items())
        + "".join(f", suite `{suite}` fails" for suite in expect.failed_suites),
        f"**Guarantee**: `{scenario.guarantee}`"
        + _list_names(", illegal here", scenario.tighten)
        + _list_names(", legal here", [_describe_loosened(*each) for each in scenario.loosen.items()]),
        f"**Topology**: `{scenario.topology}`. {topology.title}. {topology.description}",
        _tabulate_nodes(topology),
        *([_tabulate_links(topology)] if topology.links else []),
        _describe_workload(scenario, topology),
        "**Timeline**, in seconds from the moment that the topic held the target rate",
        _tabulate_timeline(scenario),
    ]
    if scenario.draw is not None:
        sections += ["**Faults that a seed draws**, with rests between them", _tabulate_moves(scenario.draw)]
    if scenario.bounds:
        sections += ["**Bounds**", _tabulate_bounds(scenario)]
    return "\n\n".join(section.strip() for section in sections)


def _describe_warnings(warnings: Sequence[RunWarning]) -> list[str]:
    lines = [f"- `{each.field}`: {each.what} ({each.remedy})" for each in warnings]
    return ["**Warnings**", "\n".join(lines)] if lines else []


def _list_names(heading: str, names: Sequence[str]) -> str:
    return f"{heading}: {', '.join(f'`{name}`' for name in names)}" if names else ""


def _describe_loosened(anomaly: Anomaly, messages: Loosened) -> str:
    chosen = _list_fields(messages)
    return f"{anomaly} ({chosen})" if chosen else anomaly


def _describe_workload(scenario: Scenario, topology: Topology) -> str:
    workload = scenario.workload
    homes = workload.list_homes(topology)
    several = len(topology.clusters) > 1
    clusters = f" on each of {', '.join(homes)}" if len(homes) > 1 else f" on {homes[0]}" if several else ""
    subscriptions = ", ".join(_describe_subscription(one, topology, several=several) for one in workload.subscriptions)
    return (
        f"**Workload**: {workload.describe_rate()} of {workload.size:,} bytes with {workload.keys:,} keys from "
        f"{workload.producers} producers{_name_region(workload.region)}{clusters} to "
        f"`{find_system(topology).topic(workload)}`; subscriptions "
        f"{subscriptions}"
    )


def _describe_subscription(one: Subscription, topology: Topology, *, several: bool) -> str:
    kind = str(one.type) if one.streaming is None else f"a streaming query, `{one.streaming}`"
    traits = [kind, *(["state replicated"] if one.replicated else [])]
    cluster = f" on {one.find_home(topology)}" if several else ""
    moves = f", from {one.moves.after_s:g} s after `{one.moves.after}` on {one.moves.to}" if one.moves else ""
    return f"`{one.name}` ({', '.join(traits)}){cluster}{moves}{_name_region(one.region)}"


def _name_region(region: str | None) -> str:
    return f" in {region}" if region else ""


def _tabulate_links(topology: Topology) -> str:
    rows = ["| link | one way | jitter | Mbit/s |", "|---|---:|---:|---:|"]
    for link in topology.links:
        bandwidth = "" if link.bandwidth_mbit is None else f"{link.bandwidth_mbit:g}"
        rows.append(f"| {' – '.join(link.between)} | {link.delay_ms:g} ms | {link.jitter_ms:g} ms | {bandwidth} |")
    return "\n".join(rows)


def _tabulate_nodes(topology: Topology) -> str:
    rows = ["| cluster | region | nodes |", "|---|---|---|"]
    for name, cluster in topology.clusters.items():
        for region in dict.fromkeys(node.region for node in cluster.nodes.values()):
            names = [
                f"{each} (on standby)" if cluster.nodes[each].standby else each for each in cluster.names(region=region)
            ]
            rows.append(f"| {name} | {region} | {', '.join(names)} |")
    for each, node in topology.shared_metadata.items():
        rows.append(f"| all | {node.region} | {each} |")
    return "\n".join(rows)


def _tabulate_timeline(scenario: Scenario) -> str:
    phases = scenario.phases
    impact, recovery = phases.steady_s, phases.steady_s + phases.impact_s
    rows: list[tuple[float, str]] = [(0, "steady phase"), (impact, "impact phase"), (recovery, "recovery phase")]
    for fault in scenario.faults:
        link = f" ({_list_fields(fault.link)})" if fault.link else ""
        action = f"`{fault.name}`: {fault.kind} {_list_fields(fault.targets)}{link}"
        for_good = ", for good" if fault.permanent else ""
        rows.append((impact + fault.at_s, action + _describe_condition(fault.when) + for_good))
        if fault.earliest_heal_s is not None:
            after = f" {fault.heal_after_s:g} s after its effect" if fault.heal_after_s is not None else ""
            waits = _describe_condition(fault.heal_when)
            rows.append((impact + fault.earliest_heal_s, f"`{fault.name}` is healed{after}{waits}"))
    rows.append((phases.total_s, "the load ends; drain, read back, verify"))
    rows.sort(key=lambda row: row[0])
    return "\n".join(["| s | |", "|---:|---|", *(f"| {at:g} | {event} |" for at, event in rows)])


def _tabulate_moves(draw: Draw) -> str:
    rows = ["| fault | what it is | lasts |", "|---|---|---|"]
    for name, move in draw.moves.items():
        link = f" ({_list_fields(move.link)})" if move.link else ""
        lasts = f"{move.lasts_s[0]:g} to {move.lasts_s[1]:g} s" if move.lasts_s else ""
        rows.append(f"| `{name}` | {move.kind} {_list_fields(move.targets)}{link} | {lasts} |")
    return "\n".join(rows)


def _list_fields(model: FrozenModel) -> str:
    """Return a text with the fields of a model whose values differ from their defaults."""
    chosen = model.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    return ", ".join(
        f"{name} {', '.join(value) if isinstance(value, list) else value}" for name, value in chosen.items()
    )


def _describe_condition(when: When | None) -> str:
    if when is None:
        return ""
    if when.rereplicated:
        return f", once `{when.rereplicated}` is re-replicated"
    which, earlier = ("every", when.healthy) if when.healthy else ("no", when.unhealthy)
    return f", once {which} node of `{earlier}` was healthy for {when.for_s:g} s"


def _tabulate_bounds(scenario: Scenario) -> str:
    rows = ["| measurement | at least | at most |", "|---|---:|---:|"]
    for name, bound in scenario.bounds.items():
        low, high = ("" if value is None else f"{value:g}" for value in (bound.min, bound.max))
        rows.append(f"| `{name}` | {low} | {high} |")
    return "\n".join(rows)
