"""`python -m brokerproof`: runs scenarios on an Airflow of its own and says what they came to.

Results go to stdout, everything that happens on the way to stderr. Exit status: 0 the verdict is what the scenario
expects, 1 it is not, 2 unknown or no data, 3 unusable input.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import secrets
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from brokerproof import clock
from brokerproof.errors import BrokerproofError, InputError, shorten
from brokerproof.settings import Settings, from_environment

OK, NOT_EXPECTED, UNKNOWN, UNUSABLE = 0, 1, 2, 3

_EPILOG = """
examples:
  python -m brokerproof doctor                         is everything here that a run needs?
  python -m brokerproof scenarios                      what can be run, and what each expects
  python -m brokerproof run sync_datacenter_loss       destroy a datacenter under load, prove what became of it
  python -m brokerproof run sync_datacenter_loss --set workload.rate=5000 --set phases.impact_s=120
  python -m brokerproof run sync_datacenter_loss --json > result.json
  python -m brokerproof verify var/runs/<run id>       judge stored tables again
  python -m brokerproof history sync_datacenter_loss   what it came to before, and what got worse
  python -m brokerproof airflow start                  the same in a browser
  python -m brokerproof down                           stop everything that still runs

exit status: 0 the verdict is what the scenario expects, 1 it is not, 2 unknown or no data, 3 unusable input
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, do, and return the exit status."""
    options = parser().parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    try:
        return int(options.do(options, from_environment()))
    except InputError as error:
        return _say_error(error, options, UNUSABLE)
    except BrokerproofError as error:
        return _say_error(error, options, UNKNOWN)
    except BrokenPipeError:
        # The reader went away, as `| head` does; nothing is left to be said to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNKNOWN
    except KeyboardInterrupt:
        return 130


def parser() -> argparse.ArgumentParser:
    """The commands and their options."""
    top = argparse.ArgumentParser(
        prog="python -m brokerproof",
        description="Breaks a real messaging cluster on purpose and proves, message by message, what it kept.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(metavar="COMMAND", required=True)

    def command(name: str, do: Callable[..., int], text: str, *, json_flag: bool = True) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        added.set_defaults(do=do)
        if json_flag:
            added.add_argument("--json", action="store_true", help="print the result as one JSON value, last on stdout")
        return added

    run = command("run", _run, "run a scenario, starting what is missing, and print its verdict")
    run.add_argument("scenario", metavar="SCENARIO", help="name of a file in dags/scenarios/, without .yaml")
    run.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="PATH=VALUE",
        help="replace a value of the scenario by its dotted path, as in workload.rate=2000; may be repeated",
    )
    run.add_argument("--runtime", metavar="NAME", help="where nodes live; short for --set runtime=NAME")

    verify = command("verify", _verify, "judge a run's stored tables again")
    verify.add_argument("run_directory", metavar="RUN_DIR", help="directory of a run, as in var/runs/<run id>")

    command("scenarios", _scenarios, "list the scenarios and check every file")

    history = command("history", _history, "show earlier runs, what got worse, and what settings changed")
    history.add_argument(
        "scenarios", nargs="*", metavar="SCENARIO", help="only the runs of this one, or of several side by side"
    )
    history.add_argument("--limit", type=_positive, default=20, metavar="N", help="at most so many runs (20)")

    command("doctor", _doctor, "say what this machine lacks and how to get it")
    command("down", _down, "stop everything that this machine still runs: clusters, their monitors and Airflow")

    airflow = command("airflow", _airflow, "start, stop or describe the embedded Airflow")
    airflow.add_argument("action", choices=["start", "stop", "status"])
    return top


def _run(options: argparse.Namespace, settings: Settings) -> int:
    from brokerproof.checks import load_scenario
    from brokerproof.orchestration.airflow_client import AirflowClient
    from brokerproof.orchestration.airflow_credentials import USER
    from brokerproof.orchestration.embedded_airflow import EmbeddedAirflow
    from brokerproof.orchestration.form import fill_form
    from brokerproof.orchestration.progress import Progress
    from brokerproof.orchestration.run_id import make_run_id
    from brokerproof.orchestration.scenario_run import ScenarioRun
    from brokerproof.results.outcome import exit_status
    from brokerproof.results.outcome_view import print_outcome
    from brokerproof.warm_up import prepare

    wanted = _settings_given(options)
    # Before anything is started: a typing error costs no time.
    scenario, topology = load_scenario(_scenario_file(settings, options.scenario), settings.topologies, wanted)
    console = Console(stderr=True)
    with Progress(console, scenario.title) as progress:
        prepare(topology.system, scenario.version, progress.print_sentence)
        airflow = EmbeddedAirflow(settings, progress.print_sentence)
        url = airflow.start()
        client = AirflowClient(url, USER, airflow.read_password())
        client.wait_for_dag(scenario.name)
        run_id = make_run_id(scenario.name, clock.utc(clock.now_us()), secrets.token_hex(2))
        run = ScenarioRun(client=client, scenario=scenario.name, run_id=run_id, directory=settings.runs / run_id)
        client.trigger_run(scenario.name, run_id, fill_form(wanted))
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
                    "Airflow goes on with the teardown; `python -m brokerproof down` stops all at once"
                )
                return 130
    result = run.read_outcome()
    print_outcome(result, run.read_problems(), console if options.json else Console())
    if options.json:
        _print_json(result)
    return exit_status(result)


def _verify(options: argparse.Namespace, settings: Settings) -> int:
    from brokerproof.results.outcome import exit_status, outcome
    from brokerproof.results.outcome_view import print_outcome
    from brokerproof.run.directory import Run
    from brokerproof.run.step_record import record_step
    from brokerproof.spark.submission import submit_locally

    directory = Path(options.run_directory).resolve()
    if not _holds_run(directory):
        raise InputError("holds no run", file=str(directory), remedy="give a directory of var/runs/")
    run = Run(str(directory))
    console = Console(stderr=True)
    log: list[str] = []
    try:
        with console.status("judging"), record_step(run, "verify"):
            submit_locally(
                settings, "verify", [run.directory, "--expectations", str(settings.expectations)], log=log.append
            )
    except BrokerproofError as error:
        kept = directory / "logs" / "verify-again.log"
        kept.parent.mkdir(exist_ok=True)
        kept.write_text("\n".join(log), encoding="utf-8")
        console.print(f"{error}; its output is in {kept}", style="red", markup=False, highlight=False, soft_wrap=True)
    result = outcome(run)
    print_outcome(result, {}, console if options.json else Console())
    if options.json:
        _print_json(result)
    return exit_status(result)


def _scenarios(options: argparse.Namespace, settings: Settings) -> int:
    from brokerproof.checks import load_scenario
    from brokerproof.experiment.scenario import Scenario

    usable: list[Scenario] = []
    errors: list[InputError] = []
    for file in settings.scenario_files():
        try:
            usable.append(load_scenario(file, settings.topologies)[0])
        except InputError as error:
            errors.append(error)
    listed: list[dict[str, Any]] = [
        {
            "name": scenario.name,
            "title": scenario.title,
            "topology": scenario.topology,
            "guarantee": str(scenario.guarantee),
            "expected": str(scenario.expect.verdict),
            "phases_s": scenario.phases.total_s,
            "tags": scenario.tags,
        }
        for scenario in usable
    ]
    if options.json:
        _print_json({"scenarios": listed, "errors": [str(error) for error in errors]})
    else:
        console = Console(highlight=False)
        for one in listed:
            # Names are as long as a third of a narrow terminal, so that titles would be squeezed beside them.
            console.print(f"[bold]{one['name']}[/bold]  {one['expected']}, {one['phases_s']:g} s under load")
            console.print(Padding(f"{one['title']} [dim]({one['topology']})[/dim]", (0, 0, 0, 4)))
    for unusable in errors:
        _error_console().print(str(unusable), style="red", markup=False, highlight=False, soft_wrap=True)
    return UNUSABLE if errors else OK


def _history(options: argparse.Namespace, settings: Settings) -> int:
    from brokerproof.results.history import open_history
    from brokerproof.results.history_json import list_plain_runs
    from brokerproof.results.history_table import print_history

    with open_history() as history:
        if options.json:
            _print_json(list_plain_runs(history, options.scenarios, options.limit))
        else:
            print_history(history, options.scenarios, options.limit, Console())
    return OK


def _doctor(options: argparse.Namespace, settings: Settings) -> int:
    from brokerproof.doctor import examine

    findings = examine(settings)
    if options.json:
        _print_json([asdict(finding) for finding in findings])
    else:
        table = Table(box=None, show_header=False)
        for finding in findings:
            mark = "[green]ok[/]" if finding.ok else "[red]missing[/]"
            table.add_row(mark, finding.name, finding.found + ("" if finding.ok else f"\n→ {finding.remedy}"))
        Console().print(table)
    return OK if all(finding.ok for finding in findings) else UNKNOWN


def _down(options: argparse.Namespace, settings: Settings) -> int:
    from brokerproof import lifecycle
    from brokerproof.orchestration.embedded_airflow import EmbeddedAirflow
    from brokerproof.spark.temporary_files import remove_abandoned_directories

    # Airflow first, so that no task starts again what is stopped next.
    stopped = ["Airflow"] if EmbeddedAirflow(settings).stop() else []
    stopped += lifecycle.down()
    remove_abandoned_directories(settings.spark_temporary)
    if options.json:
        _print_json({"stopped": stopped})
    else:
        print(f"stopped: {', '.join(stopped)}" if stopped else "nothing was running")
    return OK


def _airflow(options: argparse.Namespace, settings: Settings) -> int:
    from brokerproof.orchestration.airflow_credentials import USER
    from brokerproof.orchestration.embedded_airflow import EmbeddedAirflow

    airflow = EmbeddedAirflow(settings, lambda sentence: print(sentence, file=sys.stderr))
    stopped = False
    if options.action == "start":
        airflow.start()
    elif options.action == "stop":
        stopped = airflow.stop()
    status = airflow.read_status()
    if options.json:
        _print_json(asdict(status))
    elif status.running:
        print(f"Airflow runs at {status.url} ({'healthy' if status.healthy else 'not healthy'}, {status.memory_mb} MB)")
        print(f"user {USER}, password in {status.password_file}; logs in {status.log_directory}")
    else:
        print("Airflow was stopped" if stopped else "Airflow does not run")
    return OK


def _settings_given(options: argparse.Namespace) -> dict[str, Any]:
    """The values of --set, read as YAML like the scenario's file, and of the options that are short for one."""
    given: dict[str, Any] = {}
    for setting in options.set:
        path, equals, text = setting.partition("=")
        if not equals or not path:
            raise InputError("is no setting", field=f"--set {shorten(setting)}", remedy="write it as PATH=VALUE")
        try:
            given[path] = yaml.safe_load(text)
        except (yaml.YAMLError, ValueError, RecursionError):
            raise InputError(
                "its value is no YAML", field=f"--set {shorten(setting)}", remedy="quote the value"
            ) from None
    if options.runtime:
        given["runtime"] = options.runtime
    return given


def _scenario_file(settings: Settings, name: str) -> Path:
    from brokerproof.experiment.yaml_models import closest

    known = [path.stem for path in settings.scenario_files()]
    if name not in known:
        raise InputError(f"no scenario is called `{name}`", remedy=closest(name, known))
    return settings.scenario_file(name)


def _holds_run(directory: Path) -> bool:
    try:
        return (directory / "run.json").exists()
    except OSError:
        # No file can have a name as long as this.
        return False


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{shorten(text)} is no number over 0")
    return int(text)


def _error_console() -> Console:
    return Console(stderr=True)


def _say_error(error: BrokerproofError, options: argparse.Namespace, status: int) -> int:
    _error_console().print(str(error), style="red", markup=False, highlight=False, soft_wrap=True)
    if getattr(options, "json", False):
        _print_json({"error": str(error)})
    return status


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=1, default=str))
