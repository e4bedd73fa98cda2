"""Prints what became of all mutants: the survivors with their reasons, and a table by file.

After a whole campaign, it also writes which tests killed most mutants, so that the next campaign takes less time.
"""

from __future__ import annotations

import sys
from pathlib import Path

import python_campaign
import sql_campaign
from mutant_trials import Mutant, find_results, read_reasons, read_results, report, write_kills


def main() -> None:
    mutants: list[Mutant] = [
        mutant for package in sql_campaign.PACKAGES for mutant in sql_campaign.list_mutants(package)
    ]
    changed = [python_campaign.change_file(file) for files, _ in python_campaign.GROUPS.values() for file in files]
    everything = [*mutants, *(mutant for _, some in changed for mutant in some)]
    results = find_results()
    known = read_results(results)
    if all(mutant.key in known for mutant in everything):
        write_kills(everything, results)
    reasons = read_reasons(Path(__file__).with_name("survivors.json"))
    sys.exit(report(everything, known, reasons))


if __name__ == "__main__":
    main()
