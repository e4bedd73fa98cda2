"""Steps of wall clocks: they are named, and take only what rests on wall times."""

from __future__ import annotations

from pathlib import Path

import pytest
from brokerproof.experiment.guarantees import Anomaly, Suite
from brokerproof.experiment.verdict import Verdict
from brokerproof.run.directory import Run
from brokerproof.run.facts import TimeAxis
from brokerproof.run.records import WallClockNote, WallClockStep, write_record
from brokerproof.run.seals import SealCheck
from brokerproof_judging.instrument import examine_instrument, withhold_claims
from brokerproof_judging.run_judging import WITHOUT_SEALS, judge_run
from brokerproof_judging.wall_clock import read_wall_clocks
from pyspark.sql import SparkSession

from .history import SECOND, START, History
from .judged import suite_judgement
from .test_instrument import make_check, make_suites

PRODUCER, CONSUMER, MONITOR = "load-0", "consume-0", "monitor"


def make_note(process: str, *steps: tuple[int, float], boot_id: str = "here") -> WallClockNote:
    """The last note of a process; a step is its second of the run, and its size in seconds."""
    return WallClockNote(
        process=process,
        boot_id=boot_id,
        at=START + 60 * SECOND,
        lead_us=0,
        steps=tuple(WallClockStep(at=START + at * SECOND, size_us=int(size * SECOND)) for at, size in steps),
    )


def plant(tmp_path: Path, *notes: WallClockNote, has_axis: bool = True) -> Run:
    """A clean run of one producer and one consumer, in which each process left a note, but for those in `notes`."""
    history = History(workload={"producers": 1}).clean()
    history.facts["time_axis"] = TimeAxis(boot_id="here", offset_us=0) if has_axis else None
    run = history.write(tmp_path / "run")
    for note in [*map(make_note, (PRODUCER, CONSUMER, MONITOR) if has_axis else ()), *notes]:
        write_record(run, note)
    return run


def list_notes(tmp_path: Path, *notes: WallClockNote) -> list[str]:
    return read_wall_clocks(plant(tmp_path, *notes)).list_notes()


def test_no_step_is_no_note(tmp_path: Path) -> None:
    assert list_notes(tmp_path) == []


def test_each_step_is_named_with_its_process_its_size_and_its_time(tmp_path: Path) -> None:
    assert list_notes(tmp_path, make_note(PRODUCER, (3, 2.0)), make_note(CONSUMER, (5, -2.0))) == [
        "The wall clock of main-p0 stepped by +2.00 s at 2023-11-14 22:13:23 UTC.",
        "The wall clock of audit-c0 in main stepped by -2.00 s at 2023-11-14 22:13:25 UTC.",
    ]


def test_a_step_that_every_process_of_the_machine_saw_is_one(tmp_path: Path) -> None:
    notes = [make_note(PRODUCER, (3, 2.0)), make_note(CONSUMER, (4, 2.01)), make_note(MONITOR, (3, 1.99))]
    assert list_notes(tmp_path, *notes) == [
        "The wall clock of the monitor, main-p0 and audit-c0 in main stepped by +1.99 s at 2023-11-14 22:13:23 UTC."
    ]


def test_steps_forward_and_back_are_two(tmp_path: Path) -> None:
    assert len(list_notes(tmp_path, make_note(MONITOR, (3, 2.0), (4, -2.0)))) == 2


@pytest.mark.parametrize("damaged", [False, True], ids=["missing", "damaged"])
def test_a_clock_of_which_no_note_is_left_is_named(tmp_path: Path, damaged: bool) -> None:
    run = plant(tmp_path)
    file = Path(run.path("state", "wall_clock-load-0.json"))
    file.write_text("{") if damaged else file.unlink()
    assert read_wall_clocks(run).list_notes() == ["Nothing says whether the wall clock of main-p0 stepped."]


def test_a_run_from_before_there_was_an_axis_has_no_note(tmp_path: Path) -> None:
    assert read_wall_clocks(plant(tmp_path, has_axis=False)).list_notes() == []


@pytest.mark.parametrize(
    ("process", "doubted"), [(PRODUCER, True), (MONITOR, True), (CONSUMER, False)], ids=["producer", "monitor", "other"]
)
def test_publish_times_rest_on_the_clocks_that_they_were_taken_from(
    tmp_path: Path, process: str, doubted: bool
) -> None:
    doubt = read_wall_clocks(plant(tmp_path, make_note(process, (3, 2.0)))).doubt_publish_times()
    assert bool(doubt) is doubted
    assert ("stepped by +2.00 s" in doubt) is doubted


def test_times_of_two_hosts_are_in_doubt_only_if_a_clock_stepped(tmp_path: Path) -> None:
    elsewhere = make_note(CONSUMER, boot_id="there")
    assert read_wall_clocks(plant(tmp_path / "still", elsewhere)).doubt_hosts() == ""
    stepped = make_note(MONITOR, (3, 2.0))
    assert read_wall_clocks(plant(tmp_path / "one", stepped)).doubt_hosts() == ""
    assert read_wall_clocks(plant(tmp_path / "two", elsewhere, stepped)).doubt_hosts() == (
        "Times of 2 hosts do not compare, because a wall clock stepped: "
        "The wall clock of the monitor stepped by +2.00 s at 2023-11-14 22:13:23 UTC."
    )


@pytest.mark.parametrize(
    ("anomaly", "compares_times"),
    [
        (Anomaly.POSITION_REGRESSED, True),
        (Anomaly.DELIVERED_OUT_OF_ORDER, True),
        # Which delivery was the first, and whether an ack came before the second, is a matter of two clients' times.
        (Anomaly.DELIVERED_TWICE, True),
        (Anomaly.REDELIVERED_AFTER_ACK, True),
        (Anomaly.STORED_OUT_OF_ORDER, False),
        (Anomaly.STORED_TWICE, False),
        (Anomaly.LOST, False),
    ],
)
def test_only_what_compares_times_of_two_processes_is_not_claimed_of_hosts_in_doubt(
    tmp_path: Path, anomaly: Anomaly, compares_times: bool
) -> None:
    run = plant(tmp_path, make_note(CONSUMER, boot_id="there"), make_note(MONITOR, (3, 2.0)))
    seals = SealCheck(broken=frozenset(), problems=())
    check = make_check(Verdict.FAILED).model_copy(update={"name": str(anomaly)})
    suite = suite_judgement(Verdict.FAILED, "3 are.").model_copy(update={"expectations": (check,)})
    suites = {anomaly.facts.suite: suite, Suite.RECOVERY: suite_judgement(Verdict.FAILED, "rto_s is 99.")}
    instrument = examine_instrument(run, seals, {}, read_wall_clocks(run).doubt_hosts())
    judged = withhold_claims(suites, instrument)
    assert judged[anomaly.facts.suite].verdict is (Verdict.UNKNOWN if compares_times else Verdict.FAILED)
    assert judged[Suite.RECOVERY].verdict is Verdict.UNKNOWN
    assert withhold_claims(suites, examine_instrument(run, seals)) == suites


def test_what_a_destroyed_cluster_may_lose_goes_by_times(tmp_path: Path) -> None:
    run = plant(tmp_path)
    seals = SealCheck(broken=frozenset(), problems=())
    assert examine_instrument(run, seals, {}, "Times do not compare.").messages_are_whole
    vars(run)["scenario"] = run.scenario.model_copy(update={"destroyed": ["main"]})
    assert not examine_instrument(run, seals, {}, "Times do not compare.").messages_are_whole
    assert examine_instrument(run, seals).messages_are_whole


def test_a_step_changes_no_verdict_and_is_a_note(spark: SparkSession, tmp_path: Path) -> None:
    run = plant(tmp_path, make_note(PRODUCER, (3, 2.0)))
    judgement = judge_run(spark, run, lambda *_: make_suites(Verdict.PASSED), ["no expectations"])
    assert judgement.verdict is Verdict.PASSED
    assert judgement.problems == ()
    assert judgement.notes == (
        WITHOUT_SEALS,
        "The wall clock of main-p0 stepped by +2.00 s at 2023-11-14 22:13:23 UTC.",
    )
