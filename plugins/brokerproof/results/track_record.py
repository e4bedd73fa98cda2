"""The track record: for each case of a scenario with a known bug, what its recorded runs came to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from brokerproof.experiment.scenario import KnownBug, Scenario
from brokerproof.experiment.verdict import DECISIVE, Verdict
from brokerproof.results.history_schema import RecordedRun

TRACK_RULE = (
    "A case with the bug is expected to fail, and its control to pass. A run that never was in the state that the bug "
    "needs is `unknown`, and counts only as a try."
)


@dataclass(frozen=True, kw_only=True)
class TrackRow:
    """What came of a case. `newest` and `at` are of its newest run that reached the state; None if none did."""

    bug: KnownBug
    scenario: str
    case: str
    expected: Verdict
    versions: tuple[str, ...]
    tries: int
    reached: int
    as_expected: int
    newest: str | None
    at: datetime | None

    @property
    def name(self) -> str:
        return f"{self.scenario} {self.case}".rstrip()

    @property
    def surprise(self) -> str | None:
        """A sentence about runs that behaved otherwise than the row says; None if none did."""
        if self.as_expected == self.reached:
            return None
        return f"{self.name}: {self.reached - self.as_expected} of {self.reached} runs were not {self.expected}"


def make_track_row(scenario: Scenario, runs: Iterable[RecordedRun]) -> TrackRow:
    """Return the row of one case of a scenario that names a bug. `runs` are of the scenario, newest first."""
    assert scenario.bug is not None
    mine = [run for run in runs if run.parameters["scenario"].get("case", "") == scenario.case]
    reached = [run for run in mine if run.verdict in DECISIVE]
    return TrackRow(
        bug=scenario.bug,
        scenario=scenario.name,
        case=scenario.case,
        expected=scenario.expect.verdict,
        versions=tuple(sorted({run.system_version for run in mine})),
        tries=len(mine),
        reached=len(reached),
        as_expected=sum(run.met for run in reached),
        newest=reached[0].run_id if reached else None,
        at=reached[0].started_at if reached else None,
    )


def select_bugs(scenarios: Sequence[Scenario], issue: str | None) -> list[Scenario]:
    """Return the scenarios with a known bug: all, or those of an issue, written as `apache/pulsar#26074` or `26074`."""
    return [
        scenario
        for scenario in scenarios
        if scenario.bug is not None
        and (issue is None or issue in (scenario.bug.issue, scenario.bug.issue.rpartition("#")[2]))
    ]
