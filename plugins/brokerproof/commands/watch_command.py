"""`watch`: shows a run again until it ends, and prints its outcome."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from rich.console import Console

from brokerproof.commands.output import derive_exit_status
from brokerproof.commands.run_watch import WatchEnd, make_end_without_airflow, print_end, watch_run
from brokerproof.errors import InputError
from brokerproof.experiment.yaml_models import suggest_name
from brokerproof.orchestration.embedded.embedded_airflow import EmbeddedAirflow
from brokerproof.orchestration.follow.airflow_client import AirflowGoneError
from brokerproof.orchestration.follow.progress import Progress
from brokerproof.orchestration.follow.scenario_run import ScenarioRun, has_recorded_outcome
from brokerproof.results.run_outcome import compose_outcome
from brokerproof.run.directory import Run
from brokerproof.settings import Settings


def execute(options: argparse.Namespace, settings: Settings) -> int:
    # The user may also give the path of the run's directory, because a shell can complete a path.
    run_id = Path(options.run).name
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,200}", run_id):
        raise _refuse(options.run, settings)
    console = Console(stderr=True)
    with Progress(console, run_id) as progress:
        end = _watch(run_id, settings, progress)
    print_end(end, console, json=options.json)
    return end.status


def _watch(run_id: str, settings: Settings, progress: Progress) -> WatchEnd:
    directory = settings.runs / run_id
    if has_recorded_outcome(directory):
        outcome = compose_outcome(Run(str(directory)))
        return WatchEnd(outcome=outcome, status=derive_exit_status(outcome))
    airflow = EmbeddedAirflow(settings, progress.print_sentence)
    try:
        client = airflow.connect()
        found = client.find_run(run_id)
    except AirflowGoneError as error:
        if not (directory / "run.json").exists():
            raise _refuse(run_id, settings) from None
        return make_end_without_airflow(run_id, Run(str(directory)).scenario.name, directory, error)
    if found is None:
        raise _refuse(run_id, settings)
    run = ScenarioRun(
        client=client,
        scenario=found.dag_id,
        run_id=run_id,
        dag_run_id=found.dag_run_id,
        directory=directory,
        scheduler_log=airflow.scheduler_log,
        check_scheduler=airflow.check_scheduler,
    )
    return watch_run(run, progress)


def _refuse(name: str, settings: Settings) -> InputError:
    known = [directory.name for directory in settings.runs.glob("*") if (directory / "run.json").exists()]
    near = suggest_name(name, known) if known else "`brokerproof history` lists the runs"
    return InputError(f"no run called `{name}` is running or has an outcome", remedy=near)
