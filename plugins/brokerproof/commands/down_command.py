"""`down`: stops everything of Brokerproof that runs on this machine."""

from __future__ import annotations

import argparse

from brokerproof import lifecycle
from brokerproof.commands.exit_status import ExitStatus
from brokerproof.commands.output import print_json
from brokerproof.orchestration.embedded_airflow import EmbeddedAirflow
from brokerproof.settings import Settings
from brokerproof.spark.temporary_files import remove_abandoned_directories


def execute(options: argparse.Namespace, settings: Settings) -> int:
    """Stop Airflow, the clusters and their monitors, and print what was stopped."""
    # Airflow stops first, so that no task starts again what this command stops next.
    stopped = ["Airflow"] if EmbeddedAirflow(settings).stop() else []
    stopped += lifecycle.down()
    remove_abandoned_directories(settings.spark_temporary)
    if options.json:
        print_json({"stopped": stopped})
    else:
        print(f"stopped: {', '.join(stopped)}" if stopped else "nothing was running")
    return ExitStatus.OK
