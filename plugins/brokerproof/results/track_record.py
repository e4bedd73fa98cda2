"""The track record: for each case of a scenario with a known bug, what its recorded runs came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from brokerproof.checks import load_cases
from brokerproof.directories import Directories
from brokerproof.errors import InputError
from brokerproof.experiment.scenario import KnownBug, Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.experiment.verdict import DECISIVE, Verdict
from brokerproof.results.comparability import compute_digest
from brokerproof.results.history import History
from brokerproof.results.history_schema import RecordedRun

TRACK_RULE = (
    "A case with the bug is expected to fail, and its control to pass. A run that never was in the state that the bug "
    "needs is `unknown`, and counts only as a try."
)
# The largest number of runs of a scenario that count.
_MOST_RUNS = 1000


@dataclass(frozen=True, kw_only=True)
class TrackRow:
    """What came of a case. `newest` and `at` are of its newest run that reached the state; None if none did."""

    bug: KnownBug
    scenario: str
    case: str
    expected: Verdict
    version: str
    tries: int
    reached: int
    as_expected: int
    newest: str | None
    at: datetime | None
    # What was acknowledged and what was found in the newest run, as in "11,144 acked, 3,140 lost".
    found: str = ""
    # The directories of the runs, newest first.
    run_dirs: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        return f"brokerproof track-record {self.bug.issue.rpartition('#')[2]}"

    @property
    def seen(self) -> str:
        """How often the case was as expected, and how often the state that the bug needs was reached."""
        as_expected = f"{self.expected} in {self.as_expected} of {self.reached}"
        return f"{as_expected}; reached in {self.reached} of {self.tries} tries"

    @property
    def name(self) -> str:
        return f"{self.scenario} {self.case}".rstrip()

    @property
    def surprise(self) -> str | None:
        """A sentence about runs that behaved otherwise than the row says; None if none did."""
        if self.as_expected == self.reached:
            return None
        return f"{self.name}: {self.reached - self.as_expected} of {self.reached} runs were not {self.expected}"


def make_track_row(scenario: Scenario, topology: Topology, runs: Iterable[RecordedRun]) -> TrackRow:
    """Return the row of one case of a scenario that names a bug. `runs` are of the scenario, newest first.

    Only runs with the present settings of the case count, on the version that it names.
    """
    assert scenario.bug is not None
    described = {"scenario": scenario.model_dump(mode="json"), "topology": topology.model_dump(mode="json")}
    wanted = compute_digest(described)
    # Runs of other machines count too, so the machine is left out.
    mine = [
        run
        for run in runs
        if run.parameters["scenario"].get("case", "") == scenario.case
        and run.system_version == scenario.version
        and compute_digest({name: run.parameters[name] for name in ("scenario", "topology")}) == wanted
    ]
    reached = [run for run in mine if run.verdict in DECISIVE]
    return TrackRow(
        bug=scenario.bug,
        scenario=scenario.name,
        case=scenario.case,
        expected=scenario.expect.verdict,
        version=scenario.version,
        tries=len(mine),
        reached=len(reached),
        as_expected=sum(run.met for run in reached),
        newest=reached[0].run_id if reached else None,
        at=reached[0].started_at if reached else None,
        found=_describe_messages(reached[0]) if reached else "",
        run_dirs=tuple(run.run_dir for run in mine if run.deletion is None),
    )


def _describe_messages(run: RecordedRun) -> str:
    counts = Counter[str]()
    for row in run.anomaly_counts:
        counts[row.anomaly] += row.count
    found = [f"{count:,} {anomaly}" for anomaly, count in counts.most_common() if count]
    return ", ".join([f"{run.acked or 0:,} acked", *found])


def list_track_rows(files: Mapping[str, Path], topologies: Directories, history: History | None) -> list[TrackRow]:
    """Return a row for each case of each scenario with a known bug. `files` are scenarios, by name.

    A file that cannot be used has no row. Raises HistoryError if the history cannot be read.
    """
    rows: list[TrackRow] = []
    for name, file in files.items():
        try:
            cases = [case for case in load_cases(file, topologies) if case[0].bug is not None]
        except InputError:
            # `brokerproof scenarios` and Airflow's import errors name the mistake.
            continue
        runs = history.list_runs([name], limit=_MOST_RUNS) if history is not None and cases else []
        rows += [make_track_row(scenario, topology, runs) for scenario, topology, _ in cases]
    return rows


def select_bugs(scenarios: Sequence[Scenario], issue: str | None) -> list[Scenario]:
    """Return the scenarios with a known bug: all, or those of an issue.

    An issue is written as OWNER/PROJECT#NUMBER, or as its number.
    """
    return [
        scenario
        for scenario in scenarios
        if scenario.bug is not None
        and (issue is None or issue in (scenario.bug.issue, scenario.bug.issue.rpartition("#")[2]))
    ]
