"""`doctor`: lists what runs require of this machine, with a remedy for each thing that is missing.

The command has a module of its own, so that it works even without the packages that only other commands import.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from brokerproof.commands.output import ExitStatus, print_json
from brokerproof.doctor import examine_machine
from brokerproof.settings import Settings


def execute_doctor(options: argparse.Namespace, settings: Settings) -> int:
    """Print each requirement and whether it is met. The exit status is UNKNOWN if one is not met."""
    findings = examine_machine(settings)
    if options.json:
        print_json([asdict(finding) for finding in findings])
    else:
        table = Table(box=None, show_header=False)
        for finding in findings:
            mark = "[green]ok[/]" if finding.ok else "[red]missing[/]"
            table.add_row(mark, finding.name, finding.found + ("" if finding.ok else f"\n→ {finding.remedy}"))
        Console().print(table)
    return ExitStatus.OK if all(finding.ok for finding in findings) else ExitStatus.UNKNOWN
