"""What each fault cost and how long it took to come back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from brokerproof.experiment.guarantees import Suite
from brokerproof.experiment.metrics import METRICS
from brokerproof.run.directory import Run
from brokerproof.run.observations import Metric, Source, names_in, split
from brokerproof.run.records import SubscriptionDrains, read_record
from brokerproof.run.tables import Outcome
from brokerproof.systems.registry import system_of
from brokerproof.systems.roles import coordinates, is_listed, nodes_that, roles_that
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from brokerproof_judging.measurements import replication
from brokerproof_judging.measurements.measurement import RUN, Answer, Measured
from brokerproof_judging.measurements.publishing import target_rate
from brokerproof_judging.measurements.run_times import FaultTimes, Span, Timeline
from brokerproof_judging.measurements.samples import Samples, Series
from brokerproof_judging.measurements.throughput import HELD_SECONDS, HELD_SHARE, Pace, paces

FAULT_METRICS = tuple(
    name for name, metric in METRICS.items() if metric.suite is Suite.RECOVERY and metric.subject == "fault"
)

# Kinds of source that are sampled all the time; others speak only when something happens.
_SAMPLED = {Source.CLUSTER, Source.TOPIC, Source.NODE}


@dataclass(frozen=True, kw_only=True)
class Pacing:
    """How acks and deliveries came after each fault that took effect, by the fault's name."""

    acks: Mapping[str, Pace] = field(default_factory=dict)
    received: Mapping[str, Pace] = field(default_factory=dict)
    first_acks: Mapping[str, int | None] = field(default_factory=dict)

    @classmethod
    def of(cls, spark: SparkSession, timeline: Timeline, publishes: DataFrame, deliveries: DataFrame) -> Pacing:
        """From the tables `publishes` and `deliveries`."""
        effective = [fault for fault in timeline.faults if fault.span is not None]
        if not effective:
            return cls()
        acked = publishes.filter(F.col("outcome") == Outcome.ACKED)
        return cls(
            acks=paces(spark, acked.select(F.unix_micros("settled_at").alias("at")), effective),
            received=paces(spark, deliveries.select(F.unix_micros("received_at").alias("at")), effective),
            first_acks=_first_acks(acked, effective),
        )


def of_faults(
    run: Run, timeline: Timeline, samples: Samples, pacing: Pacing, messages: DataFrame
) -> Iterator[Measured]:
    """Every metric of every fault, null with the reason where it could not be measured.

    `rto_s`: cut the time from the effect into whole seconds; it is the start of the first of five in a row in each of
    which at least 90 % of the target rate was acked. It is looked for until the next fault takes effect or the load
    ends. The target rate is the workload's, times the clusters that produce.
    """
    for fault in timeline.faults:
        if fault.span is None:
            for metric in FAULT_METRICS:
                yield Measured(metric=metric, subject=fault.name, value=None, evidence=fault.why)
    effective = [fault for fault in timeline.faults if fault.span is not None]
    if not effective:
        return
    losses = _losses(messages, effective)
    for fault in effective:
        span = _span(fault)
        answers: dict[str, Answer] = {
            "detect_s": _detected(run, samples, fault, span),
            "reassign_s": _reassigned(run, samples, fault, span),
            "first_ack_s": _first_ack(pacing.first_acks[fault.name], span, timeline),
            "rto_s": _held_again(pacing.acks[fault.name], target_rate(run)),
            "longest_ack_gap_s": _gap(pacing.acks[fault.name], "ack"),
            "longest_delivery_gap_s": _gap(pacing.received[fault.name], "delivery")
            if run.scenario.workload.subscriptions
            else (None, "nobody consumed", False),
            **losses[fault.name],
            "rereplicate_s": _rereplicated(run, samples, fault, span),
            "backlog_drain_s": _drained(samples, span, timeline),
            "agree_s": replication.agreed(samples, fault, timeline),
        }
        for metric in FAULT_METRICS:
            value, evidence, at_least = answers[metric]
            yield Measured(metric=metric, subject=fault.name, value=value, evidence=evidence, at_least=at_least)


def of_sampling(run: Run, timeline: Timeline, samples: Samples) -> Measured:
    """The longest time between two samples of a kind of source, from steady to the end of consuming."""
    steady = timeline.phases.get("steady")
    if steady is None:
        return Measured(metric="sampling_gap_s", subject=RUN, value=None, evidence="the load never became steady")
    # Where nobody consumes, that step ends before the load began.
    consumed = read_record(run, SubscriptionDrains)
    end = max(consumed.at if consumed else 0, timeline.ends_us or 0)
    gaps = {}
    for kind in sorted(_SAMPLED & samples.times.keys()):
        times = samples.times[kind]
        edges = [steady.start_us, *(at for at in times if steady.start_us < at < end), end]
        gaps[kind] = max(later - earlier for earlier, later in pairwise(edges)) / 1e6
    if not gaps:
        return Measured(metric="sampling_gap_s", subject=RUN, value=None, evidence="nothing was sampled")
    evidence = ", ".join(f"{kind} {gap:g} s" for kind, gap in gaps.items())
    return Measured(metric="sampling_gap_s", subject=RUN, value=max(gaps.values()), evidence=evidence)


def _span(fault: FaultTimes) -> Span:
    assert fault.span is not None
    return fault.span


def _since(effect_us: int, at_us: int) -> float:
    return (at_us - effect_us) / 1e6


def _never(series: Iterable[Series], span: Span, what: str) -> Answer:
    """What was waited for and did not come by the last sample."""
    last = max((values[-1][0] for values in series if values), default=span.start_us)
    if last <= span.start_us:
        return None, "nothing was sampled after the effect", False
    return _since(span.start_us, last), f"{what} by the last sample", True


def _detected(run: Run, samples: Samples, fault: FaultTimes, span: Span) -> Answer:
    """Until the first sample in which no target is listed alive, in every list that a target belongs to."""
    listed = roles_that(system_of(run.topology), is_listed)
    lists: dict[tuple[str, str], set[str]] = {}
    for target in fault.targets:
        node = run.topology.nodes.get(target)
        if node is not None and node.role in listed:
            source = Source.CLUSTER.of(run.topology.cluster_of(target))
            lists.setdefault((source, Metric.ALIVE.of(node.role)), set()).add(target)
    if not lists:
        return None, f"no target is a {' or a '.join(listed)}, and others are listed nowhere", False
    for source, metric in lists:
        # The cluster's own nodes say who lives, or where they are gone its metadata store; without either the lists are
        # silent until somebody is back.
        cluster, role = split(source)[1], split(metric)[1]
        nodes = run.topology.clusters[cluster].nodes
        running = {name for name, node in nodes.items() if node.role == role and not node.standby}
        if running.union(nodes_that(coordinates, run.topology, cluster)) <= set(fault.targets):
            return None, f"neither a {role} of {cluster} nor its metadata store was left to say who lives", False
    after = {name: [each for each in samples.series.get(name, []) if each[0] >= span.start_us] for name in lists}
    gone = [
        next((at for at, value in after[name] if not targets.intersection(names_in(value))), None)
        for name, targets in lists.items()
    ]
    if any(at is None for at in gone):
        return _never(after.values(), span, "a target was still listed alive")
    # Each list lost its targets at its own time; the last one completes it.
    return _since(span.start_us, max(at for at in gone if at is not None)), "first sample without a target", False


def _reassigned(run: Run, samples: Samples, fault: FaultTimes, span: Span) -> Answer:
    """Until every topic that a target owned at the effect has an owner that is none."""
    times: list[int] = []
    waiting: list[Series] = []
    seen = False
    for _, values in samples.of_metric(Source.TOPIC, Metric.OWNER):
        for cluster in run.topology.clusters:
            # Two clusters may own a topic of one name each; a node tells whose sample it is.
            here = [(at, owner) for at, owner in values if owner in run.topology.clusters[cluster].nodes]
            before = [owner for at, owner in here if at <= span.start_us]
            seen = seen or bool(before)
            if not before or before[-1] not in fault.targets:
                continue
            at = next((at for at, owner in here if at > span.start_us and owner not in fault.targets), None)
            if at is None:
                waiting.append(values)
            else:
                times.append(at)
    if waiting:
        return _never(waiting, span, "no other broker owned the topic")
    if times:
        return _since(span.start_us, max(times)), "first sample with another owner", False
    return None, "owner was not a target" if seen else "the owner before the effect is not known", False


def _first_acks(acked: DataFrame, faults: list[FaultTimes]) -> dict[str, int | None]:
    """By fault, when the first message sent after its effect was acked."""
    sent, settled = F.unix_micros("sent_at"), F.unix_micros("settled_at")
    columns = [F.min(F.when(sent >= _span(fault).start_us, settled)).alias(f"f{n}") for n, fault in enumerate(faults)]
    row = acked.agg(*columns).collect()[0]
    return {fault.name: row[number] for number, fault in enumerate(faults)}


def _first_ack(at: int | None, span: Span, timeline: Timeline) -> Answer:
    if at is not None:
        return _since(span.start_us, at), "first ack of a message sent after the effect", False
    return _since(span.start_us, timeline.ends_us or span.end_us), "no message sent after the effect was acked", True


def _held_again(pace: Pace, rate_per_s: float) -> Answer:
    second = pace.held_again(rate_per_s)
    held = f"{HELD_SHARE:.0%} of {rate_per_s:g} messages/s for {HELD_SECONDS} s"
    if second is not None:
        return float(second), f"acks held {held} from then on", False
    seen = max(0.0, pace.span.seconds - HELD_SECONDS)
    return seen, f"acks did not hold {held} in the {pace.span.seconds:g} s until the next fault or the end", True


def _gap(pace: Pace, what: str) -> Answer:
    gap, cut_off = pace.longest_gap()
    # A lower bound is what a maximum needs, and what was not seen after the span is not this fault's to tell.
    return (
        gap,
        f"no {what} until the next fault or the end" if cut_off else f"between two, or up to the first {what}",
        False,
    )


def _losses(messages: DataFrame, faults: list[FaultTimes]) -> dict[str, dict[str, Answer]]:
    """Acked messages that no cluster holds any more, by fault and whether they were acked before its effect or later.

    Neither is known while one of them is unproven.
    """
    settled = F.unix_micros("settled_at")
    lost, unproven = (F.array_contains("anomalies", name) for name in ("lost", "unproven"))
    columns = []
    for number, fault in enumerate(faults):
        before = settled <= _span(fault).start_us
        columns += [
            F.count_if(lost & before).alias(f"lost{number}"),
            F.count_if(lost & ~before).alias(f"later{number}"),
            F.min(F.when(lost & before, settled)).alias(f"oldest{number}"),
            F.count_if(unproven & before).alias(f"unproven{number}"),
            F.count_if(unproven & ~before).alias(f"unproven_later{number}"),
        ]
    row = replication.missing_everywhere(messages).agg(*columns).collect()[0]
    answers: dict[str, dict[str, Answer]] = {}
    for number, fault in enumerate(faults):
        oldest, doubtful, doubtful_later = (row[f"{name}{number}"] for name in ("oldest", "unproven", "unproven_later"))
        age = _since(oldest, _span(fault).start_us) if oldest is not None else 0.0
        before_known = doubtful == 0
        answers[fault.name] = {
            "rpo_messages": (float(row[f"lost{number}"]), "acked before the effect and held by no cluster", False)
            if before_known
            else _doubtful(doubtful, "before"),
            "rpo_s": (age, "age of the oldest of them" if oldest is not None else "none was lost", False)
            if before_known
            else _doubtful(doubtful, "before"),
            "lost_later_messages": (float(row[f"later{number}"]), "acked after the effect, held by no cluster", False)
            if doubtful_later == 0
            else _doubtful(doubtful_later, "after"),
        }
    return answers


def _doubtful(count: int, when: str) -> Answer:
    return None, f"{count} messages acked {when} the effect are missing, and nothing proves why", False


def _rereplicated(run: Run, samples: Samples, fault: FaultTimes, span: Span) -> Answer:
    """Until the first sample of 0 after one above 0, in every cluster of a target where it rose."""
    clusters = {name for name, each in run.topology.clusters.items() if each.nodes.keys() & set(fault.targets)}
    times: list[int] = []
    waiting: list[Series] = []
    for cluster, values in samples.of_metric(Source.CLUSTER, Metric.UNDER_REPLICATED):
        after = [(at, int(value)) for at, value in values if at >= span.start_us]
        rose = next((at for at, count in after if count > 0), None)
        if (clusters and cluster not in clusters) or rose is None:
            continue
        fell = next((at for at, count in after if at > rose and count == 0), None)
        if fell is None:
            waiting.append(values)
        else:
            times.append(fell)
    if waiting:
        return _never(waiting, span, "segments were still under-replicated")
    if times:
        return _since(span.start_us, max(times)), "first sample of 0 after one above 0", False
    return None, "no segment was under-replicated after the effect", False


def _drained(samples: Samples, span: Span, timeline: Timeline) -> Answer:
    """Until the backlog of every subscription that rose was back at what it had been at most before the effect."""
    steady = timeline.phases["steady"].start_us
    times: list[int] = []
    waiting: list[Series] = []
    seen = False
    for (source, metric), values in samples.series.items():
        if split(source)[0] != Source.TOPIC or split(metric)[0] != Metric.BACKLOG:
            continue
        usual = max((int(value) for at, value in values if steady <= at <= span.start_us), default=0)
        after = [(at, int(value)) for at, value in values if at > span.start_us]
        seen = seen or bool(after)
        rose = next((at for at, count in after if count > usual), None)
        if rose is None:
            continue
        fell = next((at for at, count in after if at > rose and count <= usual), None)
        if fell is None:
            waiting.append(values)
        else:
            times.append(fell)
    if waiting:
        return _never(waiting, span, "a backlog was still higher than before the effect")
    if times:
        return _since(span.start_us, max(times)), "first sample back at what it was before the effect", False
    return (0.0, "no backlog rose", False) if seen else (None, "no backlog was sampled after the effect", False)


def by_fault(rows: Iterable[dict[str, Any]]) -> dict[str, dict[str, float | None]]:
    """{fault: {metric: value}} from rows of `measurements`."""
    found: dict[str, dict[str, float | None]] = {}
    for row in rows:
        if row["metric"] in FAULT_METRICS:
            found.setdefault(row["subject"], {})[row["metric"]] = row["value"]
    return found
