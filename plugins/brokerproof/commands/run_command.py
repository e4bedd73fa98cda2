"""`run`: runs a scenario on the embedded Airflow and prints its verdict."""

from __future__ import annotations

import argparse
import secrets
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from brokerproof import clock, lifecycle
from brokerproof.checks import check_suites, load_scenario
from brokerproof.commands.output import print_warning
from brokerproof.commands.run_watch import print_end, watch_run
from brokerproof.errors import InputError, shorten
from brokerproof.experiment.yaml_models import suggest_file
from brokerproof.orchestration.dag_run import make_run_id
from brokerproof.orchestration.embedded.embedded_airflow import EmbeddedAirflow
from brokerproof.orchestration.follow.airflow_client import AirflowError, AirflowGoneError
from brokerproof.orchestration.follow.progress import Progress
from brokerproof.orchestration.follow.scenario_run import ScenarioRun
from brokerproof.orchestration.notify.rules import read_rules
from brokerproof.results.held_rates import list_rate_warnings, read_held_shares
from brokerproof.run_warnings import list_warnings
from brokerproof.settings import Settings
from brokerproof.suites.suite_names import list_suites


def execute(options: argparse.Namespace, settings: Settings) -> int:
    """Check the scenario, fetch the software for its nodes, start Airflow unless it runs, and run the scenario.

    The verdict is printed, and the exit status follows from it.
    """
    overrides = _parse_overrides(options)
    # The checks come before anything starts, so that a typing error costs no time.
    settings.check_directories()
    check_suites(settings.expectations)
    read_rules(settings)
    scenario, topology = load_scenario(
        _find_scenario_file(settings, options.scenario),
        settings.topologies,
        overrides,
        suites=list_suites(settings.expectations),
    )
    runs = read_held_shares(print_warning)
    for warning in [*list_warnings(scenario, topology), *list_rate_warnings(scenario, runs)]:
        print_warning(str(warning))
    console = Console(stderr=True)
    with Progress(console, scenario.title) as progress:
        lifecycle.prepare(scenario, topology, progress.print_sentence)
        airflow = EmbeddedAirflow(settings, progress.print_sentence)
        url = airflow.start()
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
            run.trigger(overrides)
            progress.print_sentence(f"run {run_id}: {url}/dags/{scenario.name}/runs/{run_id}")

        end = watch_run(run, progress, begin)
    print_end(end, console, json=options.json)
    return end.status


def _parse_overrides(options: argparse.Namespace) -> dict[str, Any]:
    """Return {dotted path: value} from the options `--set`, whose values are YAML, and `--runtime`."""
    overrides: dict[str, Any] = {}
    for text in options.set:
        path, equals, value = text.partition("=")
        if not equals or not path:
            raise InputError("is no setting", field=f"--set {shorten(text)}", remedy="write it as PATH=VALUE")
        try:
            overrides[path] = yaml.safe_load(value)
        except (yaml.YAMLError, ValueError, RecursionError):
            raise InputError("its value is no YAML", field=f"--set {shorten(text)}", remedy="quote the value") from None
    if options.runtime:
        overrides["runtime"] = options.runtime
    return overrides


def _find_scenario_file(settings: Settings, name: str) -> Path:
    file = settings.scenarios.find(name)
    if file is None:
        raise InputError(f"no scenario is called `{name}`", remedy=suggest_file(name, settings.scenarios))
    return file
