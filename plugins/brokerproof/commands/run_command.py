"""`run`: runs a scenario on the embedded Airflow and prints its verdict."""

from __future__ import annotations

import argparse
import secrets
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from brokerproof import clock
from brokerproof.checks import load_scenario
from brokerproof.commands.exit_status import ExitStatus, derive_exit_status
from brokerproof.commands.output import print_json
from brokerproof.errors import InputError, shorten
from brokerproof.experiment.yaml_models import suggest_name
from brokerproof.orchestration.airflow_client import AirflowClient
from brokerproof.orchestration.airflow_credentials import USER
from brokerproof.orchestration.embedded_airflow import EmbeddedAirflow
from brokerproof.orchestration.form import fill_form
from brokerproof.orchestration.progress import Progress
from brokerproof.orchestration.run_id import make_run_id
from brokerproof.orchestration.scenario_run import ScenarioRun
from brokerproof.results.outcome_view import print_outcome
from brokerproof.settings import Settings
from brokerproof.warm_up import prepare


def execute(options: argparse.Namespace, settings: Settings) -> int:
    """Check the scenario, start what is missing, run it, and print the verdict."""
    overrides = _parse_overrides(options)
    # The check comes before anything starts, so that a typing error costs no time.
    scenario, topology = load_scenario(_find_scenario_file(settings, options.scenario), settings.topologies, overrides)
    console = Console(stderr=True)
    with Progress(console, scenario.title) as progress:
        prepare(topology.system, scenario.version, progress.print_sentence)
        airflow = EmbeddedAirflow(settings, progress.print_sentence)
        url = airflow.start()
        client = AirflowClient(url, USER, airflow.read_password())
        client.wait_for_dag(scenario.name)
        run_id = make_run_id(scenario.name, clock.to_utc(clock.now_us()), secrets.token_hex(2))
        run = ScenarioRun(client=client, scenario=scenario.name, run_id=run_id, directory=settings.runs / run_id)
        client.trigger_run(scenario.name, run_id, fill_form(overrides))
        progress.print_sentence(f"run {run_id}: {url}/dags/{scenario.name}/runs/{run_id}")
        try:
            run.follow(progress)
        except KeyboardInterrupt:
            progress.print_sentence("cancelling the run and stopping its cluster; Ctrl-C again leaves that to Airflow")
            try:
                client.cancel_run(scenario.name, run_id)
                run.follow(progress)
            except KeyboardInterrupt:
                progress.print_sentence(
                    "Airflow goes on with the teardown; `brokerproof down` stops everything at once"
                )
                return ExitStatus.INTERRUPTED
    outcome = run.read_outcome()
    print_outcome(outcome, run.read_problems(), console if options.json else Console())
    if options.json:
        print_json(outcome)
    return derive_exit_status(outcome)


def _parse_overrides(options: argparse.Namespace) -> dict[str, Any]:
    """The values of --set, read as YAML like the scenario's file, and of the options that are short for one."""
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
    known = [path.stem for path in settings.scenario_files()]
    if name not in known:
        raise InputError(f"no scenario is called `{name}`", remedy=suggest_name(name, known))
    return settings.scenario_file(name)
