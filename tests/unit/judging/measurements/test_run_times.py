"""Spans of time and a fault's seconds, to the microsecond, and the times in which nodes were down."""

from __future__ import annotations

from pathlib import Path

import pytest
from brokerproof.run.records import PhaseTimes
from brokerproof_judging.measurements.run_times import EffectiveFault, RunTimes, Span, read_run_times

from ..history import SECOND, START, History

NODE = "broker-eu-1-main"

SPAN = Span(start_us=1_000_000, end_us=1_001_500_000)


@pytest.mark.parametrize(
    ("at_us", "is_held"),
    [(999_999, False), (1_000_000, True), (1_001_499_999, True), (1_001_500_000, False), (1_001_500_001, False)],
)
def test_the_end_of_a_span_is_not_part_of_it(at_us: int, is_held: bool) -> None:
    assert SPAN.holds(at_us) is is_held


def test_seconds_are_exact() -> None:
    fault = EffectiveFault(name="kill", targets=(), span=SPAN, client_span=Span(start_us=500_000, end_us=2_000_000))
    assert SPAN.seconds == 1000.5
    assert fault.seconds_until(1_000_000_000) == 999.0
    assert fault.seconds_since_injection(1_000_000_000) == 999.5


def read_times(directory: Path, *rows: tuple[str, str, str, float]) -> RunTimes:
    """Return the times of a run with faults on one node: (fault, its kind, a state, the second in which it came)."""
    history = History()
    times = {"steady_at": 0, "impact_at": 20, "recovery_at": 60, "ends_at": 80}
    history.leave(PhaseTimes(**{name: START + second * SECOND for name, second in times.items()}))
    for fault, kind, state, second in rows:
        row = {"fault": fault, "kind": kind, "targets": [NODE], "state": state}
        history.faults.append({**row, "at": START + int(second * SECOND)})
    return read_run_times(history.write(directory / "run"))


def test_a_fault_of_an_unknown_kind_counts_as_harmful_and_hides_no_other(tmp_path: Path) -> None:
    unknown = ("strange", "no_such_kind", "effective", 21)
    times = read_times(tmp_path, unknown, ("kill", "kill", "effective", 30), ("kill", "kill", "recovered", 40))
    assert [fault.name for fault in times.effective] == ["strange", "kill"]
    assert times.down == {NODE: [Span(start_us=START + 30 * SECOND, end_us=START + 40 * SECOND)]}


@pytest.mark.parametrize(("started", "until"), [(29, 60), (30, 60), (30.000001, 30.000001), (50, 50), (70, 60)])
def test_a_node_is_down_until_it_recovers_or_is_started_later(tmp_path: Path, started: float, until: float) -> None:
    kill = [("kill", "kill", "effective", 30.0), ("kill", "kill", "recovered", 60.0)]
    times = read_times(tmp_path, *kill, ("help", "start", "effective", started))
    begin, end = (START + int(second * SECOND) for second in (30, until))
    assert times.down == {NODE: [Span(start_us=begin, end_us=end)]}


def test_the_topic_has_more_partitions_from_the_effect_of_the_fault_that_adds_them(tmp_path: Path) -> None:
    rows = [("grown", "grow", "injecting", 30.0), ("killed", "kill", "effective", 31.0)]
    assert read_times(tmp_path / "injected", *rows).grown_us is None
    times = read_times(tmp_path / "grown", *rows, ("grown", "grow", "effective", 32.0))
    assert times.grown_us == START + 32 * SECOND
