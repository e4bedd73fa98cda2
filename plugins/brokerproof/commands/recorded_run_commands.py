"""The commands that read one run: `verify`, `report` and `explain`."""

from __future__ import annotations

import argparse
import shlex

from rich.console import Console

from brokerproof.checks import check_suites
from brokerproof.commands.output import ExitStatus, derive_exit_status, print_error, print_json, print_warning
from brokerproof.commands.run_argument import make_absolute, open_run
from brokerproof.errors import InputError
from brokerproof.reports.exports import write_exports, write_run_file
from brokerproof.reports.messages.message_life import read_message_life
from brokerproof.reports.messages.message_view import print_message_life
from brokerproof.reports.outcome_view import print_outcome
from brokerproof.results.recording import judge_again
from brokerproof.run.judgement import find_judgement
from brokerproof.run.records import TablesDeletion, read_record
from brokerproof.settings import Settings
from brokerproof.spark.job_configuration import list_verify_options
from brokerproof.spark.submission import submit_locally

# The output of a judging on this machine that failed, in the run's directory.
_LOG = "logs/verify-again.log"


def execute_verify(options: argparse.Namespace, settings: Settings) -> int:
    """Judge the stored tables of a run again with the Spark job `verify` on this machine, and print the outcome.

    The outcome replaces the earlier one in the run's directory and in the history, and the report is written again. The
    history stays as it is if the directory is from elsewhere, unless `--record` is given. If judging fails, a run that
    was judged before keeps its judgement and its outcome, and the exit status is UNKNOWN.
    """
    run = open_run(options.run, settings)
    # This check comes first, because judging without tables would replace the run's judgement by `unknown`.
    if (deletion := read_record(run, TablesDeletion)) is not None:
        remedy = "`brokerproof history` shows the result of the run"
        raise InputError(deletion.sentence, file=run.directory, remedy=remedy)
    check_suites(settings.expectations)
    console = Console(stderr=True)
    log: list[str] = []
    arguments = [run.directory, *list_verify_options(settings.expectations)]
    with console.status("judging"):
        outcome, failure, not_recorded = judge_again(
            run,
            lambda: submit_locally(settings, "verify", arguments, log=log.append),
            runs=None if options.record else settings.runs,
        )
    if failure is not None:
        run.write_text(_LOG, "\n".join(log))
        kept = ". The run keeps the verdict that it had" if find_judgement(run)[0] is not None else ""
        print_error(f"{failure}; its output is in {run.path(_LOG)}{kept}")
    if not_recorded:
        again = f"`brokerproof verify --record {shlex.quote(run.directory)}` records it all the same"
        print_warning(f"the history stays as it is, because {not_recorded} ({again})")
    write_run_file(run)
    print_outcome(outcome, {}, console if options.json else Console())
    if options.json:
        print_json(outcome.model_dump(mode="json"))
    return ExitStatus.UNKNOWN if failure is not None else derive_exit_status(outcome)


def execute_report(options: argparse.Namespace, settings: Settings) -> int:
    """Write the files of a run's report, for readers outside Airflow, and print their paths.

    If the run was not judged, print an error too and return UNKNOWN.
    """
    run = open_run(options.run, settings)
    files = write_exports(run, make_absolute(options.output) if options.output else run.path("report"))
    _, reason = find_judgement(run)
    again = "(try `brokerproof verify`)"
    problem = f"run {run.run_id} was not judged, so its report has no verdict: {reason} {again}" if reason else None
    if problem:
        print_error(problem)
    if options.json:
        print_json({"run_id": run.run_id, "files": files, "problem": problem})
    else:
        for location in files.values():
            print(location)
    return ExitStatus.UNKNOWN if problem else ExitStatus.OK


def execute_explain(options: argparse.Namespace, settings: Settings) -> int:
    """Print everything that a run recorded about one message: attempts, copies, deliveries and anomalies.

    Return `UNKNOWN` if some evidence about the message is missing or damaged.
    """
    life = read_message_life(open_run(options.run, settings), options.producer, _parse_seq(options.seq))
    if options.json:
        print_json(life.model_dump(mode="json"))
    else:
        print_message_life(life, Console())
    return ExitStatus.UNKNOWN if life.problems else ExitStatus.OK


def _parse_seq(text: str) -> int:
    # Python refuses to convert a text of more than 4,300 digits into a number. A seq has at most 19 digits.
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise InputError(f"`{text}` is no seq", field="SEQ", remedy="give a whole number from 0 on")
    return int(text)
