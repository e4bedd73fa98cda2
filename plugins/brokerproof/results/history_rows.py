"""The rows of the history database for one run."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from brokerproof import clock
from brokerproof.errors import RunError
from brokerproof.experiment.verdict import Verdict
from brokerproof.machine.versions import read_installed_versions, read_package_version
from brokerproof.results.anomaly_samples import read_anomaly_samples
from brokerproof.results.comparability import compute_digest, describe_machine
from brokerproof.results.durations import find_verdict_time, read_trigger_time
from brokerproof.results.history_schema import (
    MEASUREMENT_COLUMNS,
    AnomalyCount,
    AnomalySample,
    RecordedCheck,
    RecordedMeasurement,
    RecordedRun,
)
from brokerproof.results.run_outcome import compose_outcome
from brokerproof.run.directory import Run
from brokerproof.run.judgement import TOTALS, Check, Judgement, find_judgement
from brokerproof.run.load_rate import find_rate
from brokerproof.run.records import TablesDeletion, read_record
from brokerproof.systems.registry import find_system

log = logging.getLogger(__name__)


def make_history_rows(run: Run, samples: int) -> RecordedRun:
    """Return a run's row with its child rows: checks, measurements, anomaly counts and at most `samples` anomalies.

    Evidence other than run.json that is missing or damaged is left out. Raises RunError or InputError if run.json
    cannot be used.
    """
    scenario, topology = run.scenario, run.topology
    outcome = compose_outcome(run)
    judgement, _ = find_judgement(run)
    parameters: dict[str, Any] = {
        "scenario": _dump_scenario(run),
        "topology": topology.model_dump(mode="json"),
        "machine": run.facts.machine or describe_machine(),
    }
    deletion = _find_deletion(run)
    return RecordedRun(
        run_id=run.run_id,
        scenario=scenario.name,
        topology=scenario.topology,
        runtime=scenario.runtime,
        system=topology.system,
        system_version=scenario.version,
        guarantee=str(scenario.guarantee),
        verdict=str(outcome.verdict),
        expected_verdict=str(scenario.expect.verdict),
        met=outcome.met,
        why=_remove_nul(outcome.why),
        suites={str(name): str(verdict) for name, verdict in outcome.suites.items()},
        started_at=read_trigger_time(run),
        finished_at=find_verdict_time(run),
        recorded_at=clock.to_utc(clock.now_us()),
        total_s=outcome.seconds.total,
        phases_s=outcome.seconds.phases,
        overhead_s=outcome.seconds.overhead,
        **{name: outcome.counts[name] for name in TOTALS},
        run_dir=outcome.run_dir,
        report=outcome.report,
        parameters=parameters,
        comparable=compute_digest(parameters),
        versions={
            **read_installed_versions(),
            **{package: read_package_version(package) for package in find_system(topology).packages},
            **run.facts.versions,
            topology.system: scenario.version,
        },
        tables_deleted_at=clock.to_utc(deletion.at) if deletion else None,
        tables_deleted_why=deletion.why if deletion else None,
        checks=[
            RecordedCheck(
                suite=str(suite),
                expectation=_remove_nul(check.name),
                description=_remove_nul(_describe_check(check)),
                verdict=str(check.verdict),
                unexpected=check.unexpected,
            )
            for suite, judged in (judgement.suites.items() if judgement else ())
            for check in judged.expectations
        ],
        measurements=[
            RecordedMeasurement(
                **row.model_dump(mode="json", include=set(MEASUREMENT_COLUMNS)) | {"subject": _remove_nul(row.subject)}
            )
            for row in (judgement.measurements if judgement else ())
        ],
        anomaly_counts=list(_make_anomaly_counts(judgement)),
        anomaly_samples=[AnomalySample(**row) for row in _read_samples(run, judgement, samples)],
    )


def _dump_scenario(run: Run) -> dict[str, Any]:
    """Return the run's scenario as JSON. If the load found its rate, the scenario has this rate.

    So a run is comparable with those that had the same rate.
    """
    scenario = run.scenario.model_dump(mode="json")
    try:
        rate = find_rate(run)
    except RunError as error:
        log.warning("the rate that the load of run %s found is not known: %s", run.run_id, error)
    else:
        scenario["workload"]["rate"] = rate or scenario["workload"]["rate"]
    return scenario


def _find_deletion(run: Run) -> TablesDeletion | None:
    """Return when and why the run's tables were deleted; None if they were not, or if the record cannot be read."""
    try:
        return read_record(run, TablesDeletion)
    except RunError as error:
        log.warning("when and why the tables of run %s were deleted is not known: %s", run.run_id, error)
        return None


def _describe_check(check: Check) -> str:
    """Return an expectation's description. If the expectation does not apply to the run, the text also says why."""
    applies = check.verdict is not Verdict.NOT_APPLICABLE
    return check.description if applies else f"{check.description} Not applicable: {check.why}."


def _make_anomaly_counts(judgement: Judgement | None) -> Iterator[AnomalyCount]:
    if judgement is None:
        return
    for legal, kinds in ((False, judgement.counts.illegal), (True, judgement.counts.legal)):
        for anomaly, count in kinds.items():
            if count:
                yield AnomalyCount(anomaly=str(anomaly), legal=legal, count=count)


def _read_samples(run: Run, judgement: Judgement | None, limit: int) -> list[dict[str, Any]]:
    """Return samples of the run's anomalies; none if they cannot be read, so that the run is recorded nevertheless."""
    if judgement is None:
        return []
    try:
        rows = read_anomaly_samples(run, judgement.counts, limit)
    except RunError as error:
        log.warning("no samples of the anomalies of run %s are kept: %s", run.run_id, error)
        return []
    return [
        {
            name: _remove_nul(value) if isinstance(value, str) else value
            for name, value in row.items()
            if name != "run_id"
        }
        for row in rows
    ]


def _remove_nul(value: str) -> str:
    """Return the text without NUL characters and with `?` for each lone surrogate. PostgreSQL refuses both.

    Both may occur in the log of a killed process.
    """
    return value.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")
