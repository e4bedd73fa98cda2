"""Prints what became of all mutants: the survivors with their reasons, and a table by file.

After a whole campaign, it also writes which tests killed most mutants, so that the next campaign takes less time.
"""

from __future__ import annotations

import sys

from mutant_trials import Mutant, find_results, read_reasons, read_results, report, write_kills
from python_campaign import GROUPS, change_file
from sql_campaign import PACKAGES, list_mutants


def main() -> None:
    mutants: list[Mutant] = [mutant for package in PACKAGES for mutant in list_mutants(package)]
    mutants += [mutant for files, _ in GROUPS.values() for file in files for mutant in change_file(file)[1]]
    results = find_results()
    known = read_results(results)
    if all(mutant.key in known for mutant in mutants):
        write_kills(mutants, results)
    sys.exit(report(mutants, known, read_reasons()))


if __name__ == "__main__":
    main()
