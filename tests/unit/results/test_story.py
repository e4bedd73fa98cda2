"""The sentence of a run: made from evidence, and silent about nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from brokerproof.experiment.guarantees import Anomaly, Suite
from brokerproof.experiment.verdict import Verdict
from brokerproof.results.story import DescribedFault, describe_faults, tell_story
from brokerproof.run.fault_course import FaultCourse
from brokerproof.run.judgement import Judgement
from brokerproof.run.measurement import Measurement
from brokerproof.run.records import PhaseTimes, write_record
from builders import make_counts, make_judgement, make_measurement, make_run, make_suite

# 00:31:07 UTC.
AT = 1_700_008_267_000_000 - 1_700_008_267_000_000 % 86_400_000_000 + (31 * 60 + 7) * 1_000_000


def fault(whom: str = "eu", kind: str = "destroy", *, name: str = "f", effective: bool = True) -> DescribedFault:
    course = FaultCourse(fault=name, kind=kind, injected_at=AT - 5, effective_at=AT if effective else None)
    return DescribedFault(course=course, whom=whom)


def away(whom: str, effective_s: float, recovered_s: float | None, kind: str = "stop") -> DescribedFault:
    """A fault whose nodes were away between two times, in seconds after `AT`."""
    course = FaultCourse(
        fault=whom.replace("-", "_"),
        kind=kind,
        targets=tuple(whom.split(" and ")),
        injected_at=AT,
        effective_at=AT + int(effective_s * 1e6),
        recovered_at=None if recovered_s is None else AT + int(recovered_s * 1e6),
    )
    return DescribedFault(course=course, whom=whom)


def gap(value: float | None, fault: str = "f") -> Measurement:
    return make_measurement("r", "longest_ack_gap_s", value, subject=fault)


def missed(value: float | None, subscription: str) -> Measurement:
    return make_measurement("r", "missed_messages", value, subject=subscription)


def judgement(
    *measurements: Measurement,
    legal: Mapping[Anomaly, int] | None = None,
    illegal: Mapping[Anomaly, int] | None = None,
    ordering: Verdict = Verdict.PASSED,
    **totals: int,
) -> Judgement:
    counts = make_counts(legal=legal, illegal=illegal, **{"publishes": 123_950, "acked": 123_950, **totals})
    return make_judgement(suites={Suite.ORDERING: make_suite(ordering)}, counts=counts, measurements=measurements)


@pytest.mark.parametrize(
    ("spans", "judged", "sentence"),
    [
        (
            [fault()],
            judgement(gap(50.6), legal={Anomaly.DELIVERED_TWICE: 18}),
            "eu was destroyed at 00:31:07; a producer got no ack for up to 50.6 s; "
            "123,950 messages acked, 0 lost, 18 delivered twice (as allowed), order held.",
        ),
        (
            [fault()],
            judgement(gap(50.6), acked=100_000, unknown=23_900, failed=50),
            "eu was destroyed at 00:31:07; a producer got no ack for up to 50.6 s; "
            "100,000 messages acked, 0 lost, 23,900 without an answer, 50 refused, order held.",
        ),
        (
            [fault("bookie-1", "kill", name="a"), fault("b1 and b2", "pause", name="b")],
            judgement(gap(0.32, "a"), gap(0.1, "b"), illegal={Anomaly.LOST: 3}, legal={Anomaly.LOST: 1}),
            "bookie-1 was killed at 00:31:07; b1 and b2 were frozen at 00:31:07; "
            "a producer got no ack for up to 0.32 s; "
            "123,950 messages acked, 4 lost (1 of them as allowed), order held.",
        ),
        # A topic that stores no messages can lose none.
        (
            [fault("bookie-1", "kill")],
            judgement(gap(0.32), missed(0, "a"), missed(4002, "b")),
            "bookie-1 was killed at 00:31:07; a producer got no ack for up to 0.32 s; "
            "123,950 messages acked, a subscription missed up to 4,002, order held.",
        ),
        (
            [fault("bookie-1", "kill")],
            judgement(gap(0.32), missed(0, "a"), missed(0, "b")),
            "bookie-1 was killed at 00:31:07; a producer got no ack for up to 0.32 s; "
            "123,950 messages acked, no subscription missed one, order held.",
        ),
        (
            [fault("bookie-1", "kill")],
            judgement(gap(0.32), missed(12, "a"), missed(None, "b")),
            "bookie-1 was killed at 00:31:07; a producer got no ack for up to 0.32 s; "
            "123,950 messages acked, how many each subscription missed is not known, order held.",
        ),
        # What nobody measured is not told as good news.
        (
            [fault("3 nodes", "stop")],
            judgement(gap(None), illegal={Anomaly.UNPROVEN: 7}, ordering=Verdict.UNKNOWN),
            "3 nodes were stopped at 00:31:07; the longest time without an ack is not known; 123,950 messages acked, "
            "no message proven to be lost, 7 without proof of what happened to them, "
            "whether order held is not known.",
        ),
        (
            [fault(effective=False)],
            judgement(illegal={Anomaly.STORED_OUT_OF_ORDER: 2}, ordering=Verdict.FAILED),
            "The fault f had no effect that was seen; 123,950 messages acked, 0 lost, 2 out of order.",
        ),
        # Seen with a subscription that shares by message, beside one by key: order was broken as allowed.
        (
            [],
            judgement(legal={Anomaly.DELIVERED_OUT_OF_ORDER: 13_164}),
            "Nothing was broken; 123,950 messages acked, 0 lost, 13,164 out of order (as allowed).",
        ),
        (
            [],
            judgement(unknown=10, failed=2, not_sent=1500),
            "Nothing was broken; 123,950 messages acked, 0 lost, 10 without an answer, 2 refused, 1,500 not sent, "
            "order held.",
        ),
        ([], judgement(publishes=0, acked=0), "Nothing was broken; nothing was published."),
        (
            [fault()],
            None,
            "eu was destroyed at 00:31:07; the run was not judged, so what happened to its messages is not known.",
        ),
        (
            [fault(name=name) for name in "abcde"] + [fault("x", "start", name="help")],
            judgement(gap(2, "a")),
            "eu was destroyed at 00:31:07; eu was destroyed at 00:31:07; eu was destroyed at 00:31:07; "
            "2 more faults followed; a producer got no ack for up to 2 s; 123,950 messages acked, 0 lost, order held.",
        ),
    ],
)
def test_the_story_says_what_was_done_and_what_became_of_the_messages(
    spans: Sequence[DescribedFault], judged: Judgement | None, sentence: str
) -> None:
    assert tell_story(spans, judged) == sentence


def test_the_story_names_messages_in_a_part_that_cannot_be_read() -> None:
    story = tell_story([], judgement(illegal={Anomaly.UNREADABLE: 500}))
    assert "500 in a part of the log that cannot be read" in story


def test_the_story_says_that_a_faults_targets_were_known_only_from_before() -> None:
    old = replace(fault("bookie-1", "kill", name="a"), doubt="its targets were known only from 20 s before")
    note = " (its targets were known only from 20 s before, so no bound of this fault is claimed)"
    assert tell_story([old], judgement(gap(1))).startswith(f"bookie-1 was killed at 00:31:07{note}; ")
    assert "known only" not in tell_story([fault()], judgement(gap(1)))
    # Also if there are too many faults to tell each.
    told = tell_story(
        [*(fault(name=name) for name in "abc"), replace(old, course=fault(name="d").course)], judgement(gap(1))
    )
    assert f"1 more faults followed; d was one of them{note}; " in told


@pytest.mark.parametrize(
    ("unavailable", "rto", "told"),
    [
        (49.0, 50.6, "; clients were interrupted for 49.0 s and had recovered 50.6 s after the injection; 123,950"),
        (49.0, None, "; clients were interrupted for 49.0 s and it is not known when they had recovered; 123,950"),
        (0.0, 0.0, "; no client was interrupted; 123,950"),
        (None, None, "; it is not known how long clients were interrupted; 123,950"),
    ],
)
def test_the_story_says_how_long_clients_were_interrupted(
    unavailable: float | None, rto: float | None, told: str
) -> None:
    times = [
        gap(50.6),
        *(replace_metric(name, value) for name, value in (("unavailable_s", unavailable), ("rto_s", rto))),
    ]
    assert told in tell_story([fault()], judgement(*times))


def test_the_story_of_a_run_without_rows_about_interruptions_is_silent_about_them() -> None:
    assert "interrupted" not in tell_story([fault()], judgement(gap(50.6)))


def test_the_story_begins_with_a_capital_if_only_a_fault_that_helps_had_an_effect() -> None:
    helping = fault("broker-1", "start", name="a")
    assert tell_story([helping], None).startswith("Nothing was broken; ")
    assert tell_story([helping, fault(effective=False)], None).startswith("The fault f had no effect")


def replace_metric(metric: str, value: float | None) -> Measurement:
    """The measurement of another metric."""
    return gap(value).model_copy(update={"metric": metric})


def test_a_gap_of_one_of_two_faults_that_is_not_known_makes_the_longest_one_unknown() -> None:
    told = tell_story([fault(name="a"), fault(name="b")], judgement(gap(3, "a"), gap(None, "b")))
    assert "the longest time without an ack is not known" in told


@pytest.mark.parametrize(
    ("faults", "phrase"),
    [
        (
            [away("broker-eu-1", 0, 34), away("broker-eu-2", 20, 60)],
            "; broker-eu-2 was stopped at 00:31:27 while broker-eu-1 was not back: 14.0 s without either;",
        ),
        # The longest of several, and the shorter of the two times in which nodes were away.
        (
            [away("a", 0, 30), away("b", 20, 50), away("c and d", 21, 47)],
            "; c and d were stopped at 00:31:28 while b was not back: 26.0 s without them;",
        ),
        # Of the faults that are only counted, the one with the longest overlap of all.
        (
            [away(name, at, at + 12) for at, name in zip((0, 20, 40, 60, 69, 80), "abcdef", strict=True)],
            "; 3 more faults followed; e was stopped at 00:32:16 while d was not back: 3 s without either;",
        ),
        # One after the other, the same node again, a node that never returned, and a link that became slow.
        ([away("broker-eu-1", 0, 20), away("broker-eu-2", 20, 40)], None),
        ([away("broker-eu-1", 0, 30), away("broker-eu-1", 20, 40)], None),
        ([away("broker-eu-1", 0, None), away("broker-eu-2", 20, 40)], None),
        ([away("broker-eu-1", 0, 30), away("broker-eu-2", 20, 40, "delay")], None),
    ],
)
def test_nodes_that_were_away_at_once_are_named_with_the_time(
    faults: Sequence[DescribedFault], phrase: str | None
) -> None:
    story = tell_story(faults, judgement(gap(3.0)))
    assert ("without" in story) == (phrase is not None)
    assert (phrase or "") in story


@pytest.mark.parametrize(
    ("targets", "names", "sentence"),
    [
        ({"region": "eu"}, ["bookie-eu-1", "broker-eu-1"], "eu was killed"),
        ({"nodes": ["bookie-eu-1"]}, ["bookie-eu-1"], "bookie-eu-1 was killed"),
        ({"role": "bookie"}, ["a", "b", "c", "d"], "4 bookie nodes were killed"),
        ({"client": "consumer"}, ["a-c0", "b-c0"], "a-c0 and b-c0 were killed"),
        ({"client": "consumer"}, ["a-c0", "b-c0", "c-c0", "d-c0"], "4 consumers were killed"),
        ({"client": "producer"}, ["p0", "p1", "p2", "p3"], "4 producers were killed"),
    ],
)
def test_a_fault_names_its_targets_or_counts_them_as_what_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, targets: dict[str, Any], names: list[str], sentence: str
) -> None:
    fault = {"name": "gone", "kind": "kill", "targets": targets}
    run = make_run(tmp_path / "r", "semantics", {"faults": [fault], "bounds": {}})
    course = FaultCourse(fault="gone", kind="kill", targets=tuple(names), injected_at=AT, effective_at=AT)
    monkeypatch.setattr("brokerproof.results.story.read_fault_courses", lambda _: {"gone": course})
    (described,) = describe_faults(run)
    assert described.sentence == sentence


@pytest.mark.parametrize(
    ("at_s", "condition", "late"),
    [
        (0, {}, ", 2.5 s late"),
        (1.6, {}, ""),
        (0, {"when": {"unhealthy": "first", "for_s": 1}}, ""),
    ],
)
def test_a_fault_that_was_injected_late_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_s: float, condition: dict[str, Any], late: str
) -> None:
    first = {"name": "first", "kind": "kill", "targets": {"region": "us"}, "at_s": 0}
    fault = {"name": "gone", "kind": "kill", "targets": {"region": "eu"}, "at_s": at_s, **condition}
    run = make_run(tmp_path / "r", "semantics", {"faults": [first, fault], "bounds": {}})
    write_record(run, PhaseTimes(steady_at=AT, impact_at=AT, recovery_at=AT, ends_at=AT))
    course = FaultCourse(fault="gone", kind="kill", injected_at=AT + 2_500_000, effective_at=AT + 3_000_000)
    monkeypatch.setattr("brokerproof.results.story.read_fault_courses", lambda _: {"gone": course})
    assert tell_story(describe_faults(run), judgement(gap(3.0))).startswith(f"eu was killed at 00:31:10{late}; ")
