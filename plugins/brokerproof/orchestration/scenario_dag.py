"""The DAG of a scenario: its task graph, its form, and the page that says what it proves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param
from airflow.sdk.definitions.param import ParamsDict

from brokerproof.errors import InputError
from brokerproof.experiment.guarantees import Suite
from brokerproof.experiment.scenario import Fault, Scenario, Subscription
from brokerproof.experiment.topology import Topology
from brokerproof.experiment.verdict import Verdict
from brokerproof.orchestration.form import FORM, FREE_FORM
from brokerproof.orchestration.judgement_operators import RecordOperator, SuiteOperator, VerdictOperator
from brokerproof.orchestration.lifecycle_operators import LifecycleOperator, ReserveOperator
from brokerproof.orchestration.spark_operator import SparkStepOperator
from brokerproof.orchestration.time_limits import longest


def scenario_dag(scenario: Scenario, topology: Topology, *, expectations: Path) -> DAG:
    """The DAG that runs a scenario when it is triggered."""
    dag = DAG(
        dag_id=scenario.name,
        dag_display_name=scenario.title,
        description=" ".join(scenario.description.split()),
        doc_md=page(scenario, topology),
        tags=tags(scenario),
        params=form(scenario),
        schedule=None,
        catchup=False,
        is_paused_upon_creation=False,
        # Runs of one scenario are compared with each other, so they do not share the machine either.
        max_active_runs=1,
        # No dagrun_timeout: it would skip the teardown. Each task has its own limit.
        default_args={"retries": 0, "owner": "brokerproof"},
    )

    def limit(step: str) -> dict[str, Any]:
        return {"execution_timeout": longest(step, scenario), "dag": dag}

    reserve = ReserveOperator(task_id="reserve", scenario=scenario.name, **limit("reserve"))
    provision, configure, break_it, release = (
        LifecycleOperator(task_id=step, **limit(step)) for step in ("provision", "configure", "break_it", "release")
    )
    load, consume, read_back = (
        SparkStepOperator(task_id=step, **limit(step)) for step in ("load", "consume", "read_back")
    )
    # Judges what there is, so that a run whose load broke down ends as `unknown` with its reasons.
    verify = SparkStepOperator(
        task_id="verify", arguments=["--expectations", str(expectations)], trigger_rule="all_done", **limit("verify")
    )
    suites = [SuiteOperator(task_id=str(suite), **limit(str(suite))) for suite in Suite]
    record = RecordOperator(task_id="record", **limit("record"))
    verdict = VerdictOperator(task_id="verdict", **limit("verdict"))

    reserve >> provision >> configure >> [load, consume, break_it] >> read_back >> verify >> suites
    [break_it, read_back] >> release
    suites >> record >> verdict
    # Its problems and its time belong into the record; it is done before `verify` is.
    release >> record
    # `record` is no leaf to Airflow because teardowns are not; without this edge the suites would be, and a control,
    # whose suites have to fail, would end red.
    suites >> verdict
    # Teardowns, because those are neither skipped when the DAG run is marked as failed nor when a task before them
    # failed; only `verdict` decides the DAG run's state.
    release.as_teardown(setups=reserve)
    record.as_teardown(setups=reserve)
    verdict.as_teardown(setups=reserve, on_failure_fail_dagrun=True)
    return dag


class UnusableScenarios(DAG):
    """Stands in the DAG file for the scenario files that cannot be used.

    Airflow validates DAGs one by one and lists what fails as the file's import error, so that these do not take the
    other DAGs down, as an exception at the file's top level would.
    """

    def __init__(self, errors: Mapping[Path, InputError]) -> None:
        super().__init__(dag_id="unusable_scenarios", schedule=None)
        self._errors = dict(errors)

    def validate(self) -> None:
        """Raises InputError with a line for each file."""
        raise InputError("\n".join(str(error) for error in self._errors.values()))


def tags(scenario: Scenario) -> list[str]:
    """The scenario's own tags, and those by which the list of DAGs is filtered."""
    control = ["control"] if scenario.expect.verdict is Verdict.FAILED else []
    return list(dict.fromkeys([*scenario.tags, scenario.topology, str(scenario.guarantee), *control]))


def form(scenario: Scenario) -> ParamsDict:
    """The form in which the scenario is started, filled with its own values."""
    params = {
        field.name: Param(
            field.default(scenario),
            title=field.title,
            description=f"{field.description} Default: {field.default(scenario)}.",
            section=field.section,
            **field.schema(),
        )
        for field in FORM
    }
    params[FREE_FORM] = Param(
        {},
        type=["object", "null"],
        title="Settings",
        description='Any other value of the scenario, by dotted path, as in {"workload.client.send_timeout_s": 5}.',
        section="Everything else",
    )
    return ParamsDict(params)


def page(scenario: Scenario, topology: Topology) -> str:
    """The scenario in Markdown."""
    expect = scenario.expect
    sections = [
        scenario.description,
        f"**Expected verdict**: `{expect.verdict}`"
        + "".join(f", at least {minimum} × `{anomaly}`" for anomaly, minimum in expect.at_least.items())
        + "".join(f", suite `{suite}` fails" for suite in expect.failed_suites),
        f"**Guarantee**: `{scenario.guarantee}`"
        + _listed(", illegal here", scenario.tighten)
        + _listed(", legal here", scenario.loosen),
        f"**Topology**: `{scenario.topology}`. {topology.title}. {topology.description}",
        _nodes(topology),
        *([_links(topology)] if topology.links else []),
        _workload(scenario, topology),
        "**Timeline**, in seconds from the moment that the topic held the target rate",
        _timeline(scenario),
    ]
    if scenario.bounds:
        sections += ["**Bounds**", _bounds(scenario)]
    return "\n\n".join(section.strip() for section in sections)


def _listed(words: str, names: Sequence[str]) -> str:
    return f"{words}: {', '.join(f'`{name}`' for name in names)}" if names else ""


def _workload(scenario: Scenario, topology: Topology) -> str:
    workload = scenario.workload
    homes = workload.homes(topology)
    several = len(topology.clusters) > 1
    where = f" on each of {', '.join(homes)}" if len(homes) > 1 else f" on {homes[0]}" if several else ""
    subscriptions = ", ".join(_subscription(one, topology, several=several) for one in workload.subscriptions)
    return (
        f"**Workload**: {workload.rate:,} messages/s of {workload.size:,} bytes with {workload.keys:,} keys from "
        f"{workload.producers} producers{_in(workload.region)}{where} to `{scenario.topic}`; subscriptions "
        f"{subscriptions}"
    )


def _subscription(one: Subscription, topology: Topology, *, several: bool) -> str:
    said = [str(one.type), *(["state replicated"] if one.replicated else [])]
    where = f" on {one.home(topology)}" if several else ""
    moves = f", from {one.moves.after_s:g} s after `{one.moves.after}` on {one.moves.to}" if one.moves else ""
    return f"`{one.name}` ({', '.join(said)}){where}{moves}{_in(one.region)}"


def _in(region: str | None) -> str:
    return f" in {region}" if region else ""


def _links(topology: Topology) -> str:
    rows = ["| link | one way | jitter | Mbit/s |", "|---|---:|---:|---:|"]
    for link in topology.links:
        width = "" if link.bandwidth_mbit is None else f"{link.bandwidth_mbit:g}"
        rows.append(f"| {' – '.join(link.between)} | {link.delay_ms:g} ms | {link.jitter_ms:g} ms | {width} |")
    return "\n".join(rows)


def _nodes(topology: Topology) -> str:
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


def _timeline(scenario: Scenario) -> str:
    phases = scenario.phases
    impact, recovery = phases.steady_s, phases.steady_s + phases.impact_s
    rows: list[tuple[float, str]] = [(0, "steady phase"), (impact, "impact phase"), (recovery, "recovery phase")]
    for fault in scenario.faults:
        rows.append(
            (impact + fault.at_s, f"`{fault.name}`: {fault.kind} {_targets(fault)}{_link(fault)}{_ending(fault)}")
        )
        if fault.heal_at_s is not None:
            rows.append((impact + fault.heal_at_s, f"`{fault.name}` is healed"))
    rows.append((phases.total_s, "the load ends; drain, read back, verify"))
    rows.sort(key=lambda row: row[0])
    return "\n".join(["| s | |", "|---:|---|", *(f"| {at:g} | {what} |" for at, what in rows)])


def _targets(fault: Fault) -> str:
    chosen = fault.targets.model_dump(exclude_none=True, exclude_defaults=True)
    return ", ".join(
        f"{name} {', '.join(value) if isinstance(value, list) else value}" for name, value in chosen.items()
    )


def _link(fault: Fault) -> str:
    if fault.link is None:
        return ""
    chosen = fault.link.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    said = (f"{name} {', '.join(value) if isinstance(value, list) else value}" for name, value in chosen.items())
    return f" ({', '.join(said)})"


def _ending(fault: Fault) -> str:
    waits = ""
    if fault.when and fault.when.rereplicated:
        waits = f", once `{fault.when.rereplicated}` is re-replicated"
    elif fault.when:
        waits = f", once no node of `{fault.when.unhealthy}` was healthy for {fault.when.for_s:g} s"
    return waits + (", for good" if fault.permanent else "")


def _bounds(scenario: Scenario) -> str:
    rows = ["| measurement | at least | at most |", "|---|---:|---:|"]
    for name, bound in scenario.bounds.items():
        low, high = ("" if value is None else f"{value:g}" for value in (bound.min, bound.max))
        rows.append(f"| `{name}` | {low} | {high} |")
    return "\n".join(rows)
