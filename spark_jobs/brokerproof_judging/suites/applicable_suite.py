"""The part of a suite that applies to a run's messaging system. The rest is not evaluated and not counted."""

from __future__ import annotations

from dataclasses import replace

from brokerproof.run.directory import Run
from brokerproof.suites.suite_file import SuiteFile
from brokerproof.suites.written_expectation import WrittenExpectation
from brokerproof.systems.registry import list_abilities

from brokerproof_judging.applicability import find_lacking


def keep_applicable(file: SuiteFile, run: Run) -> tuple[SuiteFile, dict[str, str]]:
    """Return the suite with only the expectations that apply, and {name: reason} of the others."""
    abilities = list_abilities(run)
    applicable: list[WrittenExpectation] = []
    reasons: dict[str, str] = {}
    for written in file.expectations:
        lacking = find_lacking(written.name, abilities) if written.standard is None else None
        if lacking is None:
            applicable.append(written)
        else:
            reasons[written.name] = f"{run.topology.system} cannot {lacking.meaning}"
    return replace(file, expectations=tuple(applicable)), reasons
