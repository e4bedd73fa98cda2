"""The command line, `brokerproof` or `python -m brokerproof`. The package `commands` executes the commands.

If a command ends with a verdict, the exit status is 0 for the expected verdict. An unexpected verdict gives 2 if it is
`unknown` or `no_data`, and 1 otherwise. Other commands end with 0, or with 2 if they fail. Unusable input gives 3, and
so does a command or an option that does not exist. If Ctrl-C ended the command, or the user stopped watching a run, the
status is 130.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from brokerproof.commands.output import ExitStatus, print_error, print_json
from brokerproof.errors import BrokerproofError, InputError, shorten
from brokerproof.experiment.yaml_models import suggest_name
from brokerproof.settings import from_environment

_EPILOG = """
examples:
  brokerproof doctor                         is everything here that a run needs?
  brokerproof scenarios                      the scenarios, and the verdict that each expects
  brokerproof topologies                     the topologies, and the scenarios that use each
  brokerproof topologies sync_active_passive its nodes, policies, links and settings, after `extends`
  brokerproof run sync_datacenter_loss       destroy a datacenter under load, and prove the result
  brokerproof run sync_datacenter_loss --set workload.rate=5000 --set phases.impact_s=120
  brokerproof run sync_datacenter_loss --json > result.json
  brokerproof watch RUN                      show a run again that goes on
  brokerproof verify RUN                     judge stored tables again
  brokerproof explain RUN mycluster-p0 4711  what happened to one message: each attempt, copy, delivery and anomaly,
                                             and the faults around it
  brokerproof history sync_datacenter_loss   its earlier runs, and what got worse
  brokerproof history --compare RUN RUN      two runs side by side, with the differences that
                                             are larger than noise
  brokerproof history sync_datacenter_loss --by version
                                             its versions side by side, with the differences that
                                             are larger than noise
  brokerproof run semantics --keep-cluster   every case of its matrix of producers and faults
  brokerproof history semantics --by case    what each kind of consumer lost and repeated in each case
  brokerproof run sync_owner_paused --versions 4.0.6,4.0.8 --repeat 5
                                             how often each version fails, and whether they differ
  brokerproof track-record 26074             reproduce a known bug, and its control without the bug
  brokerproof track-record --list            what all runs about known bugs came to
  brokerproof prune --dry-run                what is older than $BROKERPROOF_KEEP_TABLES_DAYS, and could go
  brokerproof report RUN                     its page, JUnit XML, JSON and badge, as files
  brokerproof metrics --output brokerproof.prom
                                             the last run of every scenario, for Prometheus
  brokerproof badge --output badge.svg       the last verdicts of all scenarios in one picture
  brokerproof airflow start                  run scenarios in a browser
  brokerproof down                           stop everything that still runs

RUN is the id of a run, its directory or the directory's URL. `brokerproof run` prints the id, and `brokerproof history
--json` lists it.

your own files:
  BROKERPROOF_SCENARIOS=/mine:               the directories of scenario files, separated by `:` like those of PATH;
                                             the empty entry after the last `:` is the shipped directory
  BROKERPROOF_TOPOLOGIES, BROKERPROOF_EXPECTATIONS
                                             those of topology files and of suites, listed in the same way

Ctrl-C under `run` and `watch` asks whether to stop the run and its cluster, or only to stop watching. Without a
terminal, it stops the run, as SIGTERM does. Both commands report within 15 s that Airflow does not answer, or that the
run makes no progress.

exit status: 0 the verdict is what the scenario expects, 1 it is not, 2 unknown or no data, 3 unusable input, such as a
wrong file, option or name, 130 after Ctrl-C, if the run goes on and this command does not watch it
"""

# What a user may give for RUN; run_argument.py finds the run.
_RUN = "the run's id, its directory, as in var/runs/<run id>, or the directory's URL"

_EXPLAIN_EPILOG = """
A message is named by its producer and its number there. Suites' samples and the columns `producer` and `seq` of the
run's tables name messages: those of `anomalies` have something wrong. A name that the run does not have is answered
with the names that it has.

examples:
  brokerproof explain RUN mycluster-p0 4711
  brokerproof explain RUN mycluster-p0 4711 --json | jq .sentence
  brokerproof explain s3://bucket/runs/<run id> mycluster-p0 4711

exit status: 0 all that is recorded of the message is shown, 2 evidence about it is missing or damaged, and the output
names it, 3 the run, the producer or the message does not exist
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Execute the command that the arguments name, and return the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in given
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    try:
        options = _parse(given)
        as_json = options.json
        commands = importlib.import_module(f"brokerproof.commands.{options.module}_commands")
        return int(getattr(commands, f"execute_{options.command.replace('-', '_')}")(options, from_environment()))
    except InputError as error:
        return _print_failure(error, as_json, ExitStatus.UNUSABLE_INPUT)
    except BrokerproofError as error:
        return _print_failure(error, as_json, ExitStatus.UNKNOWN)
    except BrokenPipeError:
        # The reader of the pipe has ended, as in `… | head`. Python must not fail again when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitStatus.UNKNOWN
    except KeyboardInterrupt:
        return ExitStatus.INTERRUPTED


class _Parser(argparse.ArgumentParser):
    """Raises InputError for arguments that cannot be used. argparse would print its usage and exit with 2."""

    def error(self, message: str) -> NoReturn:
        remedy = f"`{self.prog} --help` has the usage"
        raise InputError(message.removeprefix("argument "), field=self.prog, remedy=remedy)

    def refuse(self, unknown: Sequence[str]) -> NoReturn:
        """Raise the error for arguments that this command does not have: for the first option, if there is one."""
        name = next((text.partition("=")[0] for text in unknown if text.startswith("-")), None)
        if name is None:
            self.error(f"unexpected argument `{unknown[0]}`")
        known = [option for option in self._option_string_actions if option.startswith("--")]
        raise InputError(f"unknown option `{name}`", field=self.prog, remedy=suggest_name(name, known))

    # argparse calls this for commands and for options with choices. Its own message has no nearest name.
    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            what = f"value of `{action.option_strings[0]}`" if action.option_strings else action.dest
            raise InputError(
                f"`{value}` is no {what}", field=self.prog, remedy=suggest_name(value, map(str, action.choices))
            )


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options. Raises InputError if an argument is unknown, wrong or missing."""
    parser = build_parser()
    if arguments and arguments[0].startswith("-") and arguments[0] not in ("-h", "--help"):
        raise InputError(
            f"`{arguments[0].partition('=')[0]}` is before the command",
            field=parser.prog,
            remedy="write options after it, as in `brokerproof scenarios --json`",
        )
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        options.parser.refuse(unknown)
    return options


def build_parser() -> _Parser:
    parser = _Parser(
        prog="brokerproof",
        description="Breaks a real messaging cluster on purpose, and proves what was lost, repeated or reordered.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True, dest="command")

    def add_command(name: str, module: str, text: str) -> _Parser:
        command = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        command.add_argument("--json", action="store_true", help="print the result as one JSON value, last on stdout")
        command.set_defaults(module=module, parser=command)
        return command

    run = add_command("run", "scenario", "run scenarios one after the other, and print the verdict of each")
    run.add_argument(
        "scenarios", nargs="+", metavar="SCENARIO", help="name of a scenario's file, without .yaml; may be repeated"
    )
    _add_run_options(run)

    record = add_command(
        "track-record", "track_record", "reproduce known bugs, and print what came of the tries so far"
    )
    record.add_argument(
        "issue", nargs="?", metavar="ISSUE", help="only this one, as OWNER/PROJECT#NUMBER or as its number"
    )
    without = record.add_mutually_exclusive_group()
    without.add_argument("--list", action="store_true", help="run nothing, and print what earlier runs came to")
    without.add_argument(
        "--verify", action="store_true", help="run nothing, and judge earlier runs again by the present definitions"
    )
    _add_run_options(record)

    watch = add_command("watch", "watch", "show a run again until it ends, and print its verdict")
    _add_run(watch)

    verify = add_command("verify", "recorded_run", "judge a run's stored tables again")
    _add_run(verify)
    verify.add_argument(
        "--record",
        action="store_true",
        help="write the result into the history even if the directory is from elsewhere: it replaces a run with its id",
    )

    explain = add_command(
        "explain",
        "recorded_run",
        "show one message's whole life: attempts, stored copies, deliveries, outputs, anomalies, and faults",
    )
    explain.formatter_class, explain.epilog = argparse.RawDescriptionHelpFormatter, _EXPLAIN_EPILOG
    _add_run(explain)
    explain.add_argument("producer", metavar="PRODUCER", help="the message's producer, as in mycluster-p0")
    explain.add_argument("seq", metavar="SEQ", help="the message's number at that producer, from 0 on")

    add_command("scenarios", "scenario", "list the scenarios and check every file")

    topologies = add_command("topologies", "scenario", "list the topologies and check every file, or show one of them")
    topologies.add_argument(
        "topology", nargs="?", metavar="TOPOLOGY", help="show this one: nodes, policies, links and settings"
    )

    history = add_command(
        "history", "history", "show earlier runs and what got worse; compare two runs, versions or settings"
    )
    history.add_argument(
        "scenarios", nargs="*", metavar="SCENARIO", help="only the runs of this one, or of several side by side"
    )
    history.add_argument("--limit", type=_parse_positive, default=20, metavar="N", help="at most N runs (20)")

    history.add_argument(
        "--compare", nargs=2, metavar="RUN", help=f"two runs, their settings and results side by side; each is {_RUN}"
    )
    history.add_argument(
        "--by",
        choices=["version", "settings", "system", "runtime", "case"],
        help="the last runs of one scenario in groups: by settings, also those of several scenarios; by case, a row "
        "for each case of its matrix",
    )

    report = add_command("report", "recorded_run", "write a run's report as a page, JUnit XML, JSON and a badge")
    _add_run(report)
    report.add_argument(
        "--output", metavar="DIR", help="where the files go, a directory or a URL (report/ in the run's directory)"
    )

    metrics = add_command("metrics", "history", "print the last run of every scenario in Prometheus' text format")
    _add_output_file(metrics, "write them into this file, as node_exporter's textfile collector reads it")
    metrics.add_argument(
        "--listen", metavar="ADDRESS:PORT", help="answer Prometheus there until Ctrl-C, from the history as it is then"
    )

    badge = add_command("badge", "history", "print the last verdict of a scenario, or of all scenarios, as an SVG")
    badge.add_argument("scenario", nargs="?", metavar="SCENARIO", help="only this one")
    _add_output_file(badge, "write it into this file")

    add_command("doctor", "doctor", "say what this machine lacks and how to get it")
    down = add_command(
        "down", "machine", "stop everything that this machine still runs: clusters, their monitors and Airflow"
    )
    down.add_argument(
        "--here", action="store_true", help="only the Airflow and the runs of $BROKERPROOF_VAR (var/ of this checkout)"
    )

    prune = add_command("prune", "history", "delete tables and runs that are older than the settings keep them")
    prune.add_argument("--dry-run", action="store_true", help="only list what would be deleted, with its size")

    airflow = add_command("airflow", "machine", "start, stop or describe the embedded Airflow")
    airflow.add_argument("action", choices=["start", "stop", "status"])
    return parser


def _add_run_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="PATH=VALUE",
        help="replace a value of the scenario by its dotted path, as in workload.rate=2000; may be repeated",
    )
    command.add_argument("--runtime", metavar="NAME", help="where nodes live; short for --set runtime=NAME")
    command.add_argument(
        "--keep-cluster",
        action="store_true",
        help="run a scenario on the cluster of the one before, if that fits and is proven to be as a new one; those "
        "that fit run in a row",
    )

    command.add_argument(
        "--versions",
        type=_parse_names,
        default=[],
        metavar="A,B",
        help="run each scenario with each of these versions of its system, and compare how often it failed",
    )
    command.add_argument(
        "--repeat",
        type=_parse_positive,
        default=1,
        metavar="N",
        help="run everything N times, in turns, and print how often each failed, with the interval of this rate",
    )


def _add_run(command: argparse.ArgumentParser) -> None:
    command.add_argument("run", metavar="RUN", help=_RUN)


def _add_output_file(command: argparse.ArgumentParser, text: str) -> None:
    command.add_argument("--output", metavar="FILE", help=f"{text}, whole or not at all")


def _parse_names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise argparse.ArgumentTypeError(f"`{shorten(text)}` is no list, as in 4.0.6,4.0.8")
    return list(dict.fromkeys(names))


def _parse_positive(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"`{shorten(text)}` is no number over 0")
    return int(text)


def _print_failure(error: BrokerproofError, as_json: bool, status: ExitStatus) -> int:
    print_error(str(error))
    if as_json:
        print_json({"error": str(error)})
    return status
