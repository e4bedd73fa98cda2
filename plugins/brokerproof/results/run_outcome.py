"""The outcome of a run, composed from its records, with the latencies of publishing and the restarts of nodes.

If a record is missing, damaged or contradicts itself, the verdict is `unknown` or more severe, and `why` has the
reason. So a missing record cannot make a run count as expected (`met`).
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from brokerproof.errors import BrokerproofError, RunError
from brokerproof.experiment.guarantees import Anomaly, Suite
from brokerproof.experiment.metrics import METRICS
from brokerproof.experiment.numbers import format_value
from brokerproof.experiment.scenario import ExpectedOutcome, Phase, Scenario
from brokerproof.experiment.verdict import DECISIVE, Verdict, merge_verdicts
from brokerproof.faults.registry import FAULT_KINDS
from brokerproof.results.durations import compute_durations
from brokerproof.results.found_rate import describe_found_rate
from brokerproof.results.missed_rates import describe_missed_rates
from brokerproof.results.story import describe_faults, tell_story
from brokerproof.run.directory import RUN_REPORT, Run
from brokerproof.run.judgement import TOTALS, Judgement, find_judgement
from brokerproof.run.measurement import Measurement
from brokerproof.run.observations import SampledMetric, Source, split_name
from brokerproof.run.outcome import FirstOutcome, LatenciesByTime, NodeRestarts, Outcome
from brokerproof.run.records import ClusterReuse, read_record
from brokerproof.run.step_record import list_step_problems
from brokerproof.run.table_rows import iterate_rows


def compose_outcome(run: Run) -> Outcome:
    """Return the outcome of a run.

    Raises RunError if run.json is missing or damaged, and InputError if its scenario cannot be used.
    """
    scenario = run.scenario
    judgement, problem = find_judgement(run)
    doubts = [*list_step_problems(run).values(), *(_list_contradictions(judgement) if judgement else [problem])]
    verdict = judgement.worst if judgement else Verdict.UNKNOWN
    if doubts:
        verdict = merge_verdicts([verdict, Verdict.UNKNOWN])
    # `judgement.why` already gives the problems that the judgement knew.
    known = judgement.problems if judgement else ()
    further = [doubt for doubt in doubts if doubt not in known]
    shortfalls = _list_shortfalls(scenario.expect, verdict, judgement, doubts)
    return Outcome(
        run_id=run.run_id,
        scenario=scenario.name,
        topology=scenario.topology,
        runtime=scenario.runtime,
        triggered_by=run.facts.triggered_by,
        verdict=verdict,
        expected=scenario.expect,
        met=not shortfalls,
        why=_explain_outcome(scenario.expect, verdict, judgement, shortfalls, further),
        story=_tell(run, judgement),
        notes=(
            *_list_earlier(run),
            *_describe_kept_cluster(run),
            *describe_found_rate(run),
            *describe_missed_rates(run),
            *(judgement.notes if judgement else ()),
        ),
        suites={name: suite.worst for name, suite in judgement.suites.items()} if judgement else {},
        unknown_suites=_explain_unknown_suites(judgement) if judgement else {},
        not_applicable=judgement.inapplicable if judgement else {},
        counts=_list_counts(judgement),
        recovery=dict(judgement.recovery) if judgement else {},
        bounds=_list_bounds(judgement) if judgement else {},
        unmeasured=_list_unmeasured(judgement) if judgement else {},
        latency=collect_publish_latencies(scenario, judgement.measurements) if judgement else {},
        link=collect_link_latencies(scenario, judgement.measurements) if judgement else {},
        restarts=collect_restarts(run),
        seconds=compute_durations(run, judgement.seconds if judgement else {}),
        run_dir=run.directory,
        # The address in run.json or, if it has none, the page in the run's directory.
        report=run.facts.report or run.path(RUN_REPORT),
    )


def _list_earlier(run: Run) -> Iterator[str]:
    """Yield a sentence with the run's first verdict, if the run was judged again."""
    try:
        first = read_record(run, FirstOutcome)
    except RunError as error:
        yield f"The first verdict of this run is not known: {error}"
    else:
        if first is not None:
            yield first.sentence


def _describe_kept_cluster(run: Run) -> Iterator[str]:
    """Yield a sentence that says whether the run used the nodes of an earlier run."""
    first, use = run.facts.cluster, run.facts.cluster_use
    if first is None:
        return
    try:
        reuse = read_record(run, ClusterReuse)
    except RunError as error:
        yield f"Whether this run used a kept cluster is not known: {error}"
    else:
        if reuse is not None and reuse.reused:
            started_by = posixpath.basename(first)
            yield f"Run {use} on the cluster that {started_by} started; it was proven to be as a new one."
        elif reuse is not None:
            yield f"The cluster that an earlier run had kept was started anew, because {reuse.why}."


def _list_contradictions(judgement: Judgement) -> list[str]:
    """Return the reasons, as phrases, why the judgement does not prove its verdict; empty if it does."""
    reasons = [f"suite {suite} was not judged" for suite in Suite if suite not in judgement.suites]
    reasons += [
        f"suite {name} {suite.worst} with {suite.evaluated} of its {suite.written} expectations evaluated"
        for name, suite in judgement.suites.items()
        # Only `passed` and `failed` must rest on all expectations of the suite.
        if suite.evaluated != suite.written and suite.worst in DECISIVE
    ]
    if judgement.worst is Verdict.PASSED:
        reasons += [
            f"the judgement says passed and counts {count:,} illegal {anomaly}"
            for anomaly, count in judgement.counts.illegal.items()
            if count
        ]
        if unproven := judgement.counts.legal.get(Anomaly.UNPROVEN, 0):
            reasons.append(f"the judgement says passed and counts {unproven:,} unproven")
    return reasons


def _list_shortfalls(
    expect: ExpectedOutcome, verdict: Verdict, judgement: Judgement | None, doubts: Sequence[str]
) -> list[str]:
    """Return a phrase for each difference from the expected outcome; empty if the run meets it."""
    if verdict is not expect.verdict:
        shortfalls = [f"{verdict} instead of {expect.verdict}"]
    # If a scenario expects `unknown`, a run that broke down does not meet this. A judgement `unknown` does.
    elif doubts and not (verdict is Verdict.UNKNOWN and judgement and judgement.worst is Verdict.UNKNOWN):
        shortfalls = [f"{verdict} as expected, but the run does not prove it"]
    else:
        shortfalls = []
    for anomaly, minimum in expect.at_least.items():
        count = judgement.counts.count_anomaly(anomaly) if judgement else 0
        if count < minimum:
            shortfalls.append(f"{anomaly} was found {count:,} times, expected at least {minimum:,}")
    for suite in expect.failed_suites:
        result = judgement.suites[suite].worst if judgement and suite in judgement.suites else "not judged"
        if result != Verdict.FAILED:
            shortfalls.append(f"suite {suite} had to fail and is {result}")
    return shortfalls


def _explain_outcome(
    expect: ExpectedOutcome,
    verdict: Verdict,
    judgement: Judgement | None,
    shortfalls: Sequence[str],
    doubts: Sequence[str],
) -> str:
    """Return one line: whether the outcome is the expected one, and the reasons for the verdict."""
    parts = list(shortfalls)
    if not shortfalls:
        parts.append(f"{verdict}, as expected")
        if judgement:
            parts += [
                f"{anomaly} was found {judgement.counts.count_anomaly(anomaly):,} times" for anomaly in expect.at_least
            ]
        parts += [f"suite {suite} failed" for suite in expect.failed_suites]
    elif judgement and verdict is Verdict.FAILED and expect.verdict is Verdict.PASSED:
        held = (Verdict.PASSED, Verdict.NOT_APPLICABLE)
        parts += [f"suite {name} {suite.worst}" for name, suite in judgement.suites.items() if suite.worst not in held]
    parts += doubts
    if judgement and judgement.why:
        parts.append(judgement.why)
    return "; ".join(" ".join(part.split()).rstrip(".;") for part in parts) + "."


def _explain_unknown_suites(judgement: Judgement) -> dict[str, str]:
    reasons: dict[str, str] = {}
    for name, suite in judgement.suites.items():
        if suite.worst is Verdict.UNKNOWN:
            # After its first reason, the sentence may list all other expectations that are unknown.
            reason, others, _ = " ".join(suite.why.split()).partition(f"; {Verdict.UNKNOWN} too: ")
            number = sum(check.verdict is Verdict.UNKNOWN for check in suite.expectations) - 1
            reasons[name] = f"{reason} (and {number:,} more)" if others else reason
    return reasons


def _tell(run: Run, judgement: Judgement | None) -> str:
    """Return the story of the run, or a sentence that says why its faults cannot be read."""
    try:
        return tell_story(describe_faults(run), judgement)
    except (BrokerproofError, OSError, ValueError) as error:
        return f"The faults of the run cannot be read: {error}"


def _list_bounds(judgement: Judgement) -> dict[str, dict[str, tuple[float | None, float | None]]]:
    bounds: dict[str, dict[str, tuple[float | None, float | None]]] = {}
    for row in judgement.measurements:
        if METRICS[row.metric].is_per_fault and (in_force := judgement.find_bounds(row)) != (None, None):
            bounds.setdefault(row.subject, {})[row.metric] = in_force
    return bounds


def _list_unmeasured(judgement: Judgement) -> dict[str, dict[str, str]]:
    reasons: dict[str, dict[str, str]] = {}
    for row in judgement.measurements:
        if row.value is None and row.metric in judgement.recovery.get(row.subject, {}):
            limit = f"at least {format_value(row.at_least, row.unit)}: " if row.at_least is not None else ""
            reasons.setdefault(row.subject, {})[row.metric] = f"{limit}{row.evidence}"
    return reasons


def _list_counts(judgement: Judgement | None) -> dict[str, Any]:
    """Return the totals, and each anomaly's counts under `legal` (allowed) and `illegal`; all None if not judged."""
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


_PUBLISH_METRICS = {"publish_latency_p50_ms": "p50_ms", "publish_latency_p99_ms": "p99_ms"}
_LINK_METRICS = {"link_added_p50_ms": "p50_ms", "link_added_p99_ms": "p99_ms"}


def collect_publish_latencies(scenario: Scenario, measurements: Iterable[Measurement]) -> LatenciesByTime:
    """Return publish latencies in milliseconds: {fault or phase: {cluster: {`p50_ms` or `p99_ms`: value}}}.

    The faults are those that slow the network down, and the phases are `steady` and `recovery`. Without such a fault,
    the result is empty. The cluster is `all` if the clusters were not measured separately.
    """
    slowing = [each.name for each in scenario.faults if each.kind in FAULT_KINDS and FAULT_KINDS[each.kind].slows]
    if not slowing:
        return {}
    latencies: LatenciesByTime = {when: {} for when in (Phase.STEADY, *slowing, Phase.RECOVERY)}
    for each in measurements:
        when, _, cluster = each.subject.partition("/")
        if each.metric in _PUBLISH_METRICS and when in latencies:
            latencies[when].setdefault(cluster or "all", {})[_PUBLISH_METRICS[each.metric]] = each.value
    for by_cluster in latencies.values():
        if len(by_cluster) > 1:
            by_cluster.pop("all", None)
    return latencies


def collect_link_latencies(scenario: Scenario, measurements: Iterable[Measurement]) -> LatenciesByTime:
    """Return the milliseconds that emulated links between regions added beyond their set delay.

    The form is {fault or phase: {direction `REGION>OTHER`: {`p50_ms` or `p99_ms`: value}}}. Faults and phases are those
    of `collect_publish_latencies`.
    """
    times = collect_publish_latencies(scenario, ())
    latencies: LatenciesByTime = {}
    for each in measurements:
        way, _, when = each.subject.partition("/")
        if each.metric in _LINK_METRICS and when in times:
            latencies.setdefault(when, {}).setdefault(way, {})[_LINK_METRICS[each.metric]] = each.value
    return {when: latencies[when] for when in times if when in latencies}


def collect_restarts(run: Run) -> tuple[NodeRestarts, ...]:
    """Return how often each node ended by itself and was restarted, in the order of the nodes' first ends.

    Only nodes that have a service manager, and ended at least once, are in the result. If the table `observations`
    cannot be read, the result is empty, and judging reports the problem.
    """
    times: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    rows = iterate_rows(
        run,
        "observations",
        ("source", "metric", "at"),
        where="metric IN ($ended, $restarted)",
        values={"ended": str(SampledMetric.ENDED), "restarted": str(SampledMetric.RESTARTED)},
        filled=("source", "at"),
    )
    try:
        for row in rows if run.topology.restarted_after_s else ():
            kind, node = split_name(row["source"])
            if kind == Source.SERVICE_MANAGER:
                times[node][row["metric"]].append(row["at"])
    except RunError:
        return ()
    found = [
        NodeRestarts(
            node=node,
            ended=len(by_metric[SampledMetric.ENDED]),
            restarted=len(by_metric[SampledMetric.RESTARTED]),
            first_ended_at=min(by_metric[SampledMetric.ENDED]),
            first_restarted_at=min(by_metric[SampledMetric.RESTARTED], default=None),
        )
        for node, by_metric in times.items()
        if by_metric[SampledMetric.ENDED]
    ]
    return tuple(sorted(found, key=lambda node: node.first_ended_at))
