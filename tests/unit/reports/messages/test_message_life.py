"""A message's life holds what happened to it, in order of time, and says what is missing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from brokerproof.errors import InputError, RunError
from brokerproof.experiment.guarantees import Anomaly
from brokerproof.experiment.verdict import Verdict
from brokerproof.reports.messages.judged_message import (
    Delivered,
    Event,
    FaultChanged,
    Legality,
    OutputWritten,
    SettledAttempt,
    Stored,
)
from brokerproof.reports.messages.message_life import MessageLife, read_message_life
from brokerproof.reports.messages.message_view import tabulate_events
from brokerproof.results.retention import MESSAGE_TABLES
from brokerproof.run.directory import Run
from brokerproof.run.judgement import JudgingFailure
from brokerproof.run.records import LogsRead, TablesDeletion, TableSeal, remove_record, write_record
from brokerproof.run.seals import seal_tables

from ...judging.history import REPLICATED, SECOND, SEGMENT, START, History, Row
from .planted_judgement import anomaly, leave_judgement, place

KILL = {"name": "eu_killed", "kind": "kill", "targets": {"region": "eu"}}


def log_and_audit(producer: str = "p1", seq: int = 1, *, copies: int = 1, deliveries: int = 1, **log: Any) -> list[Row]:
    """The places of a message: the log of its home, and the subscription `audit` there."""
    return [
        place(producer, seq, copies=copies, **log),
        place(producer, seq, subscription="audit", copies=min(1, deliveries), deliveries=deliveries),
    ]


def judge_well(run: Run, **values: Any) -> Run:
    leave_judgement(run, **{"places": log_and_audit(), **values})
    return run


def change_fault(history: History, state: str, at: int, fault: str = "eu_killed") -> None:
    history.faults.append(
        {"fault": fault, "kind": "kill", "targets": ["bookie-eu-1"], "state": state, "at": START + at, "evidence": "e"}
    )


def kinds(life: MessageLife) -> list[str]:
    return [event.kind for event in life.events]


def of_kind(life: MessageLife, kind: type[Any]) -> list[Any]:
    return [event for event in life.events if isinstance(event, kind)]


def time_of(event: Event) -> int | None:
    return None if event.at is None else event.at - START


# What became of it


def test_a_message_that_was_acked_the_first_time(tmp_path: Path) -> None:
    run = judge_well(History().clean().write(tmp_path / "run"))

    life = read_message_life(run, "p1", 1)

    # The fourth message of two producers in turn, one a millisecond: acked 400 µs later and delivered 500 µs later.
    assert [(event.kind, time_of(event)) for event in life.events] == [
        ("sent", 3000),
        ("stored", 3000),
        ("settled", 3400),
        ("delivered", 3500),
        ("ack_confirmed", 3550),
    ]
    assert {str(event.position) for event in life.events if event.kind != "sent"} == {f"{SEGMENT}:3"}
    assert life.sentence == (
        "p1/1 was acknowledged after 0.4 ms at 22:13:20.003, stored once in main, delivered once to `audit`; "
        "nothing is wrong with it."
    )
    assert (life.problems, life.faults, life.first_fault_at, life.key) == ((), (), None, "p1-key-1")


COMMITS = [{"name": "early", "commit": "before"}, {"name": "late", "commit": "after"}]


def test_a_message_has_the_outputs_of_its_consumers(tmp_path: Path) -> None:
    history = History(subscriptions=COMMITS).clean()
    history.forget("outputs", "p1", 1, subscription="early")
    (row,) = history.rows("outputs", "p1", 1, subscription="late")
    history.outputs.append({**row, "consumer": "consumer-1", "written_at": row["written_at"] + SECOND})
    places = [place("p1", 1), *(place("p1", 1, subscription=each["name"], deliveries=1) for each in COMMITS)]
    run = judge_well(history.write(tmp_path / "run"), places=places)

    life = read_message_life(run, "p1", 1)

    assert [(time_of(event), event.subscription, event.consumer) for event in of_kind(life, OutputWritten)] == [
        (3520, "late", "consumer-0"),
        (3520 + SECOND, "late", "consumer-1"),
    ]
    assert ", with an output written twice by `late` but not by `early`; " in life.sentence
    row_of_output = next(row for row in tabulate_events(life).rows if row.kind == "output")
    assert (row_of_output.event, row_of_output.position, row_of_output.place) == (
        "output",
        f"{SEGMENT}:3",
        "main / late / consumer-0",
    )
    assert row_of_output.details.startswith("object output-")


def test_a_message_without_outputs_says_so_only_if_the_table_of_outputs_is_whole(tmp_path: Path) -> None:
    history = History(subscriptions=COMMITS).clean()
    history.forget("outputs", "p1", 1)
    run = judge_well(history.write(tmp_path / "run"))
    assert ", without an output; " in read_message_life(run, "p1", 1).sentence

    shutil.rmtree(run.path("tables", "outputs"))
    life = read_message_life(run, "p1", 1)
    assert ", whether it has an output is not known; " in life.sentence
    assert any("outputs" in problem for problem in life.problems)


def test_a_message_of_a_topic_that_stores_nothing_is_not_missed_in_a_log(tmp_path: Path) -> None:
    history = History(guarantee="at_most_once", workload={"stored": False}, bounds={"missed_messages": {"max": 1}})
    history.clean().stored.clear()
    life = read_message_life(history.write(tmp_path / "run"), "p1", 1)
    assert life.sentence.startswith("p1/1 was acknowledged after 0.4 ms at 22:13:20.003, delivered once to `audit`; ")


def test_a_message_that_was_tried_again_has_both_attempts(tmp_path: Path) -> None:
    history = History().clean()
    history.publishes[3] |= {"outcome": "unknown", "error": "timeout", "settled_at": START + 2 * SECOND}
    history.publishes[3] |= {"segment": None, "offset": None}
    # A retry that the cluster recognized is acked without a position.
    history.publish(producer="p1", seq=1, epoch=1, at=3 * SECOND)
    run = judge_well(history.write(tmp_path / "run"))

    life = read_message_life(run, "p1", 1)

    first, second = of_kind(life, SettledAttempt)
    assert (first.attempt, first.outcome, first.error) == (1, "unknown", "timeout")
    assert (second.attempt, second.outcome, second.position) == (2, "acked", None)
    assert kinds(life) == ["sent", "stored", "delivered", "ack_confirmed", "settled", "sent", "settled"]
    assert life.sentence.startswith("p1/1 was attempted twice and was acknowledged after 3.0 s at 22:13:23.000, ")


def test_a_message_that_was_lost(tmp_path: Path) -> None:
    history = History().clean()
    history.forget("stored", "p1", 1)
    history.forget("deliveries", "p1", 1)
    run = history.write(tmp_path / "run")
    lost = anomaly(Anomaly.LOST, "p1", 1, legal=False, detail="acked, and not in the log of main")
    leave_judgement(run, places=log_and_audit(copies=0, deliveries=0), anomalies=[lost], verdict=Verdict.FAILED)

    life = read_message_life(run, "p1", 1)

    assert life.sentence.endswith(", was found in no log, not delivered; judging found `lost` (illegal).")
    assert kinds(life) == ["sent", "settled"]
    assert life.judged is not None
    (found,) = life.judged.anomalies
    assert (found.legality, found.detail, found.cause) == (
        Legality.ILLEGAL,
        "acked, and not in the log of main",
        "a_cause",
    )
    assert (
        found.sentence == "Such a message was acked or seen, and is not stored in its home, "
        "whose log was read to its end or past its acks."
    )


def test_a_message_that_is_stored_twice(tmp_path: Path) -> None:
    history = History().clean()
    history.store(producer="p1", seq=1, offset=99)
    run = judge_well(history.write(tmp_path / "run"), anomalies=[anomaly(Anomaly.STORED_TWICE, "p1", 1, legal=True)])

    life = read_message_life(run, "p1", 1)

    assert [str(event.position) for event in of_kind(life, Stored)] == ["5:3", "5:99"]
    assert ", stored twice in main, " in life.sentence
    assert life.sentence.endswith("; judging found `stored_twice` (legal).")


def test_a_message_that_was_delivered_again(tmp_path: Path) -> None:
    history = History().clean()
    history.rows("deliveries", "p1", 1)[0]["acknowledged_at"] = None
    history.deliver(producer="p1", seq=1, at=SECOND, offset=3, incarnation=1, redelivery_count=1)
    run = judge_well(history.write(tmp_path / "run"), anomalies=[anomaly(Anomaly.DELIVERED_TWICE, "p1", 1, legal=True)])

    life = read_message_life(run, "p1", 1)

    first, second = of_kind(life, Delivered)
    assert (first.redelivery_count, first.incarnation, first.ack_confirmed) == (0, 0, False)
    assert (second.redelivery_count, second.incarnation, second.ack_confirmed) == (1, 1, True)
    assert ", delivered twice to `audit`; " in life.sentence


def test_a_message_that_was_replicated(tmp_path: Path) -> None:
    history = History(clusters=("main", "other"), subscriptions=[{"name": "audit", "cluster": "other"}])
    history.topic = f"persistent://{REPLICATED}/orders"
    history.clean()
    run = history.write(tmp_path / "run")
    leave_judgement(run, places=[place("p1", 1), place("p1", 1, cluster="other")])

    life = read_message_life(run, "p1", 1)

    home, copy = of_kind(life, Stored)
    assert (home.cluster, home.replicated_from) == ("main", None)
    assert (copy.cluster, copy.replicated_from, str(copy.position)) == ("other", "main", "5:103")
    assert ", stored once in main and once in other, delivered once to `audit`; nothing" in life.sentence


def test_a_cluster_that_lacks_the_message_is_named(tmp_path: Path) -> None:
    run = History().clean().write(tmp_path / "run")
    missed = [place("p1", 1, cluster="other", copies=0), place("p1", 1, subscription="billing", deliveries=0)]
    leave_judgement(
        run,
        places=[*log_and_audit(), *missed],
        anomalies=[
            anomaly(Anomaly.NOT_REPLICATED, "p1", 1, legal=False, cluster="other"),
            anomaly(Anomaly.UNDELIVERED, "p1", 1, legal=False, subscription="billing"),
        ],
    )

    sentence = read_message_life(run, "p1", 1).sentence

    assert ", stored once in main but not in other, delivered once to `audit` but not to `billing`; " in sentence
    assert sentence.endswith("judging found `not_replicated` (illegal) and `undelivered` (illegal).")


def test_an_unknown_outcome_that_was_recovered(tmp_path: Path) -> None:
    history = History().clean()
    history.publishes[3] |= {"outcome": "unknown", "error": "not settled in time", "settled_at": None}
    history.publishes[3] |= {"segment": None, "offset": None}
    run = judge_well(history.write(tmp_path / "run"), places=log_and_audit(recovered=True))

    life = read_message_life(run, "p1", 1)

    assert life.sentence.startswith("p1/1 has an unknown outcome (not settled in time) but was recovered, stored once")
    (settled,) = of_kind(life, SettledAttempt)
    assert (settled.at, settled.position) == (None, None)


def test_an_attempt_of_a_killed_client_has_the_time_of_its_schedule(tmp_path: Path) -> None:
    history = History().clean()
    history.publishes[3] |= {"outcome": "unknown", "error": "ended", "sent_at": None, "settled_at": None}
    run = judge_well(history.write(tmp_path / "run"))

    life = read_message_life(run, "p1", 1)

    assert kinds(life) == ["sent", "stored", "settled", "delivered", "ack_confirmed"]
    assert [time_of(event) for event in life.events] == [None, 3000, None, 3500, 3550]


def test_a_message_that_failed_is_said_to_have_failed(tmp_path: Path) -> None:
    history = History().clean()
    for table in ("stored", "deliveries"):
        history.forget(table, "p1", 1)
    history.publishes[3] |= {"outcome": "failed", "error": "message too big", "segment": None, "offset": None}
    run = judge_well(history.write(tmp_path / "run"), places=log_and_audit(copies=0, deliveries=0))

    assert read_message_life(run, "p1", 1).sentence == (
        "p1/1 failed for certain (message too big), was found in no log, not delivered; nothing is wrong with it."
    )


def test_a_message_that_was_not_sent_has_no_attempt(tmp_path: Path) -> None:
    history = History().clean()
    for table in ("stored", "deliveries"):
        history.forget(table, "p1", 1)
    gone = dict.fromkeys(("partition", "sent_at", "settled_at", "segment", "offset"))
    history.publishes[3] |= {"outcome": "not_sent", **gone}
    run = judge_well(history.write(tmp_path / "run"), places=log_and_audit(copies=0, deliveries=0))

    life = read_message_life(run, "p1", 1)

    assert kinds(life) == ["settled"]
    assert life.sentence == (
        "p1/1 was not sent, because too many messages had no answer until the end of the load, was found in no log, "
        "not delivered; nothing is wrong with it."
    )
    (row,) = tabulate_events(life).rows
    assert (row.event, row.time, row.details) == (
        "not sent",
        "–",
        "too many messages had no answer until the end of the load",
    )


def test_what_nobody_published_has_a_life_too(tmp_path: Path) -> None:
    history = History().clean()
    history.store(producer="ghost", seq=7, offset=99)
    run = history.write(tmp_path / "run")
    phantom = anomaly(Anomaly.PHANTOM, "ghost", 7, legal=False)
    leave_judgement(run, places=[place("ghost", 7)], anomalies=[phantom])

    life = read_message_life(run, "ghost", 7)

    assert life.sentence == (
        "ghost/7 was never published, stored once in main, not delivered; judging found `phantom` (illegal)."
    )
    assert [event.payload_matches for event in of_kind(life, Stored)] == [None]


def test_another_payload_is_seen(tmp_path: Path) -> None:
    history = History().clean()
    history.rows("stored", "p1", 1)[0]["payload_hash"] += 1

    life = read_message_life(judge_well(history.write(tmp_path / "run")), "p1", 1)

    assert [event.payload_matches for event in of_kind(life, Stored)] == [False]
    assert [event.payload_matches for event in of_kind(life, Delivered)] == [True]


@pytest.mark.parametrize(
    ("published_at", "expected"),
    [
        pytest.param(1000, 3000, id="a batch that began before the message was sent"),
        pytest.param(4000, 4000, id="later than the attempt was sent"),
        pytest.param(2 * SECOND, 2 * SECOND + 1, id="of the second attempt"),
        pytest.param(None, 3000, id="no time"),
    ],
)
def test_a_copy_is_not_older_than_its_attempt(tmp_path: Path, published_at: int | None, expected: int) -> None:
    history = History().clean()
    history.publish(producer="p1", seq=1, epoch=1, at=2 * SECOND + 1)
    history.rows("stored", "p1", 1)[0]["published_at"] = None if published_at is None else START + published_at

    (copy,) = of_kind(read_message_life(judge_well(history.write(tmp_path / "run")), "p1", 1), Stored)

    assert time_of(copy) == expected
    assert copy.published_at == (None if published_at is None else START + published_at)


# The faults around it


def plant_slow_message(history: History) -> History:
    """A message that is sent after one second, acked after two, and delivered after four."""
    history.publish(producer="p1", seq=1, at=SECOND, settled_at=START + 2 * SECOND, offset=0)
    history.store(producer="p1", seq=1, offset=0, published_at=START + SECOND)
    history.deliver(producer="p1", seq=1, at=4 * SECOND, offset=0, acked=None)
    return history


def test_a_fault_that_changes_meanwhile_is_among_the_events(tmp_path: Path) -> None:
    history = plant_slow_message(History(faults=[KILL]))
    times = (("injecting", SECOND // 2), ("effective", 3 * SECOND // 2), ("healing", 3 * SECOND))
    for state, at in (*times, ("recovered", 5 * SECOND)):
        change_fault(history, state, at)

    life = read_message_life(judge_well(history.write(tmp_path / "run")), "p1", 1)

    assert kinds(life) == ["sent", "stored", "fault", "settled", "fault", "delivered"]
    assert [event.state for event in of_kind(life, FaultChanged)] == ["effective", "healing"]
    assert life.first_fault_at == START + SECOND // 2
    (course,) = life.faults
    assert (course.fault, course.kind, course.targets) == ("eu_killed", "kill", ("bookie-eu-1",))
    assert (course.injected_at, course.recovered_at) == (START + SECOND // 2, START + 5 * SECOND)


@pytest.mark.parametrize(
    ("changes", "is_in_force"),
    [
        pytest.param({"injecting": 0, "recovered": SECOND // 2}, False, id="over before"),
        pytest.param({"injecting": 5 * SECOND}, False, id="later"),
        pytest.param({"injecting": 0, "effective": 1}, True, id="never recovered"),
        pytest.param({"injecting": 0, "effective": 1, "recovered": 9 * SECOND}, True, id="all the while"),
    ],
)
def test_only_a_fault_that_was_in_force_meanwhile_is_listed(
    tmp_path: Path, changes: dict[str, int], is_in_force: bool
) -> None:
    history = plant_slow_message(History(faults=[KILL]))
    for state, at in changes.items():
        change_fault(history, state, at)

    life = read_message_life(judge_well(history.write(tmp_path / "run")), "p1", 1)

    assert [course.fault for course in life.faults] == (["eu_killed"] if is_in_force else [])
    assert not of_kind(life, FaultChanged)


def test_a_message_that_waits_to_be_sent_is_alive(tmp_path: Path) -> None:
    history = plant_slow_message(History(faults=[KILL]))
    history.publishes[0]["scheduled_at"] = START
    change_fault(history, "injecting", SECOND // 2)

    life = read_message_life(judge_well(history.write(tmp_path / "run")), "p1", 1)

    assert kinds(life)[:2] == ["fault", "sent"]


# What is missing


@pytest.mark.parametrize(
    ("table", "job", "denied"),
    [
        ("publishes", "load", "was never published"),
        ("stored", "read_back", "was found in no log"),
        ("deliveries", "consume", "not delivered"),
        ("faults", "break_it", "nothing is wrong"),
    ],
)
def test_a_missing_table_is_said_and_nothing_is_concluded_from_it(
    tmp_path: Path, table: str, job: str, denied: str
) -> None:
    history = History(faults=[KILL]).clean()
    change_fault(history, "injecting", 0)
    setattr(history, table, [])
    run = judge_well(history.write(tmp_path / "run"))

    life = read_message_life(run, "p1", 1)

    assert life.problems == (f"The table {table} is missing: {job} did not write it.",)
    assert denied not in life.sentence
    assert life.sentence.endswith("; judging names nothing wrong with it, but the evidence about it is not whole.")


@pytest.mark.parametrize("sealed", [True, False])
def test_a_table_without_a_whole_file_is_missing(tmp_path: Path, sealed: bool) -> None:
    history = History().clean()
    history.facts["sealed"] = sealed
    run = history.write(tmp_path / "run")
    file_of(run, "stored").unlink()
    (Path(run.table("stored")) / "_temporary").write_text("")
    seal_tables(run, "publishes", "deliveries")
    remove_record(run, LogsRead)

    assert read_message_life(judge_well(run), "p1", 1).problems == (
        "The table stored is missing: read_back did not write it.",
    )


def test_a_table_that_the_scenario_does_not_ask_for_is_not_missing(tmp_path: Path) -> None:
    history = History(subscriptions=[]).clean()
    run = history.write(tmp_path / "run")
    leave_judgement(run, places=[place("p1", 1)])

    life = read_message_life(run, "p1", 1)

    assert life.problems == ()
    assert life.sentence.endswith(", stored once in main; nothing is wrong with it.")


def seal(run: Run) -> Run:
    seal_tables(run, "publishes", "stored", "deliveries", "faults")
    return run


def plant_sealed(directory: Path) -> Run:
    history = History(faults=[KILL]).clean()
    change_fault(history, "injecting", 0)
    history.facts["sealed"] = True
    return judge_well(seal(history.write(directory)))


def file_of(run: Run, table: str) -> Path:
    (file,) = Path(run.table(table)).glob("*.parquet")
    return file


def shorten(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-9])


def rewrite(file: Path) -> None:
    pq.write_table(pq.read_table(file).slice(0, 1), file)


def test_what_agrees_with_its_seals_has_no_problem_and_no_note(tmp_path: Path) -> None:
    life = read_message_life(plant_sealed(tmp_path / "run"), "p1", 1)
    assert (life.problems, life.notes) == ((), ())


@pytest.mark.parametrize("table", ["publishes", "stored", "deliveries", "faults"])
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (Path.unlink, "A file of the table {table} is missing: "),
        (shorten, "A file of the table {table} is not the one that was sealed: "),
        (rewrite, "A file of the table {table} is not the one that was sealed: "),
    ],
)
def test_a_table_that_differs_from_its_seal_is_said(
    tmp_path: Path, table: str, damage: Callable[[Path], None], said: str
) -> None:
    run = plant_sealed(tmp_path / "run")
    damage(file_of(run, table))

    life = read_message_life(run, "p1", 1)

    assert life.problems[0].startswith(said.format(table=table))
    assert life.sentence.endswith("but the evidence about it is not whole.")


def test_a_job_that_did_not_seal_its_table_is_said(tmp_path: Path) -> None:
    run = plant_sealed(tmp_path / "run")
    remove_record(run, TableSeal, "deliveries")

    life = read_message_life(run, "p1", 1)

    assert life.problems == ("The table deliveries has no seal, because consume did not get to its end.",)
    # What is there is shown all the same.
    assert len(of_kind(life, Delivered)) == 1


def test_large_tables_are_compared_without_checksums_which_is_noted(tmp_path: Path) -> None:
    run = plant_sealed(tmp_path / "run")
    content = bytearray(file_of(run, "stored").read_bytes())
    # The name of the writer, in the footer.
    place_of_name = content.rindex(b"parquet-cpp")
    content[place_of_name] ^= 1
    file_of(run, "stored").write_bytes(content)

    assert "has another content" in read_message_life(run, "p1", 1).problems[0]
    life = read_message_life(run, "p1", 1, checksums_up_to=100)
    assert life.problems == ()
    assert "by size and rows only" in life.notes[0]


def test_the_size_is_compared_without_checksums_too(tmp_path: Path) -> None:
    run = plant_sealed(tmp_path / "run")
    shorten(file_of(run, "stored"))

    assert "bytes instead of" in read_message_life(run, "p1", 1, checksums_up_to=0).problems[0]


def test_a_damaged_file_of_a_run_without_seals_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    run = judge_well(History().clean().write(tmp_path / "run"))
    (Path(run.table("stored")) / "part-2.parquet").write_bytes(b"no parquet")

    life = read_message_life(run, "p1", 1)

    (problem,) = life.problems
    assert problem.startswith("The file part-2.parquet of the table stored cannot be read: ")
    assert len(of_kind(life, Stored)) == 1
    assert life.notes == (
        "The run was recorded before there were seals, so nothing says whether its tables are as they were.",
    )


def test_a_row_that_breaks_its_schema_is_an_error(tmp_path: Path) -> None:
    history = History().clean()
    history.publishes[3]["outcome"] = "perhaps"
    run = judge_well(history.write(tmp_path / "run"))

    with pytest.raises(RunError, match=r"holds a row that cannot be used: SettledAttempt\.outcome: "):
        read_message_life(run, "p1", 1)


def test_a_change_of_a_fault_without_a_time_is_an_error(tmp_path: Path) -> None:
    history = History(faults=[KILL]).clean()
    change_fault(history, "injecting", 0)
    history.faults[0]["at"] = None

    with pytest.raises(RunError, match=r"holds a row that cannot be used: FaultChanged\.at: "):
        read_message_life(judge_well(history.write(tmp_path / "run")), "p1", 1)


def test_a_run_that_nobody_judged_says_so(tmp_path: Path) -> None:
    life = read_message_life(History().clean().write(tmp_path / "run"), "p1", 1)

    assert life.judged is None
    assert life.sentence.endswith("; what judging found about it is not known.")
    assert life.problems == ("What judging found is not known: nothing was judged: `verify` left no judgement.",)


def test_results_of_an_earlier_judging_do_not_count_where_the_last_one_failed(tmp_path: Path) -> None:
    run = judge_well(History().clean().write(tmp_path / "run"), anomalies=[anomaly(Anomaly.LOST, "p1", 1, legal=False)])
    write_record(run, JudgingFailure(why="The run could not be judged: no memory", error="MemoryError"))

    life = read_message_life(run, "p1", 1)

    assert life.judged is None
    assert life.problems == ("What judging found is not known: The run could not be judged: no memory.",)


def test_anomalies_that_are_fewer_than_were_counted_are_said(tmp_path: Path) -> None:
    run = judge_well(History().clean().write(tmp_path / "run"), anomalies=[anomaly(Anomaly.LOST, "p0", 1, legal=False)])
    file_of(run, "anomalies").unlink()

    life = read_message_life(run, "p1", 1)

    assert life.problems == (
        "The table anomalies has 0 rows, and the judgement counted 1 anomalies; `brokerproof verify` judges the run "
        "again.",
    )
    assert "nothing is wrong" not in life.sentence


def test_a_message_that_judging_does_not_know_is_said(tmp_path: Path) -> None:
    run = judge_well(History().clean().write(tmp_path / "run"), places=log_and_audit("p0", 0))

    (problem,) = read_message_life(run, "p1", 1).problems

    assert problem.startswith("The table messages has no row of this message, although the run was judged; ")


def test_gaps_in_the_evidence_of_the_run_are_no_proof_that_all_is_well(tmp_path: Path) -> None:
    gap = "The log of orders in main was not read to its end."
    run = judge_well(History().clean().write(tmp_path / "run"), problems=(gap,), verdict=Verdict.UNKNOWN)

    life = read_message_life(run, "p1", 1)

    assert life.sentence.endswith("; judging names nothing wrong with it, but the run's evidence has gaps.")
    assert life.judged is not None
    assert life.judged.evidence_problems == (gap,)


def test_what_is_unproven_is_neither_legal_nor_illegal(tmp_path: Path) -> None:
    run = judge_well(
        History().clean().write(tmp_path / "run"), anomalies=[anomaly(Anomaly.UNPROVEN, "p1", 1, legal=True)]
    )
    assert read_message_life(run, "p1", 1).sentence.endswith("; judging found `unproven` (undecided).")


# Messages that the run does not have


@pytest.mark.parametrize(
    ("producer", "seq", "field", "said"),
    [
        ("p11", 1, "producer", "the run has no producer `p11` (did you mean `p1`?)"),
        ("orders", 1, "producer", "the run has no producer `orders` (one of: p0, p1)"),
        ("p1", 6, "seq", "`p1` has no message 6 (give one from 0 to 5)"),
        ("p1", -1, "seq", "`p1` has no message -1 (give one from 0 to 5)"),
        ("p1", 2**80, "seq", f"`p1` has no message {2**80} (give one from 0 to 5)"),
    ],
)
def test_a_message_that_the_run_does_not_have_is_refused(
    tmp_path: Path, producer: str, seq: int, field: str, said: str
) -> None:
    run = judge_well(History().clean().write(tmp_path / "run"))

    with pytest.raises(InputError) as refused:
        read_message_life(run, producer, seq)

    assert str(refused.value) == f"{run.directory}: {field}: {said}"


def test_the_producer_of_a_phantom_is_known(tmp_path: Path) -> None:
    history = History().clean()
    history.store(producer="ghost", seq=7, offset=99)
    run = judge_well(history.write(tmp_path / "run"))

    with pytest.raises(InputError, match=r"`ghost` has no message 8 \(give one from 7 to 7\)"):
        read_message_life(run, "ghost", 8)


def test_a_refusal_says_which_tables_could_not_be_asked(tmp_path: Path) -> None:
    history = History().clean()
    history.stored = []
    run = judge_well(history.write(tmp_path / "run"))

    with pytest.raises(InputError, match="has no message 6; of stored not everything could be read"):
        read_message_life(run, "p1", 6)


def test_nothing_is_refused_where_nothing_says_what_was_published(tmp_path: Path) -> None:
    history = History().clean()
    history.publishes = []
    run = judge_well(history.write(tmp_path / "run"))

    life = read_message_life(run, "p9", 6)

    assert life.events == ()
    assert life.problems[0] == "The table publishes is missing: load did not write it."
    assert life.sentence.startswith("p9/6 was published in a way that is not known, was found in no log, ")


# How it is read


def test_row_groups_that_cannot_hold_the_message_are_not_opened(tmp_path: Path) -> None:
    history = History().clean(producers=1, messages=100)
    run = judge_well(history.write(tmp_path / "run"), places=log_and_audit("p0", 90))
    file = file_of(run, "stored")
    pq.write_table(pq.read_table(file), file, row_group_size=10, compression="none")
    content = bytearray(file.read_bytes())
    spoiled = pq.ParquetFile(file).metadata.row_group(0)
    first = min(spoiled.column(number).dictionary_page_offset or 4 for number in range(spoiled.num_columns))
    content[first : first + spoiled.total_byte_size] = b"\xff" * spoiled.total_byte_size
    file.write_bytes(content)

    assert read_message_life(run, "p0", 90).problems == ()
    # It would have been noticed.
    assert "cannot be read" in read_message_life(run, "p0", 5).problems[0]


def test_a_life_is_read_back_from_its_json(tmp_path: Path) -> None:
    history = plant_slow_message(History(faults=[KILL]))
    change_fault(history, "injecting", SECOND)
    run = judge_well(history.write(tmp_path / "run"), anomalies=[anomaly(Anomaly.STORED_TWICE, "p1", 1, legal=True)])

    life = read_message_life(run, "p1", 1)

    assert MessageLife.model_validate_json(life.model_dump_json()) == life


def test_parquet_of_spark_is_read(tmp_path: Path) -> None:
    """Spark writes times as it likes, and strings without a dictionary."""
    history = History().clean()
    run = judge_well(history.write(tmp_path / "run"))
    file = file_of(run, "publishes")
    pq.write_table(pq.read_table(file), file, use_deprecated_int96_timestamps=True, use_dictionary=False)

    assert [time_of(event) for event in read_message_life(run, "p1", 1).events][:3] == [3000, 3000, 3400]


def test_a_run_without_its_tables_has_no_message_to_show_and_says_since_when(tmp_path: Path) -> None:
    run = History().clean().write(tmp_path / "run")
    write_record(run, TablesDeletion(why="after 30 days (BROKERPROOF_KEEP_TABLES_DAYS)", at=1_767_225_600_000_000))
    for table in MESSAGE_TABLES:
        shutil.rmtree(run.table(table), ignore_errors=True)

    with pytest.raises(InputError, match="its tables were deleted on 2026-01-01, after 30 days"):
        read_message_life(run, "p1", 1)
