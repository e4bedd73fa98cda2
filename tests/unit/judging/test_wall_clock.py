"""Steps of wall clocks: they are named, and take only what rests on wall times."""

from __future__ import annotations

from pathlib import Path

import pytest
from brokerproof.experiment.guarantees import Anomaly, Suite
from brokerproof.experiment.verdict import Verdict
from brokerproof.run.directory import Run, TimeAxis
from brokerproof.run.records import ClientRecordRead, EpochRead, WallClockNote, WallClockStep, write_record
from brokerproof.run.seals import SealCheck
from brokerproof_judging.instrument import examine_instrument, withhold_claims
from brokerproof_judging.run_judging import WITHOUT_SEALS, judge_run
from brokerproof_judging.wall_clock import read_wall_clocks
from pyspark.sql import SparkSession

from .history import SECOND, SEGMENT, START, History, table
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


def plant(tmp_path: Path, *notes: WallClockNote, has_axis: bool = True, clock_error_us: int = 0) -> Run:
    """A clean run of one producer and one consumer, in which each process left a note, but for those in `notes`."""
    history = History(workload={"producers": 1}).clean()
    history.facts["time_axis"] = TimeAxis(boot_id="here", offset_us=0) if has_axis else None
    history.facts["clock_error_us"] = clock_error_us
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
    file = Path(run.path("state", "wall_clock_note-load-0.json"))
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
    # It completes a sentence.
    assert not doubted or doubt.endswith("2023-11-14 22:13:23 UTC")


def test_times_of_two_hosts_are_in_doubt_if_a_clock_stepped(tmp_path: Path) -> None:
    elsewhere = make_note(CONSUMER, boot_id="there")
    assert read_wall_clocks(plant(tmp_path / "still", elsewhere, clock_error_us=20_000)).doubt_hosts() == ""
    stepped = make_note(MONITOR, (3, 2.0))
    assert read_wall_clocks(plant(tmp_path / "one", stepped)).doubt_hosts() == ""
    assert read_wall_clocks(plant(tmp_path / "two", elsewhere, stepped, clock_error_us=20_000)).doubt_hosts() == (
        "Times of 2 hosts do not compare, because a wall clock stepped: "
        "The wall clock of the monitor stepped by +2.00 s at 2023-11-14 22:13:23 UTC."
    )


def test_times_of_two_hosts_are_in_doubt_if_nothing_says_how_far_their_clocks_differ(tmp_path: Path) -> None:
    run = plant(tmp_path, make_note(CONSUMER, boot_id="there"))
    assert read_wall_clocks(run).doubt_hosts() == (
        "Times of 2 hosts do not compare, because nothing says how far their clocks differ: "
        "set BROKERPROOF_CLOCK_ERROR_MS."
    )


@pytest.mark.parametrize(
    ("boot_id", "least_delay_us", "doubted"),
    [("there", -20_001, True), ("there", -20_000, False), ("there", None, False), ("here", -20_001, False)],
)
def test_times_of_two_hosts_are_in_doubt_if_a_message_was_delivered_before_it_was_sent(
    tmp_path: Path, boot_id: str, least_delay_us: int | None, doubted: bool
) -> None:
    run = plant(tmp_path, make_note(CONSUMER, boot_id=boot_id), clock_error_us=20_000)
    assert read_wall_clocks(run).doubt_hosts(least_delay_us) == (
        "Times of 2 hosts do not compare, because a message was delivered 20.0 ms before it was sent. "
        "BROKERPROOF_CLOCK_ERROR_MS says that their clocks differ by at most 20 ms."
        if doubted
        else ""
    )


@pytest.mark.parametrize("epochs", [1, 2], ids=["one attempt", "two attempts"])
def test_a_delivery_before_its_only_attempt_refutes_the_clock_error(
    spark: SparkSession, tmp_path: Path, epochs: int
) -> None:
    history = History(workload={"producers": 1}).clean(producers=1, messages=3)
    published = history.rows("publishes", "p0", 1)[0]
    for name in ("sent_at", "settled_at"):
        published[name] += SECOND // 2
    for epoch in range(1, epochs):
        # The attempt before, which has no answer, is the one that was delivered.
        sent_at = published["sent_at"] - SECOND // 2
        attempt = {"epoch": epoch, "outcome": "unknown", "sent_at": sent_at, "segment": None, "offset": None}
        history.publishes.append({**published, **attempt, "partition": None})
    history.facts |= {"time_axis": TimeAxis(boot_id="here", offset_us=0), "clock_error_us": 20_000}
    run = history.write(tmp_path / "run")
    for note in (make_note(MONITOR), make_note(CONSUMER), make_note(PRODUCER, boot_id="there")):
        write_record(run, note)
    judgement = judge_run(spark, run, lambda *_: make_suites(Verdict.PASSED), ["no expectations"])
    said = "because a message was delivered 499.5 ms before it was sent" in " ".join(judgement.problems)
    assert said is (epochs == 1)


@pytest.mark.parametrize("boot_id", ["here", "there"])
def test_the_boot_of_the_axis_is_one_of_the_hosts(tmp_path: Path, boot_id: str) -> None:
    run = plant(tmp_path, *(make_note(process, boot_id=boot_id) for process in (PRODUCER, CONSUMER, MONITOR)))
    assert bool(read_wall_clocks(run).doubt_hosts()) is (boot_id == "there")


@pytest.mark.parametrize("damaged", [False, True], ids=["missing", "damaged"])
def test_a_client_without_a_note_is_on_an_unknown_host(tmp_path: Path, damaged: bool) -> None:
    run = plant(tmp_path, clock_error_us=20_000)
    file = Path(run.path("state", "wall_clock_note-load-0.json"))
    file.write_text("{") if damaged else file.unlink()
    assert read_wall_clocks(run).doubt_hosts() == (
        "Times of two processes do not compare, because nothing says on which host main-p0 ran."
    )


@pytest.mark.parametrize("rows", [0, 1])
def test_a_client_that_was_killed_before_its_first_note_puts_no_times_in_doubt(tmp_path: Path, rows: int) -> None:
    run = plant(tmp_path)
    Path(run.path("state", "wall_clock_note-load-0.json")).unlink()
    read = EpochRead(epoch=0, segments=rows, rows=rows, missing=())
    write_record(run, ClientRecordRead(client=PRODUCER, epochs=(read,), at=START))
    assert bool(read_wall_clocks(run).doubt_hosts()) is bool(rows)


def test_a_client_whose_record_is_damaged_may_have_recorded_a_row(tmp_path: Path) -> None:
    run = plant(tmp_path)
    Path(run.path("state", "wall_clock_note-load-0.json")).unlink()
    Path(run.path("state", "client_record_read-load-0.json")).write_text("{", encoding="utf-8")
    assert "nothing says on which host" in read_wall_clocks(run).doubt_hosts()


@pytest.mark.parametrize(
    ("boot_id", "has_axis", "error_us"),
    [("here", True, 0), ("there", True, 20_000), (None, True, 20_000), ("here", False, 20_000)],
    ids=["one boot", "two boots", "an unknown boot", "a run without an axis"],
)
def test_the_error_of_several_hosts_is_not_in_force_on_one_boot(
    tmp_path: Path, boot_id: str | None, has_axis: bool, error_us: int
) -> None:
    run = plant(tmp_path, make_note(CONSUMER, boot_id=boot_id or ""), has_axis=has_axis, clock_error_us=20_000)
    if boot_id is None:
        Path(run.path("state", "wall_clock_note-consume-0.json")).unlink()
    assert read_wall_clocks(run).clock_error_us == error_us


@pytest.mark.parametrize(("boot_id", "found"), [("here", True), ("there", False)])
def test_a_position_that_regressed_within_the_error_is_found_on_one_boot(
    spark: SparkSession, tmp_path: Path, boot_id: str, found: bool
) -> None:
    history = History(workload={"producers": 1}).clean(producers=1, messages=2)
    # Sent 10 ms after the ack of the message before it was settled.
    history.publish(producer="p0", seq=2, at=SECOND // 100 + 1400, segment=SEGMENT - 1, offset=0)
    history.facts |= {"time_axis": TimeAxis(boot_id="here", offset_us=0), "clock_error_us": 20_000}
    run = history.write(tmp_path / "run")
    for note in (make_note(PRODUCER), make_note(MONITOR), make_note(CONSUMER, boot_id=boot_id)):
        write_record(run, note)
    judge_run(spark, run, lambda *_: make_suites(Verdict.PASSED), ["no expectations"])
    assert ("position_regressed" in {row["anomaly"] for row in table(run, "anomalies")}) is found
    assert run.facts.clock_error_us == 20_000


def test_the_monitor_is_on_the_host_of_the_axis_if_its_note_is_missing(tmp_path: Path) -> None:
    run = plant(tmp_path)
    Path(run.path("state", "wall_clock_note-monitor.json")).unlink()
    assert read_wall_clocks(run).doubt_hosts() == ""


@pytest.mark.parametrize("earlier", [(), ("there",)])
def test_a_client_that_ran_again_on_another_boot_has_two_hosts(tmp_path: Path, earlier: tuple[str, ...]) -> None:
    run = plant(tmp_path, make_note(CONSUMER).model_copy(update={"earlier_boot_ids": earlier}))
    assert bool(read_wall_clocks(run).doubt_hosts()) is bool(earlier)


def test_no_host_is_in_doubt_in_a_run_from_before_there_was_an_axis(tmp_path: Path) -> None:
    assert read_wall_clocks(plant(tmp_path, has_axis=False)).doubt_hosts() == ""


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
