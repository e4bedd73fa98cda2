"""The runs of this machine from which the tables of the docs take their figures."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from brokerproof.checks import load_scenario
from brokerproof.directories import make_directories
from brokerproof.errors import BrokerproofError
from brokerproof.experiment.guarantees import Anomaly
from brokerproof.experiment.scenario import Scenario
from brokerproof.results.comparability import compute_digest
from brokerproof.results.history import History, open_history
from brokerproof.results.history_schema import RecordedRun
from brokerproof.results.run_groups import GROUPED_RUNS
from brokerproof.results.run_outcome import compose_outcome
from brokerproof.results.track_record import TrackRow, list_track_rows
from brokerproof.run.directory import Run
from brokerproof.run.judgement import Judgement, read_judgement
from brokerproof.run.outcome import Outcome
from brokerproof.settings import Settings


class NoRunError(BrokerproofError):
    """No run of this machine can supply the figures for a row of a table in the docs.

    `recorded` says whether an earlier run of the same scenario, such as one on another machine, gave the row's figures.
    """

    def __init__(self, message: str, *, recorded: bool) -> None:
        super().__init__(message)
        self.recorded = recorded


@dataclass(frozen=True)
class MeasuredRun:
    run: Run

    @cached_property
    def outcome(self) -> Outcome:
        return compose_outcome(self.run)

    @cached_property
    def judgement(self) -> Judgement:
        return read_judgement(self.run)

    @cached_property
    def values(self) -> Mapping[tuple[str, str], float | None]:
        """The measured values by (metric, subject). The subject, such as a fault, may be empty."""
        return {(row.metric, row.subject or ""): row.value for row in self.judgement.measurements}

    @cached_property
    def evidence(self) -> Mapping[tuple[str, str], str]:
        """The evidence of each measurement, with the same keys as `values`."""
        return {(row.metric, row.subject or ""): row.evidence for row in self.judgement.measurements}

    @property
    def acked(self) -> str:
        return f"{self.judgement.counts.acked:,}"

    def count_anomaly(self, anomaly: str) -> int:
        """Return the number of anomalies of a kind, allowed (legal) and forbidden (illegal) together."""
        return self.judgement.counts.count_anomaly(Anomaly(anomaly))

    def read_metric(self, metric: str) -> dict[str, float | None]:
        """Return the values of a recovery metric by fault; None for a value that was not measured."""
        return {fault: values.get(metric) for fault, values in self.outcome.recovery.items()}

    def find_worst(self, metric: str) -> float | None:
        """Return the largest measured value of a recovery metric over all faults, or None if there is no value."""
        return max((value for value in self.read_metric(metric).values() if value is not None), default=None)

    def count_lost_everywhere(self) -> int:
        """Return the number of acked or seen messages that no cluster holds, for the fault that lost the most.

        If this number was not measured for any fault, the result is the number of `lost` messages.
        """
        before, after = self.read_metric("rpo_messages"), self.read_metric("lost_later_messages")
        pairs = [(before[fault], later) for fault, later in after.items()]
        totals = [first + later for first, later in pairs if first is not None and later is not None]
        return int(max(totals)) if totals else self.count_anomaly("lost")


class MeasuredRuns:
    """The runs in this machine's directory of runs, newest first.

    `recorded` has the digests of the scenarios whose figures in the docs come from a run that counts, on any machine.
    `find_last` adds the digest of a scenario if it finds such a run.
    """

    def __init__(self, settings: Settings, recorded: Iterable[str] = ()) -> None:
        self._settings, self.recorded = settings, set(recorded)
        # The pages describe the shipped scenarios, so a user's own directories do not count.
        self._scenarios, self._topologies = settings.home / "dags" / "scenarios", settings.home / "topologies"
        self._runs = sorted(
            (Run(str(file.parent)) for file in settings.runs.glob("*/run.json")),
            key=lambda run: run.facts.created_at,
            reverse=True,
        )

    def load_scenario(self, name: str) -> Scenario:
        return load_scenario(self._scenarios / f"{name}.yaml", self._topologies)[0]

    def list_scenarios(self) -> list[str]:
        return sorted(file.stem for file in self._scenarios.glob("*.yaml"))

    def find_last(self, name: str, overrides: Mapping[str, Any] | None = None) -> MeasuredRun:
        """Return the last run of a scenario with `overrides` that counts. Raises NoRunError if no run counts.

        A run counts if its outcome is the expected one, if the scenario expects the same one, and if its scenario
        and topology are comparable with the present files (comparability.py). So a control, which may differ in nothing
        but its version, does not count for its scenario. The machine may differ.
        """
        scenario, topology = load_scenario(self._scenarios / f"{name}.yaml", self._topologies, overrides)
        wanted = compute_digest(
            {"scenario": scenario.model_dump(mode="json"), "topology": topology.model_dump(mode="json")}
        )
        for run in self._runs:
            if run.facts.scenario["name"] == name and wanted == compute_digest(
                {"scenario": run.facts.scenario, "topology": run.facts.topology}
            ):
                measured = MeasuredRun(run)
                if measured.outcome.met and run.facts.scenario["expect"]["verdict"] == scenario.expect.verdict:
                    self.recorded.add(wanted)
                    return measured
        options = "".join(
            f" --set {shlex.quote(f'{path}={json.dumps(value)}')}" for path, value in (overrides or {}).items()
        )
        sentence = f"no run counts; make one with: brokerproof run {name}{options}"
        raise NoRunError(sentence, recorded=wanted in self.recorded)

    def list_known_bugs(self) -> list[TrackRow]:
        """Return a row for each case of the shipped scenarios with a known bug, by the history of this machine."""
        files = {file.stem: file for file in sorted(self._scenarios.glob("*.yaml"))}
        with self._open_history() as history:
            return list_track_rows(files, make_directories(self._topologies), history)

    def list_tries(self, search: str) -> list[RecordedRun]:
        """Return the recorded runs of a scenario that draws its faults, if only the seed is another one.

        A seed gives other faults if anything else in `draw` differs. Raises NoRunError if there is no such run.
        """
        draw = self.load_scenario(search).model_dump(mode="json")["draw"] | {"seed": None}
        with self._open_history() as history:
            tries = [
                run
                for run in history.list_runs([search], limit=GROUPED_RUNS)
                if (run.parameters["scenario"].get("draw") or {}) | {"seed": None} == draw
            ]
        wanted = hashlib.sha256(json.dumps({search: draw}, sort_keys=True).encode()).hexdigest()
        if not tries:
            sentence = f"no run counts; make one with: brokerproof run {search} --repeat 40 --keep-cluster"
            raise NoRunError(sentence, recorded=wanted in self.recorded)
        self.recorded.add(wanted)
        return tries

    def _open_history(self) -> History:
        return open_history(self._settings.database_url, path=self._settings.var / "history.db")

    def count_case(self, row: TrackRow) -> TrackRow:
        """Return the row if one of its runs reached the state that the bug needs. Raises NoRunError if none did."""
        name = f"{row.scenario}/{row.case}"
        if row.at is None:
            sentence = f"no run of {row.name} counts; make one with: {row.command}"
            raise NoRunError(sentence, recorded=name in self.recorded)
        self.recorded.add(name)
        return row
