"""The commands about users' files: `scenarios` and `topologies` list them, `run` runs one on the embedded Airflow."""

from __future__ import annotations

import argparse
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import asdict
from pathlib import Path
from threading import Event, Thread
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from brokerproof import clock, lifecycle
from brokerproof.bounded_reading import ContentError, load_yaml
from brokerproof.checks import check_suites, list_suite_problems, load_cases, load_scenario
from brokerproof.commands.output import (
    ExitStatus,
    combine_exit_statuses,
    print_error,
    print_json,
    print_progress,
    print_warning,
)
from brokerproof.commands.watch_commands import WatchEnd, print_end, watch_run
from brokerproof.errors import InputError, list_sentences, shorten
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.experiment.verdict import Verdict
from brokerproof.experiment.yaml_models import suggest_file
from brokerproof.kept_clusters import ClusterChoice, choose_clusters, order_for_keeping
from brokerproof.orchestration.dag_run import make_run_id
from brokerproof.orchestration.embedded.embedded_airflow import EmbeddedAirflow
from brokerproof.orchestration.follow.airflow_client import AirflowError, AirflowGoneError
from brokerproof.orchestration.follow.progress import Progress
from brokerproof.orchestration.follow.scenario_run import ScenarioRun
from brokerproof.orchestration.notify.rules import read_rules
from brokerproof.reports.history_view import print_states
from brokerproof.reports.topology_view import (
    NODE_COLUMNS,
    TopologySummary,
    dump_policies,
    list_nodes,
    summarize_topology,
)
from brokerproof.results.held_rates import list_rate_warnings, read_held_shares
from brokerproof.results.history import open_history_to_read
from brokerproof.results.rates import RATE_RULE, list_rates
from brokerproof.results.state_search import count_states, explain_vacuous
from brokerproof.run_warnings import RunWarning, list_warnings
from brokerproof.settings import Settings
from brokerproof.spark.query_planning import check_queries, list_query_problems
from brokerproof.suites.suite_names import list_suites


def execute_scenarios(options: argparse.Namespace, settings: Settings) -> int:
    """List the scenarios with their warnings, and an error for each scenario or suite that is unusable."""
    settings.check_directories()
    _warn_of_empty_directories(settings)
    runs = read_held_shares(print_warning)
    rows: list[dict[str, Any]] = []
    errors = [
        *settings.scenarios.list_problems(),
        *settings.topologies.list_problems(),
        *list_suite_problems(settings.expectations),
        *list_query_problems(settings, announce=print_progress, warn=print_warning),
    ]
    suites = list_suites(settings.expectations)
    for file in settings.scenario_files():
        try:
            scenario, topology = load_scenario(file, settings.topologies, suites=suites)
            if scenario.matrix:
                load_cases(file, settings.topologies, suites=suites)
        except InputError as error:
            errors.append(error)
        else:
            warnings = [*list_warnings(scenario, topology), *list_rate_warnings(scenario, runs)]
            rows.append(_make_scenario_row(scenario, warnings))
    return _print_list("scenarios", rows, errors, _print_scenario, as_json=options.json)


def execute_topologies(options: argparse.Namespace, settings: Settings) -> int:
    """List the topologies, and an error for each that is unusable. With a name, print all of that topology.

    Raises InputError if no topology has the name, or if it is unusable.
    """
    settings.check_directories()
    scenarios = settings.scenario_files()
    if options.topology is not None:
        summary, topology = summarize_topology(options.topology, settings.topologies, scenarios)
        if options.json:
            print_json({**asdict(summary), "content": topology.model_dump(mode="json", exclude_none=True)})
        else:
            _print_whole_topology(summary, topology)
        return ExitStatus.OK
    rows: list[dict[str, Any]] = []
    errors = settings.topologies.list_problems()
    for name in settings.topologies.list_files():
        try:
            rows.append(asdict(summarize_topology(name, settings.topologies, scenarios)[0]))
        except InputError as error:
            errors.append(error)
    return _print_list("topologies", rows, errors, _print_topology, as_json=options.json)


def _print_list(
    name: str,
    rows: Sequence[dict[str, Any]],
    errors: Sequence[InputError],
    print_row: Callable[[dict[str, Any], Console], None],
    *,
    as_json: bool,
) -> int:
    """Print the rows and the errors, each error once, and return the exit status."""
    # Two topologies of the same name cause the same error for each file that uses them.
    sentences = list_sentences(errors)
    if as_json:
        print_json({name: rows, "errors": sentences})
    else:
        console = Console(highlight=False)
        for row in rows:
            print_row(row, console)
    for sentence in sentences:
        print_error(sentence)
    return ExitStatus.UNUSABLE_INPUT if sentences else ExitStatus.OK


def _print_scenario(row: dict[str, Any], console: Console) -> None:
    # A name takes up to a third of a narrow terminal, so the title has a line of its own.
    console.print(f"[bold]{row['name']}[/bold]  {row['expected']}, {row['phases_s']:g} s under load")
    console.print(_indent(f"{row['title']} [dim]({row['topology']})[/dim]"))
    for warning in row["warnings"]:
        console.print(_indent(Text(f"⚠ {RunWarning(**warning)}", style="yellow")))


def _print_topology(row: dict[str, Any], console: Console) -> None:
    summary = TopologySummary(**row)
    extends = Text(f" (extends {', '.join(summary.extends)})" if summary.extends else "", style="dim")
    console.print(Text.assemble((summary.name, "bold"), f"  {summary.nodes_in_words}"))
    console.print(_indent(Text(summary.title) + extends))
    facts = {"clusters": summary.clusters, "regions": summary.regions, **summary.policies}
    lines = [f"{name}: {', '.join(values)}" for name, values in facts.items()]
    console.print(_indent(Text("; ".join(lines))))
    console.print(_indent(Text(f"scenarios: {', '.join(summary.scenarios) or 'none'}", style="dim")))


def _print_whole_topology(summary: TopologySummary, topology: Topology) -> None:
    console = Console(highlight=False)
    _print_topology(asdict(summary), console)
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in NODE_COLUMNS:
        table.add_column(name, overflow="fold")
    for row in list_nodes(topology):
        table.add_row(*map(Text, row))
    for part in (Text(summary.description), table, Text(dump_policies(topology).rstrip())):
        console.print()
        console.print(part)


def _indent(text: str | Text) -> Padding:
    return Padding(text, (0, 0, 0, 4))


def _warn_of_empty_directories(settings: Settings) -> None:
    """Print a warning for each empty directory of scenarios or topologies, if another directory has files."""
    for place in (settings.scenarios, settings.topologies):
        for empty in place.list_empty() if place.list_files() else ():
            print_warning(str(empty))


def _make_scenario_row(scenario: Scenario, warnings: Sequence[RunWarning]) -> dict[str, Any]:
    return {
        "name": scenario.name,
        "title": scenario.title,
        "topology": scenario.topology,
        "guarantee": str(scenario.guarantee),
        "expected": str(scenario.expect.verdict),
        "phases_s": scenario.phases.total_s,
        "tags": scenario.tags,
        "warnings": [asdict(warning) for warning in warnings],
    }


def execute_run(options: argparse.Namespace, settings: Settings) -> int:
    """Check the scenarios, fetch the software for their nodes, start Airflow unless it runs, and run one by one.

    The verdicts are printed, and the exit status follows from them. If the user stops or leaves a run, no further run
    begins.
    """
    overrides = _parse_overrides(options)
    # The checks come before anything starts, so that a typing error costs no time.
    settings.check_directories()
    _warn_of_empty_directories(settings)
    check_suites(settings.expectations)
    read_rules(settings)
    suites = list_suites(settings.expectations)
    versions = [{"version": version} for version in options.versions] or [{}]
    cases = [
        case
        for name in options.scenarios
        for version in versions
        for case in load_cases(
            _find_scenario_file(settings, name), settings.topologies, {**overrides, **version}, suites=suites
        )
    ]
    # In turns, so that a machine that becomes slower harms all alike.
    cases *= options.repeat
    if options.keep_cluster:
        cases = order_for_keeping(cases)
    planned = [(scenario, topology) for scenario, topology, _ in cases]
    check_queries(settings, announce=print_progress, warn=print_warning)
    runs = read_held_shares(print_warning)
    warnings = (
        warning
        for scenario, topology in planned
        for warning in [*list_warnings(scenario, topology), *list_rate_warnings(scenario, runs)]
    )
    # Cases of one matrix share most warnings.
    for sentence in dict.fromkeys(map(str, warnings)):
        print_warning(sentence)
    console = Console(stderr=True)
    choices = choose_clusters(planned, keep=options.keep_cluster)
    ends: list[WatchEnd] = []
    for (scenario, topology, changes), choice in zip(cases, choices, strict=True):
        end = _run_scenario(scenario, topology, choice, changes, settings, console)
        print_end(end, console if options.json else Console())
        ends.append(end)
        if end.is_stopped:
            if left := len(cases) - len(ends):
                print_warning(f"this run or its Airflow was stopped, so {left} more will not begin")
            break
    if len(cases) > 1 and (options.versions or options.repeat > 1):
        _print_rates([scenario for scenario, _ in planned], ends, console if options.json else Console())
    statuses = [end.status for end in ends]
    searching = [end.outcome.run_id for (scenario, _), end in zip(planned, ends, strict=False) if scenario.draw]
    if len(searching) > 1 and not _print_states(searching, console if options.json else Console()):
        statuses.append(ExitStatus.UNKNOWN)
    if options.json:
        outcomes = [end.outcome.model_dump(mode="json") for end in ends]
        print_json(outcomes if len(planned) > 1 else outcomes[0])
    return combine_exit_statuses(statuses)


def _print_states(run_ids: Sequence[str], console: Console) -> bool:
    """Print how many of the runs reached each state that is worth reaching. Return whether each state was reached."""
    with open_history_to_read() as history:
        counts = count_states(run for run_id in run_ids if (run := history.find_run(run_id)) is not None)
    print_states(counts, console)
    if (why := explain_vacuous(counts)) is not None:
        print_warning(why)
    return why is None


def _print_rates(scenarios: Sequence[Scenario], ends: Sequence[WatchEnd], console: Console) -> None:
    """Print how often the runs of each scenario, case and version failed. Runs that did not begin are left out."""
    runs: dict[str, list[tuple[str, Verdict]]] = {}
    for scenario, end in zip(scenarios, ends, strict=False):
        group = " ".join(filter(None, [scenario.name, scenario.case, scenario.version]))
        runs.setdefault(scenario.name, []).append((group, end.outcome.verdict))
    for row in (row for found in runs.values() for row in list_rates(found)):
        console.print(Text(str(row)), soft_wrap=True)
    console.print(Text(RATE_RULE, style="dim"))


def _run_scenario(
    scenario: Scenario,
    topology: Topology,
    choice: ClusterChoice,
    overrides: dict[str, Any],
    settings: Settings,
    console: Console,
) -> WatchEnd:
    """Run one scenario and show it until it ends or the user leaves it."""
    with Progress(console, f"{scenario.title} ({scenario.case})" if scenario.case else scenario.title) as progress:
        prepared = _prepare_meanwhile(scenario, topology, progress.print_sentence)
        airflow = EmbeddedAirflow(settings, progress.print_sentence)
        url = airflow.start()
        prepared.result()
        client = airflow.connect()
        try:
            client.wait_for_dag(scenario.name)
        except AirflowGoneError as error:
            raise AirflowError(
                f"{error}, and no run was started; `brokerproof airflow stop` and the same command start it again"
            ) from None
        run_id = make_run_id(scenario.name, clock.to_utc(clock.now_us()), secrets.token_hex(2))
        run = ScenarioRun(
            client=client,
            scenario=scenario.name,
            run_id=run_id,
            dag_run_id=run_id,
            directory=settings.runs / run_id,
            scheduler_log=airflow.scheduler_log,
            check_scheduler=airflow.check_scheduler,
        )

        def begin() -> None:
            run.trigger(overrides, cluster=choice)
            progress.print_sentence(f"run {run_id}: {url}/dags/{scenario.name}/runs/{run_id}")

        return watch_run(run, progress, begin)


def _prepare_meanwhile(scenario: Scenario, topology: Topology, say: Callable[[str], None]) -> Future[None]:
    """Prepare in another thread, which fetches software. Return when this is done, or when its first slow part begins.

    Raises the errors of what is not slow, such as InputError for an unknown version. The others are in the result.
    """
    prepared: Future[None] = Future()
    may_return = Event()

    def announce(sentence: str) -> None:
        say(sentence)
        may_return.set()

    def prepare() -> None:
        try:
            lifecycle.prepare(scenario, topology, announce)
            prepared.set_result(None)
        except BaseException as error:  # The main thread raises it.
            prepared.set_exception(error)
        may_return.set()

    # A user who leaves does not wait for a download.
    Thread(target=prepare, daemon=True).start()
    may_return.wait()
    if prepared.done():
        prepared.result()
    return prepared


def _parse_overrides(options: argparse.Namespace) -> dict[str, Any]:
    """Return {dotted path: value} from the options `--set`, whose values are YAML, and `--runtime`."""
    overrides: dict[str, Any] = {}
    for text in options.set:
        path, equals, value = text.partition("=")
        if not equals or not path:
            raise InputError("is no setting", field=f"--set {shorten(text)}", remedy="write it as PATH=VALUE")
        try:
            overrides[path] = load_yaml(value)
        except ContentError as error:
            problem = f"its value is no YAML: {error.problem}"
            raise InputError(problem, field=f"--set {shorten(text)}", remedy="quote the value") from None
    if options.runtime:
        overrides["runtime"] = options.runtime
    return overrides


def _find_scenario_file(settings: Settings, name: str) -> Path:
    file = settings.scenarios.find(name)
    if file is None:
        raise InputError(f"no scenario is called `{name}`", remedy=suggest_file(name, settings.scenarios))
    return file
