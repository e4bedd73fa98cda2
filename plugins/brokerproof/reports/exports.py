"""The files that `brokerproof report` writes about a run. A new file needs one line in `EXPORTS` and one function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from brokerproof.machine.files import stage_object
from brokerproof.reports.badge import render_run_badge
from brokerproof.reports.junit import render_junit
from brokerproof.reports.latency_picture import PICTURE, draw_picture
from brokerproof.reports.pages import Page
from brokerproof.reports.run_page import render_run_page
from brokerproof.reports.run_report import read_run_report
from brokerproof.results.durations import find_verdict_time, read_trigger_time
from brokerproof.results.history import compare_recorded_run
from brokerproof.results.history_schema import RecordedRun
from brokerproof.results.regressions import RunComparison
from brokerproof.results.run_outcome import compose_outcome
from brokerproof.run.directory import RUN_REPORT, Run
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
    """Return the report of a run, with a comparison to earlier runs in the history that the settings name.

    Raises RunError or InputError if its run.json cannot be used.
    """
    recorded, comparison, not_compared = compare_recorded_run(run)
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


def render_run_file(run: Run) -> str:
    """Return the run's page as one HTML file that needs no server.

    Raises RunError or InputError if its run.json cannot be used.
    """
    return render_run_page(read_run_report(run), Page(inline=True))


def write_run_file(run: Run) -> str:
    """Write the run's page, and a picture of the publish latencies if there are any, into the run's directory.

    Return the path of the page. Raises RunError or InputError if the run's run.json cannot be used, and MachineError if
    a file cannot be written.
    """
    report = read_run_report(run)
    run.write_text(RUN_REPORT, render_run_page(report, Page(inline=True)))
    if report.outcome.latency:
        run.write_text(PICTURE, draw_picture(report.outcome.latency, run.scenario.title))
    return run.path(RUN_REPORT)


# The function that makes the text of each file from a run.
EXPORTS: Mapping[str, Callable[[Run], str]] = {
    "report.html": render_run_file,
    "junit.xml": render_junit,
    "report.json": render_run_json,
    "badge.svg": render_run_badge,
}


def write_exports(run: Run, directory: str) -> dict[str, str]:
    """Write all files of `EXPORTS` about a run into a directory. Return {file name: location}.

    `directory` is any path or URL that fsspec knows. Raises RunError or InputError, before a file is written, if the
    run's run.json cannot be used. Raises MachineError if a file cannot be written.
    """
    texts = {name: render(run) for name, render in EXPORTS.items()}
    locations = {name: f"{directory.rstrip('/')}/{name}" for name in texts}
    for name, text in texts.items():
        with stage_object(locations[name], "wb") as file:
            file.write(text.encode("utf-8"))
    return locations
