"""The command line, `brokerproof` or `python -m brokerproof`: it runs scenarios and prints their verdicts.

The exit status is 0 if the verdict is what the scenario expects, 1 if it is not, 2 for unknown or no data, and 3 for
unusable input.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
from collections.abc import Sequence

from brokerproof.commands.exit_status import ExitStatus
from brokerproof.commands.output import print_error, print_json
from brokerproof.errors import BrokerproofError, InputError, shorten
from brokerproof.settings import from_environment

_EPILOG = """
examples:
  brokerproof doctor                         is everything here that a run needs?
  brokerproof scenarios                      the scenarios, and the verdict that each expects
  brokerproof run sync_datacenter_loss       destroy a datacenter under load, prove what became of it
  brokerproof run sync_datacenter_loss --set workload.rate=5000 --set phases.impact_s=120
  brokerproof run sync_datacenter_loss --json > result.json
  brokerproof verify var/runs/<run id>       judge stored tables again
  brokerproof history sync_datacenter_loss   its earlier runs, and what got worse
  brokerproof airflow start                  run scenarios in a browser
  brokerproof down                           stop everything that still runs

exit status: 0 the verdict is what the scenario expects, 1 it is not, 2 unknown or no data, 3 unusable input
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Execute the command that the arguments name, and return the exit status."""
    options = build_parser().parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    try:
        command = importlib.import_module(f"brokerproof.commands.{options.command}_command")
        return int(command.execute(options, from_environment()))
    except InputError as error:
        return _print_failure(error, options, ExitStatus.UNUSABLE_INPUT)
    except BrokerproofError as error:
        return _print_failure(error, options, ExitStatus.UNKNOWN)
    except BrokenPipeError:
        # The reader of the pipe has ended, as `| head` does. Python must not fail again when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitStatus.UNKNOWN
    except KeyboardInterrupt:
        return ExitStatus.INTERRUPTED


def build_parser() -> argparse.ArgumentParser:
    """The parser of the commands and their options."""
    parser = argparse.ArgumentParser(
        prog="brokerproof",
        description="Breaks a real messaging cluster on purpose and proves, message by message, what it kept.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True, dest="command")

    def add_command(name: str, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        command.add_argument("--json", action="store_true", help="print the result as one JSON value, last on stdout")
        return command

    run = add_command("run", "run a scenario, starting what is missing, and print its verdict")
    run.add_argument("scenario", metavar="SCENARIO", help="name of a file in dags/scenarios/, without .yaml")
    run.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="PATH=VALUE",
        help="replace a value of the scenario by its dotted path, as in workload.rate=2000; may be repeated",
    )
    run.add_argument("--runtime", metavar="NAME", help="where nodes live; short for --set runtime=NAME")

    verify = add_command("verify", "judge a run's stored tables again")
    verify.add_argument("run_directory", metavar="RUN_DIR", help="directory of a run, as in var/runs/<run id>")

    add_command("scenarios", "list the scenarios and check every file")

    history = add_command("history", "show earlier runs, what got worse, and what settings changed")
    history.add_argument(
        "scenarios", nargs="*", metavar="SCENARIO", help="only the runs of this one, or of several side by side"
    )
    history.add_argument("--limit", type=_parse_positive, default=20, metavar="N", help="at most so many runs (20)")

    add_command("doctor", "say what this machine lacks and how to get it")
    add_command("down", "stop everything that this machine still runs: clusters, their monitors and Airflow")

    airflow = add_command("airflow", "start, stop or describe the embedded Airflow")
    airflow.add_argument("action", choices=["start", "stop", "status"])
    return parser


def _parse_positive(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{shorten(text)} is no number over 0")
    return int(text)


def _print_failure(error: BrokerproofError, options: argparse.Namespace, status: ExitStatus) -> int:
    print_error(str(error))
    if getattr(options, "json", False):
        print_json({"error": str(error)})
    return status
