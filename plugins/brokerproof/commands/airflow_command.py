"""`airflow`: starts, stops or describes the embedded Airflow."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict

from brokerproof.commands.output import ExitStatus, print_json
from brokerproof.orchestration.embedded.embedded_airflow import EmbeddedAirflow
from brokerproof.orchestration.embedded.environment import USER
from brokerproof.settings import Settings


def execute(options: argparse.Namespace, settings: Settings) -> int:
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
