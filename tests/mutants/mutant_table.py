"""Prints what became of all mutants: the survivors with their reasons, and a table by file."""

from __future__ import annotations

import sys
from pathlib import Path

import python_campaign
import sql_campaign
from mutant_trials import find_results, read_reasons, read_results, report


def main() -> None:
    mutants = [mutant for package in sql_campaign.PACKAGES for mutant in sql_campaign.list_mutants(package)]
    changed = [python_campaign.change_file(file) for files, _ in python_campaign.GROUPS.values() for file in files]
    known = read_results(find_results())
    reasons = read_reasons(Path(__file__).with_name("survivors.json"))
    sys.exit(report([*mutants, *(mutant for _, some in changed for mutant in some)], known, reasons))


if __name__ == "__main__":
    main()
