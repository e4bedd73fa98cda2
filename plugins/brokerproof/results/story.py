"""The story of a run: one sentence about its faults and messages, made from its evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from brokerproof.experiment.guarantees import Anomaly, Suite
from brokerproof.experiment.numbers import format_seconds, format_time
from brokerproof.experiment.verdict import Verdict
from brokerproof.results.described_faults import DescribedFault
from brokerproof.run.judgement import Counts, Judgement

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
    """Return the story: the faults, their targets and times, the longest pause in acks, and the counts of messages.

    If a part is not known, such as the pause in acks or the order, the story says so. Without a judgement, the story
    has the faults and says that the run was not judged.
    """
    parts = [*_tell_faults(faults)]
    if judgement is None:
        parts.append("the run was not judged, so what happened to its messages is not known")
    else:
        parts += [_tell_pause(faults, judgement), _tell_interruption(judgement), _tell_messages(judgement)]
    text = "; ".join(part for part in parts if part)
    return f"{text[0].upper() if not _begins_with_name(faults) else text[0]}{text[1:]}."


def _begins_with_name(faults: Sequence[DescribedFault]) -> bool:
    """Whether the sentence begins with the name of a node, region or cluster, which must keep its spelling."""
    first = next((fault for fault in faults if not fault.helps), None)
    return first is not None and first.course.effective_at is not None


def _tell_faults(faults: Sequence[DescribedFault]) -> Iterator[str]:
    harmful = [fault for fault in faults if not fault.helps]
    for fault in harmful[:_MOST_FAULTS]:
        at = fault.course.effective_at
        if at is None:
            yield f"the fault {fault.course.fault} had no effect that was seen"
        else:
            yield f"{fault.sentence} at {format_time(at)}{_tell_doubt(fault)}"
    if len(harmful) > _MOST_FAULTS:
        yield f"{len(harmful) - _MOST_FAULTS} more faults followed"
        yield from (
            f"{fault.course.fault} was one of them{_tell_doubt(fault)}"
            for fault in harmful[_MOST_FAULTS:]
            if fault.doubt
        )
    if not harmful:
        yield "nothing was broken"


def _tell_doubt(fault: DescribedFault) -> str:
    return f" ({fault.doubt}, so no bound of this fault is claimed)" if fault.doubt else ""


def _tell_pause(faults: Sequence[DescribedFault], judgement: Judgement) -> str:
    if not any(not fault.helps and fault.course.effective_at is not None for fault in faults):
        return ""
    rows = [row for row in judgement.measurements if row.metric == "longest_ack_gap_s"]
    values = [row.value for row in rows if row.value is not None]
    if not values or len(values) < len(rows):
        return "the longest time without an ack is not known"
    # The value is of one producer in one partition. Others may have received acks in that time.
    return f"a producer got no ack for up to {format_seconds(max(values))}"


def _tell_interruption(judgement: Judgement) -> str:
    """Return the longest `unavailable_s` and RTO as a phrase; empty if the run has no measurement `unavailable_s`."""
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
    parts = [f"{counts.acked:,} messages acked", _tell_anomaly(counts, Anomaly.LOST, "lost")]
    # Messages without an answer belong to the story as much as acked ones.
    parts += [f"{counts.unknown:,} without an answer"] if counts.unknown else []
    parts += [f"{counts.failed:,} refused"] if counts.failed else []
    parts += [f"{counts.not_sent:,} not sent"] if counts.not_sent else []
    parts += [
        _tell_anomaly(counts, anomaly, words) for anomaly, words in _WORDS.items() if counts.count_anomaly(anomaly)
    ]
    return ", ".join([*parts, _tell_order(judgement, counts)])


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
