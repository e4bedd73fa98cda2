"""A run's whole report as one JSON document, for other programs."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from brokerproof.results.durations import find_verdict_time, read_trigger_time
from brokerproof.results.history import compare_recorded_run
from brokerproof.results.history_schema import RecordedRun
from brokerproof.results.regressions import RunComparison
from brokerproof.results.run_outcome import compose_outcome
from brokerproof.run.directory import Run
from brokerproof.run.judgement import Judgement, find_judgement
from brokerproof.run.outcome import Outcome
from brokerproof.run.strict_model import StrictModel


class ReportedFacts(StrictModel):
    """The facts of a run: its times, messaging system, scenario, settings, machine and versions."""

    started_at: datetime = Field(description="when somebody asked for the run, UTC")
    finished_at: datetime | None = Field(description="when the verdict was known, UTC; null if no step ended")
    system: str = Field(description="the messaging system")
    system_version: str = Field(description="its version")
    scenario: dict[str, Any] = Field(description="as it was in force, see scenario-reference.md")
    topology: dict[str, Any] = Field(description="as it was in force, see topology-reference.md")
    settings: dict[str, Any] = Field(description="what was changed for this run, by dotted path")
    machine: dict[str, Any] | None = Field(description="the machine; null if it was not recorded")
    versions: dict[str, str | None] = Field(
        description="versions by name: those recorded with the run, else those that the run's directory names"
    )


class RunDocument(StrictModel):
    """The whole report of a run. `version` grows if a field is removed or changes its meaning, not if one is added."""

    version: Literal[3] = Field(3, description="the version of this document's model")
    outcome: Outcome = Field(description="whether and why the run is what its scenario expects")
    judgement: Judgement | None = Field(
        description="the suites, their expectations with what was observed, and the measurements with their bounds; "
        "null if the run was not judged"
    )
    not_judged: str | None = Field(description="why the run was not judged; null if it was")
    facts: ReportedFacts = Field(description="what was run, on what, and when")
    regressions: RunComparison | None = Field(
        description="the run against the comparable runs before it; null if it was not compared"
    )
    not_compared: str | None = Field(description="why the run was not compared; null if it was")


def render_run_json(run: Run) -> str:
    """Return the report of a run as JSON text. Raises RunError or InputError if its run.json cannot be used."""
    return make_run_document(run).model_dump_json(by_alias=True, indent=1) + "\n"


def make_run_document(run: Run) -> RunDocument:
    """Return the report of a run. The run is compared with the runs in the history of this machine's settings.

    Raises RunError or InputError if its run.json cannot be used.
    """
    recorded, comparison, not_compared = compare_recorded_run(run.run_id)
    judgement, not_judged = find_judgement(run)
    return RunDocument(
        outcome=compose_outcome(run),
        judgement=judgement,
        not_judged=not_judged or None,
        facts=_collect_facts(run, recorded),
        regressions=comparison,
        not_compared=not_compared or None,
    )


def _collect_facts(run: Run, recorded: RecordedRun | None) -> ReportedFacts:
    # The packages on this machine may not be those of the run, so their versions are not reported.
    own_versions = {**run.facts.versions, run.topology.system: run.scenario.version}
    return ReportedFacts(
        started_at=read_trigger_time(run),
        finished_at=find_verdict_time(run),
        system=run.topology.system,
        system_version=run.scenario.version,
        scenario=run.facts.scenario,
        topology=run.facts.topology,
        settings=run.facts.settings,
        machine=recorded.parameters.get("machine") if recorded else run.facts.machine,
        versions=dict(recorded.versions) if recorded else own_versions,
    )
