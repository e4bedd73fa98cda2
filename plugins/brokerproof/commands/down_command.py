"""`down`: stops Airflow, and all clusters and monitors of this user on this machine.

Then it records the runs in `settings.runs` that ended without an outcome.
"""

from __future__ import annotations

import argparse

from brokerproof import lifecycle
from brokerproof.commands.output import ExitStatus, print_json
from brokerproof.orchestration.embedded.embedded_airflow import EmbeddedAirflow
from brokerproof.results.recording import record_unrecorded_runs
from brokerproof.settings import Settings
from brokerproof.spark.submission import remove_abandoned_directories


def execute(options: argparse.Namespace, settings: Settings) -> int:
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
