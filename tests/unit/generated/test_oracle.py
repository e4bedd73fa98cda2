"""The oracle of generated runs: what it explains, and that it says no to everything else."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from brokerproof.clock import now_us
from brokerproof.experiment.guarantees import Anomaly, Suite
from brokerproof.experiment.verdict import Verdict
from brokerproof.run.directory import Run
from brokerproof.run.judgement import Counts
from brokerproof.run.measurement import Measurement
from brokerproof.run.records import EarlyEnd, FaultsUndone, PhaseTimes, StepProblem, StepSeconds, write_record
from brokerproof.run.seals import seal_tables
from brokerproof.run.tables import FaultState
from builders import SYSTEMS, make_check, make_counts, make_judgement, make_measurement, make_run, make_suite
from chain import ChainEnd, StepEnd
from oracle import describe, explain

NOTHING = make_counts()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run of three servers in which nothing happened yet."""
    monkeypatch.setenv("BROKERPROOF_SYSTEMS", "testlog=testlog_system.system:TESTLOG")
    file = SYSTEMS / "scenarios/leader_loss.yaml"
    return make_run(tmp_path / "run", file, topologies=SYSTEMS / "topologies", sealed=True)


def do_fault(run: Run, name: str, kind: str, *targets: str, states: tuple[FaultState, ...]) -> None:
    rows = [
        {"run_id": "r", "fault": name, "kind": kind, "targets": list(targets), "state": state, "at": now_us()}
        for state in states
    ]
    run.append("faults", [{**row, "evidence": ""} for row in rows])
    seal_tables(run, "faults")


def end_with(
    run: Run,
    verdict: Verdict,
    *problems: str,
    check: str = "",
    check_verdict: Verdict = Verdict.FAILED,
    measured: Sequence[Measurement] = (),
    steps: dict[str, StepEnd] | None = None,
    counts: Counts = NOTHING,
) -> ChainEnd:
    """A run that ended with a judgement, with one expectation in one suite or without."""
    found = make_suite(check_verdict, make_check(check, check_verdict, rows=1, unexpected=1))
    judgement = make_judgement(
        verdict,
        problems=problems,
        suites={Suite.COMPLETENESS: found} if check else {},
        counts=counts,
        measurements=measured,
    )
    return ChainEnd(run=run, steps=steps or {}, judgement=judgement)


def test_a_run_that_passed_needs_no_reason(run: Run) -> None:
    found = explain(end_with(run, Verdict.PASSED))
    assert (found.classes, found.violations) == ([], [])


def test_a_run_without_a_judgement_is_unexplained(run: Run) -> None:
    assert explain(ChainEnd(run=run)).violations == ["the run was not judged"]


def test_acknowledged_messages_that_are_not_stored_are_counted_without_judging(run: Run) -> None:
    at = now_us()
    row = {"producer": "p", "seq": 0, "outcome": "acked", "cluster": "log", "topic": "orders", "partition": -1}
    times = dict.fromkeys(("scheduled_at", "sent_at", "settled_at"), at)
    run.append("publishes", [{"run_id": "r", "epoch": 0, "key": "k", "payload_hash": 1, **row, **times}])
    seal_tables(run, "publishes")
    counts = NOTHING.model_copy(update={"publishes": 1, "messages": 1, "acked": 1})
    found = explain(end_with(run, Verdict.PASSED, counts=counts))
    assert "passed, and 1 acknowledged messages are not stored" in found.violations


@pytest.mark.parametrize("anomaly", [Anomaly.STORED_TWICE, Anomaly.LOST, Anomaly.POSITION_REGRESSED])
def test_an_anomaly_is_not_explained_by_a_dead_minority(run: Run, anomaly: Anomaly) -> None:
    do_fault(run, "dead", "destroy", "server-1", states=(FaultState.INJECTING, FaultState.EFFECTIVE))
    (violation,) = explain(end_with(run, Verdict.FAILED, check=anomaly)).violations[:1]
    assert violation == f"an anomaly that the log server never makes: 1 {anomaly}"


def test_a_loss_is_explained_by_a_majority_of_destroyed_disks(run: Run) -> None:
    do_fault(run, "dead", "destroy", "server-1", "server-2", states=(FaultState.INJECTING, FaultState.EFFECTIVE))
    found = explain(end_with(run, Verdict.FAILED, check=Anomaly.LOST))
    assert found.classes == ["acknowledged messages are lost: a majority of the disks was destroyed"]
    assert found.violations == []


@pytest.mark.parametrize(("dead", "excused"), [(["server-1"], False), (["server-1", "server-2"], True)])
def test_a_fault_finds_no_leader_only_without_a_majority(run: Run, dead: list[str], excused: bool) -> None:
    do_fault(run, "dead", "kill", *dead, states=(FaultState.INJECTING, FaultState.EFFECTIVE))
    why = "waited 60 s for the targets of unload_3: no server of this run says that it leads"
    found = explain(end_with(run, Verdict.NO_DATA, why))
    assert found.classes == ["a fault is done to the leader, and nobody leads"]
    assert any("the faults did no such thing" in violation for violation in found.violations) is not excused


def test_what_another_system_does_is_told_and_is_no_violation(run: Run) -> None:
    found = describe(end_with(run, Verdict.FAILED, "Nobody knows why\nat all", check=Anomaly.STORED_TWICE))
    assert found.classes == ["Nobody knows why at all", "completeness: stored_twice failed, 1 of 1 rows"]
    assert found.violations == []


def test_what_brokerproof_does_wrong_is_a_violation_on_every_system(run: Run) -> None:
    assert describe(ChainEnd(run=run)).violations == ["the run was not judged"]
    counts = NOTHING.model_copy(update={"acked": 1})
    found = describe(end_with(run, Verdict.NO_DATA, counts=counts, steps={"load": StepEnd(seconds=9, limit_s=5)}))
    assert found.violations == [
        "step load took 9 s, longer than 5 s",
        "0 messages were acknowledged, and judging counts 1",
        "no_data, although 1 messages were acknowledged",
    ]


def test_a_table_that_a_failed_step_did_not_leave_is_a_violation_only_where_nobody_says_so(run: Run) -> None:
    do_fault(run, "dead", "kill", "server-1", states=(FaultState.INJECTING,))
    shutil.rmtree(run.table("faults"))
    (missing,) = describe(end_with(run, Verdict.UNKNOWN)).violations
    assert "faults" in missing
    failed = {"consume": StepEnd(seconds=1, limit_s=5, error=RuntimeError("timed out"))}
    assert missing not in describe(end_with(run, Verdict.UNKNOWN, missing, steps=failed)).violations
    assert missing in describe(end_with(run, Verdict.UNKNOWN, steps=failed)).violations
    assert missing in describe(end_with(run, Verdict.UNKNOWN, missing)).violations


@pytest.mark.parametrize(
    ("metric", "subject", "broken", "held"),
    # `leader_loss` bounds the one; an owner is in the region that a scenario names, or is not.
    [("detect_s", "leader_killed", 8.5, 7.5), ("owner_in_region", "recovery", 0, 1)],
)
def test_a_bound_is_broken_by_a_value_beyond_it_and_by_no_other(
    run: Run, metric: str, subject: str, broken: float, held: float
) -> None:
    value = make_measurement("r", metric, broken, subject=subject)
    found = explain(end_with(run, Verdict.FAILED, check=metric, measured=[value]))
    assert (found.classes, found.violations) == ([f"a bound of the scenario does not hold: {metric}"], [])
    value = make_measurement("r", metric, held, subject=subject)
    assert explain(end_with(run, Verdict.FAILED, check=metric, measured=[value])).violations


def test_a_bound_that_no_value_breaks_has_not_failed(run: Run) -> None:
    found = explain(end_with(run, Verdict.FAILED, check="detect_s"))
    assert found.violations[0] == "detect_s failed, and every value is within its bounds"


def test_a_reason_that_nobody_foresaw_is_unexplained(run: Run) -> None:
    found = explain(end_with(run, Verdict.UNKNOWN, "The moon was full."))
    assert found.violations[0] == "a reason that is not known: The moon was full."


NOT_UNDONE = (
    "Nothing proves that every fault was undone: dead was not undone: waited 120 s for the nodes of dead to be healthy "
    "again: server-1."
)


def test_nodes_that_do_not_come_back_are_explained_by_a_majority_that_is_gone_and_by_nothing_less(run: Run) -> None:
    do_fault(run, "dead", "destroy", "server-1", states=(FaultState.INJECTING, FaultState.EFFECTIVE))
    (violation,) = explain(end_with(run, Verdict.UNKNOWN, NOT_UNDONE)).violations
    assert "but the faults did no such thing" in violation
    # A frozen node wakes up and votes.
    do_fault(run, "frozen", "pause", "server-2", states=(FaultState.INJECTING, FaultState.EFFECTIVE))
    assert explain(end_with(run, Verdict.UNKNOWN, NOT_UNDONE)).violations
    do_fault(run, "dead_too", "destroy", "server-2", states=(FaultState.INJECTING, FaultState.EFFECTIVE))
    assert explain(end_with(run, Verdict.UNKNOWN, NOT_UNDONE)).violations == []


def test_a_healed_fault_keeps_nobody_down(run: Run) -> None:
    do_fault(run, "one", "kill", "server-1", states=(FaultState.EFFECTIVE, FaultState.RECOVERED))
    do_fault(run, "other", "kill", "server-2", states=(FaultState.EFFECTIVE, FaultState.RECOVERED))
    assert explain(end_with(run, Verdict.UNKNOWN, NOT_UNDONE)).violations


def test_a_load_that_was_told_to_end_is_explained_where_the_timeline_told_it(run: Run) -> None:
    problem = "The load did not finish: log-p0: it was told to end before its time."
    assert explain(end_with(run, Verdict.UNKNOWN, problem)).violations
    write_record(run, EarlyEnd(why="break_it failed", at=now_us()))
    assert explain(end_with(run, Verdict.UNKNOWN, problem)).violations == []


@pytest.mark.parametrize("problem", ["KeyError: 'x'", "dead was not undone: ValueError: no"])
def test_an_exception_of_python_is_a_bug_wherever_it_is_told(run: Run, problem: str) -> None:
    write_record(run, StepProblem(step="break_it", problem=problem))
    (violation,) = explain(end_with(run, Verdict.PASSED)).violations
    assert violation == f"an exception of Python in a record: {problem}"


def test_an_error_of_ours_is_none(run: Run) -> None:
    write_record(run, FaultsUndone(undone=True, problems=("DeadlineError: waited 2 s for dead",), at=now_us()))
    violations = explain(end_with(run, Verdict.PASSED)).violations
    assert not [each for each in violations if "exception" in each]


@pytest.mark.parametrize(
    ("end", "violation"),
    [
        (StepEnd(seconds=61, limit_s=60), "step read_back took 61 s, longer than 60 s"),
        (StepEnd(seconds=1, limit_s=60, hangs=True), "step read_back hangs"),
        (StepEnd(seconds=1, limit_s=60, trace="Traceback\nKeyError: 1"), "step read_back crashed: KeyError: 1"),
    ],
)
def test_a_step_that_is_late_hangs_or_crashes_is_a_violation(run: Run, end: StepEnd, violation: str) -> None:
    assert explain(end_with(run, Verdict.PASSED, steps={"read_back": end})).violations == [violation]


def test_steps_under_load_may_take_as_much_longer_as_the_phases_began_late(run: Run) -> None:
    took = {step: StepEnd(seconds=100, limit_s=60) for step in ("load", "consume", "break_it", "read_back")}
    write_record(run, StepSeconds(step="break_it", started_at=0, finished_at=100_000_000))
    late = [f"step {step} took 100 s, longer than 60 s" for step in took]
    assert explain(end_with(run, Verdict.PASSED, steps=took)).violations == late
    for steady_s, violations in ((41, late[3:]), (39, [each.replace("60", "99") for each in late[:3]] + late[3:])):
        times = dict.fromkeys(("steady_at", "impact_at", "recovery_at", "ends_at"), steady_s * 1_000_000)
        write_record(run, PhaseTimes(**times))
        assert explain(end_with(run, Verdict.PASSED, steps=took)).violations == violations


def test_a_rate_that_nobody_waits_so_long_for_is_no_reason(run: Run) -> None:
    write_record(run, StepSeconds(step="break_it", started_at=0, finished_at=1))
    write_record(
        run, PhaseTimes(steady_at=190_000_000, impact_at=190_000_000, recovery_at=190_000_000, ends_at=190_000_000)
    )
    (violation,) = explain(end_with(run, Verdict.PASSED, steps={"load": StepEnd(seconds=241, limit_s=60)})).violations
    assert violation == "step load took 241 s, longer than 240 s"


def test_a_table_that_was_changed_after_its_seal_is_a_violation(run: Run) -> None:
    do_fault(run, "dead", "kill", "server-1", states=(FaultState.EFFECTIVE,))
    next(Path(run.table("faults")).glob("*.parquet")).unlink()
    assert "A file of the table faults is missing" in explain(end_with(run, Verdict.PASSED)).violations[0]
