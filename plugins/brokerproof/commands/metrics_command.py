"""`metrics`: prints metrics of every scenario's last run in Prometheus' text format."""

from __future__ import annotations

import argparse
import signal

from brokerproof.commands.output import ExitStatus, deliver_text
from brokerproof.errors import InputError
from brokerproof.reports.last_run_metrics import render_metrics, serve_metrics
from brokerproof.results.history import open_history
from brokerproof.settings import Settings

_ENDING = {signal.SIGTERM, signal.SIGINT}


def execute(options: argparse.Namespace, settings: Settings) -> int:
    """Print the metrics, write them into the file of `--output`, or serve them over HTTP until SIGTERM or SIGINT."""
    with open_history() as history:
        if options.listen:
            address, port = parse_listen(options.listen)
            # The signals are blocked before the server's thread starts, so that the thread blocks them too.
            signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
            with serve_metrics(history, address, port) as bound:
                print(f"the metrics are at http://{address}:{bound}/metrics", flush=True)
                signal.sigwait(_ENDING)
            return ExitStatus.OK
        metrics = render_metrics(history)
    deliver_text(metrics, "metrics", options.output, as_json=options.json)
    return ExitStatus.OK


def parse_listen(value: str) -> tuple[str, int]:
    """Return (address, port) for the text `ADDRESS:PORT`. Raises InputError for any other text."""
    address, _, port = value.rpartition(":")
    if not address or not port.isdigit() or int(port) > 65535:
        raise InputError(f"{value!r} is no address with a port", field="--listen", remedy="write 127.0.0.1:9101")
    return address, int(port)
