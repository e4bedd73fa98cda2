"""`explain`: shows everything that a run recorded about one message: attempts, copies, deliveries and anomalies."""

from __future__ import annotations

import argparse

from rich.console import Console

from brokerproof.commands.output import ExitStatus, open_run, print_json
from brokerproof.errors import InputError
from brokerproof.reports.messages.message_life import read_message_life
from brokerproof.reports.messages.message_view import print_message_life
from brokerproof.settings import Settings


def execute(options: argparse.Namespace, settings: Settings) -> int:
    """Print the life of the message. Return `UNKNOWN` if some evidence about the message is missing or damaged."""
    del settings
    life = read_message_life(open_run(options.run_directory), options.producer, _parse_seq(options.seq))
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
