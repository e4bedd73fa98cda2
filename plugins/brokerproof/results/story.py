"""The faults of a run in words, and the run's story: one sentence about its faults and messages, from its evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from brokerproof.experiment.fault import QUIET, Fault
from brokerproof.experiment.guarantees import Anomaly, Suite
from brokerproof.experiment.numbers import format_seconds, format_time, join_names
from brokerproof.experiment.verdict import Verdict
from brokerproof.faults.registry import FAULT_KINDS
from brokerproof.faults.targets import read_doubts_about_targets
from brokerproof.run.directory import Run
from brokerproof.run.fault_course import FaultCourse, read_fault_courses
from brokerproof.run.judgement import Counts, Judgement
from brokerproof.run.records import PhaseTimes, read_record

# An injection that began later than this many seconds after its time is named as late.
_LATE_S = 1.0
# Of more than _MOST_NAMES nodes or clients, only the number is shown.
_MOST_NAMES = 3


@dataclass(frozen=True, kw_only=True)
class DescribedFault:
    """A fault that was injected, and its targets in words."""

    course: FaultCourse
    whom: str
    # Why the targets may differ from those that the scenario means; empty if there is no doubt.
    doubt: str = ""
    # How many seconds after its time the injection began. 0 if that is not known or the fault waited for a condition.
    late_s: float = 0.0

    @property
    def harms(self) -> bool:
        """Whether the fault does harm. One whose kind is not known does."""
        kind = FAULT_KINDS.get(self.course.kind)
        return kind is None or kind.harms

    @property
    def sentence(self) -> str:
        """The fault in words without its time, as in "eu was destroyed"."""
        kind = FAULT_KINDS.get(self.course.kind)
        return f"{self.whom} {'was' if self.is_one else 'were'} {kind.done if kind else self.course.kind}"

    @property
    def is_one(self) -> bool:
        """Whether `whom` names one node, region or cluster."""
        return " and " not in self.whom and not self.whom[0].isdigit()


def describe_faults(run: Run) -> list[DescribedFault]:
    """Return the faults that were injected, in the order of their injections."""
    written, doubts = {fault.name: fault for fault in run.scenario.faults}, read_doubts_about_targets(run)
    phases = read_record(run, PhaseTimes)
    return [
        DescribedFault(
            course=course,
            whom=_describe_targets(written.get(name), course.targets),
            doubt=doubts.get(name, ""),
            late_s=_find_lateness_s(written.get(name), course, phases),
        )
        for name, course in read_fault_courses(run).items()
    ]


def _find_lateness_s(fault: Fault | None, course: FaultCourse, phases: PhaseTimes | None) -> float:
    if fault is None or fault.when is not None or course.injected_at is None or phases is None:
        return 0.0
    return (course.injected_at - phases.impact_at) / 1e6 - fault.at_s


def _describe_targets(fault: Fault | None, names: tuple[str, ...]) -> str:
    """Return the name of the region or cluster if all of it is the target, else the names or the number of the nodes.

    Without targets, return the fault's name.
    """
    chosen = fault.targets if fault is not None else None
    if chosen is not None and not chosen.nodes and not chosen.role and chosen.now is None and chosen.count is None:
        places = [place for place in (chosen.region, chosen.cluster) if place]
        if len(places) == 1:
            return places[0]
    if not names:
        return fault.name if fault is not None else "nobody"
    if len(names) > _MOST_NAMES:
        if chosen is not None and chosen.client:
            return f"{len(names)} {chosen.client}s"
        return f"{len(names)} {chosen.role} nodes" if chosen is not None and chosen.role else f"{len(names)} nodes"
    return join_names(names)


# Further faults are counted, and named only if there is a doubt about their targets.
_MOST_FAULTS = 3

# The words for an anomaly that occurred. `lost` is not here, because the story always counts it.
_WORDS = {
    Anomaly.NOT_REPLICATED: "not replicated",
    Anomaly.UNDELIVERED: "not delivered",
    Anomaly.UNPROVEN: "without proof of what happened to them",
    Anomaly.UNREADABLE: "in a part of the log that cannot be read",
    Anomaly.PHANTOM: "that no producer had published",
    Anomaly.FAILED_BUT_STORED: "stored although they had failed",
    Anomaly.FAILED_BUT_DELIVERED: "delivered although they had failed",
    Anomaly.DELIVERED_FROM_ELSEWHERE: "delivered from a position that the log does not have for them",
    Anomaly.CORRUPTED: "corrupted",
    Anomaly.STORED_TWICE: "stored twice",
    Anomaly.DELIVERED_TWICE: "delivered twice",
    Anomaly.REDELIVERED_AFTER_ACK: "delivered again after their ack",
    Anomaly.DELIVERED_FROM_TWO_POSITIONS: "delivered from two positions",
    Anomaly.POSITION_CONFLICT: "at the position of another message",
    Anomaly.POSITION_MISMATCH: "stored at another position than their acks named",
}


def tell_story(faults: Sequence[DescribedFault], judgement: Judgement | None) -> str:
    """Return a run's story in one sentence: faults with targets and times, longest pause in acks, counts of messages.

    If something is not known, such as the pause in acks or whether order held, the story says so. Without a judgement,
    the story has the faults and says that the run was not judged.
    """
    parts = [*_tell_faults(faults)]
    if judgement is None:
        parts.append("the run was not judged, so what happened to its messages is not known")
    else:
        parts += [_tell_pause(faults, judgement), _tell_interruption(judgement), _tell_messages(judgement)]
    text = "; ".join(part for part in parts if part)
    return f"{text[0].upper() if not _begins_with_name(faults) else text[0]}{text[1:]}."


def _begins_with_name(faults: Sequence[DescribedFault]) -> bool:
    """Whether the story begins with the name of a node, region or cluster, which must keep its spelling."""
    first = next((fault for fault in faults if fault.harms), None)
    return first is not None and first.course.effective_at is not None


def _tell_faults(faults: Sequence[DescribedFault]) -> Iterator[str]:
    harmful = [fault for fault in faults if fault.harms]
    overlaps = _find_overlaps(harmful)
    longest = max(overlaps.values(), key=lambda overlap: overlap.length_us, default=None)
    for number, fault in enumerate(harmful):
        at = fault.course.effective_at
        if number == _MOST_FAULTS:
            yield f"{len(harmful) - _MOST_FAULTS} more faults followed"
        overlap = overlaps.get(fault.course.fault)
        if number >= _MOST_FAULTS and (overlap is None or overlap is not longest):
            continue
        if at is None:
            yield f"the fault {fault.course.fault} had no effect that was seen"
        else:
            while_ = overlap.phrase if overlap else ""
            late = f", {format_seconds(fault.late_s)} late" if fault.late_s > _LATE_S else ""
            yield f"{fault.sentence} at {format_time(at)}{late}{while_}{_tell_doubt(fault)}"
    if len(harmful) > _MOST_FAULTS:
        yield from (
            f"{fault.course.fault} was one of them{_tell_doubt(fault)}"
            for fault in harmful[_MOST_FAULTS:]
            if fault.doubt
        )
    if not harmful:
        yield "nothing was broken"
    for fault in faults:
        begin, end = fault.course.effective_at, fault.course.healed_at
        if fault.course.kind == QUIET and begin is not None:
            until = "the end" if end is None else format_time(end)
            yield f"{fault.sentence} from {format_time(begin)} to {until}"


@dataclass(frozen=True, kw_only=True)
class _Overlap:
    """A time in which the nodes of a fault were away, and those of an earlier fault too."""

    earlier: DescribedFault
    later: DescribedFault
    length_us: int

    @property
    def phrase(self) -> str:
        were = "was" if self.earlier.is_one else "were"
        without = "either" if self.earlier.is_one and self.later.is_one else "them"
        return f" while {self.earlier.whom} {were} not back: {format_seconds(self.length_us / 1e6)} without {without}"


def _find_overlaps(faults: Sequence[DescribedFault]) -> dict[str, _Overlap]:
    """Return {later fault: its longest overlap with an earlier fault}, for faults of different nodes.

    The time lasts from the later effect to the earlier recovery of the two. Both must be known.
    """
    found: dict[str, _Overlap] = {}
    away = sorted(filter(_is_away, faults), key=lambda fault: fault.course.effective_at or 0)
    for earlier, later in combinations(away, 2):
        start_us, end_us = later.course.effective_at or 0, min(_recovery(earlier), _recovery(later))
        if set(earlier.course.targets) & set(later.course.targets):
            continue
        overlap = _Overlap(earlier=earlier, later=later, length_us=end_us - start_us)
        longest = found.get(later.course.fault)
        if overlap.length_us > (longest.length_us if longest else 0):
            found[later.course.fault] = overlap
    return found


def _recovery(fault: DescribedFault) -> int:
    return fault.course.recovered_at or 0


def _is_away(fault: DescribedFault) -> bool:
    """Whether the fault's nodes served no client from its effect until its recovery, and both times are known."""
    kind, course = FAULT_KINDS.get(fault.course.kind), fault.course
    return kind is not None and kind.silences and None not in (course.effective_at, course.recovered_at)


def _tell_doubt(fault: DescribedFault) -> str:
    return f" ({fault.doubt}, so no bound of this fault is claimed)" if fault.doubt else ""


def _tell_pause(faults: Sequence[DescribedFault], judgement: Judgement) -> str:
    if not any(fault.harms and fault.course.effective_at is not None for fault in faults):
        return ""
    rows = [row for row in judgement.measurements if row.metric == "longest_ack_gap_s"]
    values = [row.value for row in rows if row.value is not None]
    if not values or len(values) < len(rows):
        return "the longest time without an ack is not known"
    # The value is of one producer in one partition. Others may have received acks in that time.
    return f"a producer got no ack for up to {format_seconds(max(values))}"


def _tell_interruption(judgement: Judgement) -> str:
    """Return a phrase with the longest `unavailable_s` and the longest RTO; empty if the run has no `unavailable_s`."""
    unavailable = [row.value for row in judgement.measurements if row.metric == "unavailable_s"]
    measured = [value for value in unavailable if value is not None]
    if not unavailable:
        return ""
    if len(measured) < len(unavailable):
        return "it is not known how long clients were interrupted"
    if not max(measured):
        return "no client was interrupted"
    interrupted = f"clients were interrupted for {format_seconds(max(measured))}"
    recovered = [row.value for row in judgement.measurements if row.metric == "rto_s"]
    known = [value for value in recovered if value is not None]
    if len(known) < len(recovered) or not known:
        return f"{interrupted} and it is not known when they had recovered"
    return f"{interrupted} and had recovered {format_seconds(max(known))} after the injection"


def _tell_messages(judgement: Judgement) -> str:
    counts = judgement.counts
    if not counts.publishes:
        return "nothing was published"
    parts = [f"{counts.acked:,} messages acked", _tell_missed(judgement) or _tell_anomaly(counts, Anomaly.LOST, "lost")]
    # Messages without an answer belong to the story as much as acked ones.
    parts += [f"{counts.unknown:,} without an answer"] if counts.unknown else []
    parts += [f"{counts.failed:,} refused"] if counts.failed else []
    parts += [f"{counts.not_sent:,} not sent"] if counts.not_sent else []
    parts += [
        _tell_anomaly(counts, anomaly, words) for anomaly, words in _WORDS.items() if counts.count_anomaly(anomaly)
    ]
    return ", ".join([*parts, _tell_order(judgement, counts)])


def _tell_missed(judgement: Judgement) -> str:
    """Return a phrase with the most messages that a subscription missed; empty if the topic stores messages."""
    values = [row.value for row in judgement.measurements if row.metric == "missed_messages"]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return "how many each subscription missed is not known"
    if not values:
        return ""
    return f"a subscription missed up to {max(known):,.0f}" if max(known) else "no subscription missed one"


def _tell_anomaly(counts: Counts, anomaly: Anomaly, words: str) -> str:
    count, legal = counts.count_anomaly(anomaly), counts.legal.get(anomaly, 0)
    if anomaly is Anomaly.LOST and not count and counts.count_anomaly(Anomaly.UNPROVEN):
        return "no message proven to be lost"
    return _tell_count(count, 0 if anomaly is Anomaly.UNPROVEN else legal, words)


def _tell_count(count: int, legal: int, words: str) -> str:
    if not legal:
        return f"{count:,} {words}"
    return f"{count:,} {words} ({'as' if legal == count else f'{legal:,} of them as'} allowed)"


def _tell_order(judgement: Judgement, counts: Counts) -> str:
    about_order = [anomaly for anomaly in Anomaly if anomaly.facts.suite is Suite.ORDERING]
    if found := sum(counts.count_anomaly(anomaly) for anomaly in about_order):
        return _tell_count(found, sum(counts.legal.get(anomaly, 0) for anomaly in about_order), "out of order")
    suite = judgement.suites.get(Suite.ORDERING)
    if suite is None or suite.worst in (Verdict.UNKNOWN, Verdict.NO_DATA):
        return "whether order held is not known"
    return "order was not promised" if suite.worst is Verdict.NOT_APPLICABLE else "order held"
