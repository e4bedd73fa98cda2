"""`report`: writes the files of a run's report, for readers outside Airflow."""

from __future__ import annotations

import argparse

from brokerproof.commands.output import ExitStatus, make_absolute, open_run, print_error, print_json
from brokerproof.reports.exports import write_exports
from brokerproof.run.judgement import find_judgement
from brokerproof.settings import Settings


def execute(options: argparse.Namespace, settings: Settings) -> int:
    """Write the files and print their paths. If the run was not judged, print an error too and return UNKNOWN."""
    run = open_run(options.run_directory)
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
