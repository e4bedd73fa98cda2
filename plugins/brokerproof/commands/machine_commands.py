"""The commands `airflow` and `down`, about everything that Brokerproof runs on this machine."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict

from brokerproof import lifecycle
from brokerproof.commands.output import ExitStatus, print_json
from brokerproof.orchestration.embedded.embedded_airflow import EmbeddedAirflow
from brokerproof.orchestration.embedded.environment import USER
from brokerproof.results.recording import record_unrecorded_runs
from brokerproof.settings import Settings
from brokerproof.spark.submission import remove_abandoned_directories


def execute_airflow(options: argparse.Namespace, settings: Settings) -> int:
    """Start, stop or describe the embedded Airflow."""
    airflow = EmbeddedAirflow(settings, lambda sentence: print(sentence, file=sys.stderr))
    stopped = False
    if options.action == "start":
        settings.check_directories()
        airflow.start()
    elif options.action == "stop":
        stopped = airflow.stop()
    status = airflow.read_status()
    if options.json:
        print_json(asdict(status))
    elif status.running:
        print(f"Airflow runs at {status.url} ({'healthy' if status.healthy else 'not healthy'}, {status.memory_mb} MB)")
        print(f"user {USER}, password in {status.password_file}; logs in {status.log_directory}")
    else:
        print("Airflow was stopped" if stopped else "Airflow does not run")
    return ExitStatus.OK


def execute_down(options: argparse.Namespace, settings: Settings) -> int:
    """Stop the embedded Airflow, and all clusters and monitors of this user on this machine.

    With `--here`, stop clusters and monitors only for the runs below the directory `settings.runs`. With or without
    `--here`, record an outcome for each run below `settings.runs` that ended without an outcome.
    """
    # Airflow stops first, because its tasks could start a cluster that this command has already stopped.
    stopped = ["Airflow"] if EmbeddedAirflow(settings).stop() else []
    stopped += lifecycle.down(settings.runs if options.here else None)
    remove_abandoned_directories(settings.spark_temporary)
    recorded = list(record_unrecorded_runs(settings.runs))
    if options.json:
        print_json({"stopped": stopped, "recorded": {outcome.run_id: outcome.verdict for outcome in recorded}})
    else:
        print(f"stopped: {', '.join(stopped)}" if stopped else "nothing was running")
        for outcome in recorded:
            print(
                f"recorded {outcome.run_id}, which had ended without an outcome: {outcome.verdict}; "
                f"`brokerproof verify {outcome.run_dir}` judges its tables"
            )
    return ExitStatus.OK
