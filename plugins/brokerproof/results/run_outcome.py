"""The outcome of a run, composed from its records.

If a record is missing, damaged or contradicts itself, the verdict is at least `unknown`, and `why` gives the reason. So
a missing record can never make an outcome `met`.
"""

from __future__ import annotations

from typing import Any

from brokerproof.errors import BrokerproofError, RunError
from brokerproof.experiment.guarantees import Anomaly
from brokerproof.experiment.metrics import METRICS
from brokerproof.experiment.verdict import Verdict, merge_verdicts
from brokerproof.results.described_faults import describe_faults
from brokerproof.results.doubts import list_contradictions
from brokerproof.results.durations import compute_durations
from brokerproof.results.publish_latencies import collect_link_latencies, collect_publish_latencies
from brokerproof.results.restarts import collect_restarts
from brokerproof.results.shortfalls import explain_outcome, list_shortfalls
from brokerproof.results.story import tell_story
from brokerproof.run.counts import TOTALS
from brokerproof.run.directory import RUN_REPORT, Run
from brokerproof.run.judgement import Judgement, read_judgement
from brokerproof.run.outcome import Outcome
from brokerproof.run.step_record import list_step_problems


def compose_outcome(run: Run) -> Outcome:
    """Return the outcome of a run.

    Raises RunError if run.json is missing or damaged, and InputError if its scenario cannot be used.
    """
    scenario = run.scenario
    judgement: Judgement | None = None
    doubts = list(list_step_problems(run).values())
    try:
        judgement = read_judgement(run)
    except RunError as error:
        doubts.append(str(error))
    else:
        doubts += list_contradictions(judgement)
    verdict = judgement.worst if judgement else Verdict.UNKNOWN
    if doubts:
        verdict = merge_verdicts([verdict, Verdict.UNKNOWN])
    # `judgement.why` already gives the problems that the judgement knew.
    told = judgement.problems if judgement else ()
    untold = [doubt for doubt in doubts if doubt not in told]
    shortfalls = list_shortfalls(scenario.expect, verdict, judgement, doubts)
    return Outcome(
        run_id=run.run_id,
        scenario=scenario.name,
        topology=scenario.topology,
        runtime=scenario.runtime,
        verdict=verdict,
        expected=scenario.expect,
        met=not shortfalls,
        why=explain_outcome(scenario.expect, verdict, judgement, shortfalls, untold),
        story=_tell(run, judgement),
        notes=judgement.notes if judgement else (),
        suites={name: suite.worst for name, suite in judgement.suites.items()} if judgement else {},
        not_applicable=judgement.inapplicable if judgement else {},
        counts=_list_counts(judgement),
        recovery=dict(judgement.recovery) if judgement else {},
        bounds=_list_bounds(judgement) if judgement else {},
        latency=collect_publish_latencies(scenario, judgement.measurements) if judgement else {},
        link=collect_link_latencies(scenario, judgement.measurements) if judgement else {},
        restarts=collect_restarts(run),
        seconds=compute_durations(run, judgement.seconds if judgement else {}),
        run_dir=run.directory,
        # The address in run.json or, if it has none, the page in the run's directory.
        report=run.facts.report or run.path(RUN_REPORT),
    )


def _tell(run: Run, judgement: Judgement | None) -> str:
    """Return the story of the run, or a sentence that says why its faults cannot be read."""
    try:
        return tell_story(describe_faults(run), judgement)
    except (BrokerproofError, OSError, ValueError) as error:
        return f"The faults of the run cannot be read: {error}"


def _list_bounds(judgement: Judgement) -> dict[str, dict[str, tuple[float | None, float | None]]]:
    bounds: dict[str, dict[str, tuple[float | None, float | None]]] = {}
    for row in judgement.measurements:
        if METRICS[row.metric].is_per_fault and (row.minimum, row.maximum) != (None, None):
            bounds.setdefault(row.subject, {})[row.metric] = (row.minimum, row.maximum)
    return bounds


def _list_counts(judgement: Judgement | None) -> dict[str, Any]:
    """Return the totals and, under `legal` and `illegal`, the count of each anomaly; all None without a judgement."""
    names = (*TOTALS, "not_sent")
    if judgement is None:
        nothing = {str(anomaly): None for anomaly in Anomaly}
        return {**dict.fromkeys(names), "legal": nothing, "illegal": dict(nothing)}
    counts = judgement.counts
    return {
        **counts.model_dump(include=set(names)),
        "legal": {str(anomaly): counts.legal.get(anomaly, 0) for anomaly in Anomaly},
        "illegal": {str(anomaly): counts.illegal.get(anomaly, 0) for anomaly in Anomaly},
    }
