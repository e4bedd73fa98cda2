"""A broken instrument accuses nobody: what is claimed, and what is not, where a step or a table is not whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fsspec
import pytest
from brokerproof.clients.consuming import plan_consumers
from brokerproof.errors import RunError
from brokerproof.experiment.guarantees import Suite
from brokerproof.experiment.verdict import Verdict
from brokerproof.run.directory import Run
from brokerproof.run.judgement import Check, SuiteJudgement
from brokerproof.run.records import (
    ConsumerEnd,
    LoadEnd,
    LogsRead,
    Record,
    StepProblem,
    SubscriptionDrains,
    TableSeal,
    remove_record,
    write_record,
)
from brokerproof.run.seals import WRITERS, SealCheck, check_seals, seal_tables
from brokerproof_judging.evidence import Evidence
from brokerproof_judging.instrument import WHOLE, Instrument, examine_instrument, withhold_claims
from brokerproof_judging.run_judging import WITHOUT_SEALS, conclude, judge_run
from pyspark.sql import SparkSession

from .history import REPLICATED, START, History
from .judged import suite_judgement
from .test_evidence import counts

ON_MESSAGES = {Suite.COMPLETENESS, Suite.UNIQUENESS, Suite.ORDERING}
BROKEN_STEP = Instrument(
    problems=("step break_it failed: KeyError: 'x'",), messages_are_whole=True, publishes_are_whole=True
)
AGREE = SealCheck(broken=frozenset(), problems=())
BROKEN_TABLE = Instrument(
    problems=("A file of the table deliveries is missing",), messages_are_whole=False, publishes_are_whole=False
)


def make_check(verdict: Verdict) -> Check:
    return Check(name="x", description="", verdict=verdict, rows=1, unexpected=0, undecided=0, legal=0, samples=())


def make_suites(verdict: Verdict) -> dict[Suite, SuiteJudgement]:
    suite = suite_judgement(verdict, "3 are.")
    return {name: suite.model_copy(update={"expectations": (make_check(verdict),)}) for name in Suite}


@pytest.mark.parametrize("verdict", [Verdict.PASSED, Verdict.FAILED])
def test_where_a_fault_may_still_be_in_force_no_bound_is_claimed_and_messages_are(verdict: Verdict) -> None:
    judged = withhold_claims(make_suites(verdict), WHOLE, ["stop_1 was not undone"], faults_undone=False)
    for name, suite in judged.items():
        assert suite.worst is (verdict if name in ON_MESSAGES else Verdict.UNKNOWN)
    assert judged[Suite.PLACEMENT].why.startswith(
        f"Nothing is claimed, because nothing proves that every fault was undone; it would have {verdict}: "
    )


@pytest.mark.parametrize("verdict", [Verdict.PASSED, Verdict.FAILED])
@pytest.mark.parametrize(
    ("instrument", "in_doubt"),
    [(WHOLE, set()), (BROKEN_STEP, set(Suite) - ON_MESSAGES), (BROKEN_TABLE, set(Suite))],
    ids=["whole", "a broken step", "a broken table"],
)
def test_what_a_broken_instrument_came_to_is_not_claimed(
    verdict: Verdict, instrument: Instrument, in_doubt: set[Suite]
) -> None:
    judged = withhold_claims(make_suites(verdict), instrument)
    for name, suite in judged.items():
        expected = Verdict.UNKNOWN if name in in_doubt else verdict
        assert (suite.verdict, suite.worst, suite.expectations[0].verdict) == (expected, expected, expected)
    if in_doubt:
        assert judged[Suite.RECOVERY].why == (
            f"Nothing is claimed, because the instrument was not whole; it would have {verdict}: 3 are."
        )


@pytest.mark.parametrize("verdict", [Verdict.UNKNOWN, Verdict.NO_DATA, Verdict.NOT_APPLICABLE])
def test_what_claims_nothing_stays_as_it_is(verdict: Verdict) -> None:
    suites = make_suites(verdict)
    assert withhold_claims(suites, BROKEN_TABLE) == suites


def test_a_suite_without_expectations_rests_on_what_its_name_is_about() -> None:
    suites = {name: suite_judgement(Verdict.PASSED) for name in Suite}
    found = {name: suite.verdict for name, suite in withhold_claims(suites, BROKEN_STEP).items()}
    assert found == {name: Verdict.PASSED if name in ON_MESSAGES else Verdict.UNKNOWN for name in Suite}


def test_an_expectation_that_is_worse_than_its_suite_is_withheld_too() -> None:
    suite = suite_judgement(Verdict.PASSED).model_copy(update={"expectations": (make_check(Verdict.FAILED),)})
    assert withhold_claims({Suite.RECOVERY: suite}, BROKEN_STEP)[Suite.RECOVERY].worst is Verdict.UNKNOWN


def test_an_anomaly_that_complete_evidence_proves_stays_failed_though_a_step_broke() -> None:
    suites = withhold_claims(make_suites(Verdict.FAILED), BROKEN_STEP)
    verdict, why = conclude(counts(), BROKEN_STEP.problems, suites, BROKEN_STEP)
    assert verdict is Verdict.FAILED
    assert why == (
        "completeness: 3 are; uniqueness: 3 are; ordering: 3 are; also not known: step break_it failed: KeyError: 'x'."
    )


def test_a_broken_bound_is_no_failure_where_a_step_broke() -> None:
    suites = make_suites(Verdict.PASSED) | {Suite.RECOVERY: suite_judgement(Verdict.FAILED, "rto_s is 99.")}
    judged = withhold_claims(suites, BROKEN_STEP)
    assert conclude(counts(), BROKEN_STEP.problems, judged, BROKEN_STEP) == (
        Verdict.UNKNOWN,
        "step break_it failed: KeyError: 'x'; what is proven nevertheless: "
        "10 messages were acknowledged, and completeness and uniqueness and ordering held.",
    )


def test_nothing_is_proven_of_a_table_that_is_not_whole() -> None:
    judged = withhold_claims(make_suites(Verdict.FAILED), BROKEN_TABLE)
    verdict, why = conclude(counts(), BROKEN_TABLE.problems, judged, BROKEN_TABLE)
    assert verdict is Verdict.UNKNOWN
    assert why.endswith("what is proven nevertheless: nothing.")


def test_what_was_acknowledged_is_proven_by_publishes_alone() -> None:
    unread = Instrument(problems=("step read_back failed: x",), messages_are_whole=False, publishes_are_whole=True)
    judged = withhold_claims(make_suites(Verdict.PASSED), unread)
    _, why = conclude(counts(), unread.problems, judged, unread)
    assert why.endswith("what is proven nevertheless: 10 messages were acknowledged.")


def test_no_publish_is_no_finding_where_the_instrument_broke() -> None:
    assert conclude(counts(publishes=0), (), {}, WHOLE)[0] is Verdict.NO_DATA
    verdict, why = conclude(counts(publishes=0), BROKEN_STEP.problems, {}, BROKEN_STEP)
    assert verdict is Verdict.UNKNOWN
    assert "Nobody published" not in why


def make_users_suite(verdict: Verdict, *names: str) -> dict[str, SuiteJudgement]:
    """A user's suite with a standard expectation, and with own ones of these names, which passed."""
    standard = make_check(verdict).model_copy(update={"name": "on a table", "table": "publishes"})
    own = [make_check(Verdict.PASSED).model_copy(update={"name": name}) for name in names]
    return {"mine": suite_judgement(verdict, "3 are.").model_copy(update={"expectations": (standard, *own)})}


@pytest.mark.parametrize("verdict", [Verdict.PASSED, Verdict.FAILED])
@pytest.mark.parametrize("instrument", [BROKEN_STEP, BROKEN_TABLE], ids=["a broken step", "a broken table"])
def test_a_standard_expectation_claims_nothing_where_the_instrument_broke(
    verdict: Verdict, instrument: Instrument
) -> None:
    judged = withhold_claims(make_users_suite(verdict), instrument)["mine"]
    assert (judged.verdict, judged.expectations[0].verdict) == (Verdict.UNKNOWN, Verdict.UNKNOWN)
    assert judged.why == f"Nothing is claimed, because the instrument was not whole; it would have {verdict}: 3 are."


@pytest.mark.parametrize("verdict", [Verdict.PASSED, Verdict.FAILED])
def test_a_standard_expectation_claims_nothing_where_the_evidence_has_a_gap(verdict: Verdict) -> None:
    gap = ["The log of orders in us was not read to its end: x."]
    judged = withhold_claims(make_users_suite(verdict) | make_suites(verdict), WHOLE, gap)
    assert judged["mine"].worst is Verdict.UNKNOWN
    assert (
        judged["mine"].why == f"Nothing is claimed, because the evidence is not whole; it would have {verdict}: 3 are."
    )
    assert judged[Suite.COMPLETENESS].verdict is verdict


def test_a_standard_expectation_is_claimed_where_nothing_is_wrong() -> None:
    suites = make_users_suite(Verdict.FAILED)
    assert withhold_claims(suites, WHOLE) == suites


def test_own_kinds_in_a_users_suite_rest_on_the_same_as_in_the_five() -> None:
    judged = withhold_claims(make_users_suite(Verdict.PASSED, "lost", "rto_s"), BROKEN_STEP)["mine"]
    assert [check.verdict for check in judged.expectations] == [Verdict.UNKNOWN, Verdict.PASSED, Verdict.UNKNOWN]


def test_what_is_proven_stays_failed_beside_what_is_withheld() -> None:
    (suite,) = make_users_suite(Verdict.FAILED, "lost").values()
    standard, lost = suite.expectations
    suite = suite.model_copy(update={"expectations": (standard, lost.model_copy(update={"verdict": Verdict.FAILED}))})
    judged = withhold_claims({"mine": suite}, BROKEN_STEP)["mine"]
    assert (judged.verdict, judged.expectations[0].verdict) == (Verdict.FAILED, Verdict.UNKNOWN)
    assert judged.why == "3 are. Nothing is claimed of on a table, because the instrument was not whole."


@pytest.mark.parametrize("verdict", [Verdict.FAILED, Verdict.UNKNOWN])
def test_a_users_suite_decides_the_verdict_like_the_five(verdict: Verdict) -> None:
    suites = make_suites(Verdict.PASSED) | make_users_suite(verdict)
    found, why = conclude(counts(), (), suites)
    assert found is verdict
    assert "mine: 3 are" in why


def make_sealed(tmp_path: Path) -> Run:
    history = History().clean()
    history.facts["sealed"] = True
    run = history.write(tmp_path / "run")
    seal_tables(run, *WRITERS)
    return run


def test_a_run_that_nothing_broke_in_is_whole(tmp_path: Path) -> None:
    assert examine_instrument(make_sealed(tmp_path), AGREE).is_whole


@pytest.mark.parametrize("step", ["provision", "configure", "load", "consume", "break_it", "read_back"])
def test_a_step_that_failed_broke_the_instrument(tmp_path: Path, step: str) -> None:
    run = make_sealed(tmp_path)
    write_record(run, StepProblem(step=step, problem="KeyError: 'x'"))
    instrument = examine_instrument(run, AGREE)
    assert instrument == Instrument(
        problems=[f"step {step} failed: KeyError: 'x'"], messages_are_whole=True, publishes_are_whole=True
    )
    assert not instrument.is_whole


def test_a_step_that_only_repeats_the_problem_of_another_is_left_out(tmp_path: Path) -> None:
    run = make_sealed(tmp_path)
    write_record(run, StepProblem(step="break_it", problem="the load failed before its time: p0: no slots"))
    write_record(run, StepProblem(step="load", problem="p0: no slots"))
    assert examine_instrument(run, AGREE).problems == ["step load failed: p0: no slots"]
    # What failed may itself say that something failed.
    write_record(run, StepProblem(step="break_it", problem="the load failed: p0: no slots"))
    assert examine_instrument(run, AGREE).problems == ["step load failed: p0: no slots"]


def test_a_step_that_gave_no_reason_hides_no_other_step(tmp_path: Path) -> None:
    run = make_sealed(tmp_path)
    write_record(run, StepProblem(step="break_it", problem="p0: no slots"))
    write_record(run, StepProblem(step="load", problem=""))
    assert examine_instrument(run, AGREE).problems == ["step break_it failed: p0: no slots", "step load failed: "]


@pytest.mark.parametrize("step", ["verify", "release"])
def test_a_step_after_the_evidence_takes_nothing_from_it(tmp_path: Path, step: str) -> None:
    run = make_sealed(tmp_path)
    write_record(run, StepProblem(step=step, problem="KeyError: 'x'"))
    assert examine_instrument(run, AGREE).is_whole


def test_a_record_of_publishes_that_contradicts_itself_proves_nothing(tmp_path: Path) -> None:
    instrument = examine_instrument(
        make_sealed(tmp_path), AGREE, {"publishes": ["The seq of what was published has gaps."]}
    )
    assert (instrument.is_whole, instrument.messages_are_whole) == (False, False)


@pytest.mark.parametrize("table", ["publishes", "deliveries", "stored"])
def test_a_table_that_was_deleted_makes_the_verdict_unknown_and_is_named(
    spark: SparkSession, tmp_path: Path, table: str
) -> None:
    run = make_sealed(tmp_path)
    filesystem, directory = fsspec.url_to_fs(run.table(table))
    filesystem.rm(directory, recursive=True)
    failing = lambda *_: make_suites(Verdict.FAILED)  # noqa: E731
    judgement = judge_run(spark, run, failing, ["no expectations"])
    assert judgement.verdict is judgement.worst is Verdict.UNKNOWN
    assert f"A file of the table {table} is missing: part-" in judgement.why
    assert judgement.notes == ()


@pytest.mark.parametrize(
    ("table", "end", "sentence"),
    [
        ("publishes", LoadEnd, "The load did not finish: no step left a record of it"),
        ("deliveries", SubscriptionDrains, "Nothing proves that a subscription drained: no step left a record of it"),
        ("stored", LogsRead, "No log was read back: no step left a record of it"),
    ],
)
def test_a_job_that_was_killed_before_its_first_row_makes_the_verdict_unknown(
    spark: SparkSession, tmp_path: Path, table: str, end: type[Record], sentence: str
) -> None:
    """The job left no file, no seal and no record of its end. The verdict names the missing record."""
    run = make_sealed(tmp_path)
    filesystem, directory = fsspec.url_to_fs(run.table(table))
    filesystem.rm(directory, recursive=True)
    remove_record(run, TableSeal, table)
    remove_record(run, end)
    assert (check_seals(run).broken, check_seals(run).problems) == ({table}, ())
    judgement = judge_run(spark, run, lambda *_: make_suites(Verdict.PASSED), ["no expectations"])
    assert judgement.verdict is judgement.worst is Verdict.UNKNOWN
    assert sentence in judgement.why


def test_a_standard_expectation_on_a_table_without_its_seal_is_unknown(spark: SparkSession, tmp_path: Path) -> None:
    history = History().clean()
    history.facts["sealed"] = True
    run = history.write(tmp_path / "run")
    seal_tables(run, *(table for table in WRITERS if table != "stored"))
    users = lambda *_: make_suites(Verdict.PASSED) | make_users_suite(Verdict.FAILED)  # noqa: E731
    judgement = judge_run(spark, run, users, ["no expectations"])
    assert judgement.verdict is judgement.worst is Verdict.UNKNOWN
    assert judgement.suites["mine"].verdict is Verdict.UNKNOWN
    assert "The table stored has no seal" in judgement.why


def test_a_standard_expectation_on_a_log_that_was_not_read_to_its_end_is_unknown(
    spark: SparkSession, tmp_path: Path
) -> None:
    history = History().clean()
    history.records[LogsRead] = None
    users = lambda *_: make_suites(Verdict.PASSED) | make_users_suite(Verdict.FAILED)  # noqa: E731
    judgement = judge_run(spark, history.write(tmp_path / "run"), users, ["no expectations"])
    assert judgement.worst is Verdict.UNKNOWN
    assert judgement.suites["mine"].why.startswith("Nothing is claimed, because the evidence is not whole")


def test_a_table_that_only_times_rest_on_leaves_the_messages_proven(spark: SparkSession, tmp_path: Path) -> None:
    run = make_sealed(tmp_path)
    run.append("observations", [{"run_id": "r1", "at": START, "source": "link", "metric": "state", "value": "up"}])
    judgement = judge_run(spark, run, lambda *_: make_suites(Verdict.PASSED), ["no expectations"])
    assert judgement.verdict is Verdict.UNKNOWN
    assert judgement.suites[Suite.COMPLETENESS].verdict is Verdict.PASSED
    assert judgement.suites[Suite.RECOVERY].verdict is Verdict.UNKNOWN
    assert "A file was added to the table observations after it was sealed" in judgement.why


def test_a_table_that_cannot_even_be_read_is_named(spark: SparkSession, tmp_path: Path) -> None:
    run = make_sealed(tmp_path)
    (file,) = Path(run.table("stored")).glob("part-*.parquet")
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(RunError, match=f"the table stored is not the one that was sealed: {file.name} has"):
        judge_run(spark, run, lambda *_: make_suites(Verdict.PASSED), ["no expectations"])


def test_a_run_from_before_there_were_seals_is_judged_and_the_report_says_so(
    spark: SparkSession, tmp_path: Path
) -> None:
    run = History().clean().write(tmp_path / "run")
    judgement = judge_run(spark, run, lambda *_: make_suites(Verdict.PASSED), ["no expectations"])
    assert (judgement.verdict, judgement.notes) == (Verdict.PASSED, (WITHOUT_SEALS,))


def test_a_load_that_was_killed_accuses_nobody_of_phantoms(spark: SparkSession, tmp_path: Path) -> None:
    history = History().clean()
    history.facts["sealed"] = True
    history.publishes.clear()
    history.records[LoadEnd] = None
    run = history.write(tmp_path / "run")
    seal_tables(run, *(table for table in WRITERS if table != "publishes"))
    write_record(run, StepProblem(step="load", problem="killed"))
    judgement = judge_run(spark, run, lambda *_: make_suites(Verdict.FAILED), ["no expectations"])
    assert judgement.counts.illegal["phantom"] > 0
    assert judgement.verdict is judgement.worst is Verdict.UNKNOWN
    assert judgement.why == ("step load failed: killed; what is proven nevertheless: nothing.")


def test_an_attempt_that_nobody_answered_is_in_no_log(spark: SparkSession, tmp_path: Path) -> None:
    history = History().clean()
    seq = 1 + max(row["seq"] for row in history.publishes if row["producer"] == history.publishes[0]["producer"])
    history.publish(
        at=0, producer=history.publishes[0]["producer"], seq=seq, outcome="unknown", partition=None, sent_at=None
    )
    judgement = judge_run(
        spark, history.write(tmp_path / "run"), lambda *_: make_suites(Verdict.PASSED), ["no expectations"]
    )
    assert (judgement.verdict, judgement.counts.unknown) == (Verdict.PASSED, 1)


@pytest.mark.parametrize("problem", ["audit-c0: its process was ended by SIGKILL", None])
def test_a_subscription_whose_consumer_was_killed_has_not_drained(tmp_path: Path, problem: str | None) -> None:
    history = History().clean()
    history.facts["sealed"] = True
    run = history.write(tmp_path / "run")
    for task in plan_consumers(run):
        broken = problem if task.number == 0 else None
        write_record(run, ConsumerEnd(task=task.number, consumer=task.consumer, delivered=1, problem=broken, at=1))
    first = plan_consumers(run)[0].subscription
    drains = Evidence.from_run(run).drains
    assert drains
    for place, proof in drains.items():
        expected = place[-1] != first or problem is None
        assert (proof.given, proof.why if not proof.given else problem) == (expected, problem), place


@pytest.mark.parametrize(
    ("clusters", "subscriptions", "killed_in", "without_proof"),
    [
        (("main", "other"), [{"name": "audit"}, {"name": "audit", "cluster": "other"}], "main", "main"),
        (("main", "other"), [{"name": "audit"}, {"name": "audit", "cluster": "other"}], "other", "other"),
        # The consumers of one that moves begin in its first cluster, and it has to drain in its last one.
        (
            ("main", "other", "third"),
            [{"name": "audit", "moves": {"to": "other", "after": "gone"}}, {"name": "audit", "cluster": "third"}],
            "main",
            "other",
        ),
    ],
    ids=["main", "other", "moves"],
)
def test_a_consumer_that_was_killed_takes_the_proof_of_its_own_cluster_only(
    tmp_path: Path, clusters: tuple[str, ...], subscriptions: list[dict[str, Any]], killed_in: str, without_proof: str
) -> None:
    fault = {"name": "gone", "kind": "kill", "targets": {"cluster": "main"}, "heal_at_s": 30}
    history = History(
        clusters=clusters, subscriptions=subscriptions, workload={"namespace": REPLICATED}, faults=[fault]
    )
    history.topic = f"persistent://{REPLICATED}/orders"
    history.clean()
    history.facts["sealed"] = True
    run = history.write(tmp_path / "run")
    for task in plan_consumers(run):
        problem = "audit-c0: its process was ended by SIGKILL" if task.cluster == killed_in else None
        write_record(run, ConsumerEnd(task=task.number, consumer=task.consumer, delivered=1, problem=problem, at=1))
    drains = Evidence.from_run(run).drains
    assert {place[0] for place, proof in drains.items() if not proof.given} == {without_proof}
    assert {place[0] for place, proof in drains.items() if proof.given} == set(clusters[-2:]) - {without_proof}


def test_a_subscription_whose_consumer_left_no_end_has_not_drained(tmp_path: Path) -> None:
    history = History().clean()
    history.facts["sealed"] = True
    drains = Evidence.from_run(history.write(tmp_path / "run")).drains
    assert drains
    assert not any(proof.given for proof in drains.values())
