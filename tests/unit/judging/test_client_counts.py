"""What a client or a log's reader counted, what its record holds and what its table holds: each difference is named."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from brokerproof.clients.consuming import plan_consumers
from brokerproof.clients.producing import plan_producers
from brokerproof.experiment.guarantees import Anomaly, Suite
from brokerproof.experiment.verdict import Verdict
from brokerproof.run.directory import Run
from brokerproof.run.judgement import Judgement, SuiteJudgement
from brokerproof.run.records import (
    ClientEpoch,
    ClientEpochs,
    ClientRecordRead,
    ClientState,
    ConsumerEnd,
    EpochRead,
    LogsRead,
    ProducerEnd,
    write_record,
)
from brokerproof.run.seals import WRITERS, seal_tables
from brokerproof_judging.client_counts import find_count_problems
from brokerproof_judging.run_judging import EvaluateSuites, judge_run
from pyspark.sql import SparkSession

from .history import SEGMENT, TOPIC, History
from .judged import pass_suites, suite_judgement, summarize

PRODUCERS, CONSUMER = ("main-p0", "main-p1"), "audit-c0"
SEGMENTS = 4
LOG = ("main", TOPIC, -1)
# What the task of a killed producer leaves.
KILLED = dict.fromkeys(("scheduled", "acked", "failed", "unknown", "not_sent"))


class Counted:
    """A history whose clients left their counts, as they do in a run; a test changes what it wants to differ."""

    def __init__(self) -> None:
        self.history = History(workload={"producers": 2})
        self.history.facts["sealed"] = True
        for seq in range(6):
            for producer in PRODUCERS:
                self.history.message(producer, seq)
        for row in self.history.deliveries:
            row["consumer"] = CONSUMER
        self.history.publishes[-1]["outcome"] = "unknown"
        self.ends: dict[str, dict[str, Any]] = {}
        self.epochs: dict[str, list[dict[str, Any]]] = {}
        self.lives: list[ClientEpochs] = []
        for number, producer in enumerate(PRODUCERS):
            rows = Counter(row["outcome"] for row in self.history.publishes if row["producer"] == producer)
            counts = {name: rows[name] for name in ("acked", "failed", "unknown", "not_sent")}
            self.ends[producer] = {"scheduled": rows.total(), **counts, "epoch": 0, "segments": SEGMENTS}
            self.epochs[f"load-{number}"] = [self.epoch(rows.total())]
        self.ends[CONSUMER] = {"delivered": len(self.history.deliveries), "epoch": 0, "segments": SEGMENTS}
        self.epochs["consume-0"] = [self.epoch(len(self.history.deliveries))]

    @staticmethod
    def epoch(rows: int, **values: Any) -> dict[str, Any]:
        return {"epoch": 0, "segments": SEGMENTS, "rows": rows, "missing": (), **values}

    def judge(self, spark: SparkSession, directory: Path) -> tuple[Verdict, tuple[str, ...]]:
        """The verdict and the problems of the run, whose tables agree with their seals."""
        judgement = self.evaluate(spark, directory, pass_suites)
        return judgement.verdict, judgement.problems

    def evaluate(self, spark: SparkSession, directory: Path, evaluate: EvaluateSuites) -> Judgement:
        """The judgement of the run, whose tables agree with their seals."""
        run = self.history.write(directory / "run")
        seal_tables(run, *WRITERS)
        self.write_records(run)
        return judge_run(spark, run, evaluate, ["no expectations"])

    def find_problems(self, directory: Path, *, damaged: str = "") -> tuple[str, ...]:
        """The problems, from the rows of the tables; the tests with a verdict show that judging counts the same.

        One row of each kind is in another part than the others. `damaged` names a record that cannot be read.
        """
        run = self.history.write(directory / "run")
        self.write_records(run)
        if damaged:
            Path(run.path("state", damaged)).write_text("{")
        attempts = Counter((row["producer"], row["epoch"], row["outcome"]) for row in self.history.publishes)
        columns = ("cluster", "subscription", "consumer", "incarnation")
        deliveries = Counter(tuple(row[name] for name in columns) for row in self.history.deliveries)
        stored = Counter((row["cluster"], row["topic"], row["partition"]) for row in self.history.stored)
        tables = {"stored": stored, "attempts": attempts, "deliveries": deliveries}
        summaries = [
            summarize(**{name: [(*group, count) for group, count in rows.items()] for name, rows in part.items()})
            for part in (
                {name: Counter(rows.keys()) for name, rows in tables.items()},
                {name: rows - Counter(rows.keys()) for name, rows in tables.items()},
            )
        ]
        return tuple(chain(*find_count_problems(run, summaries).values()))

    def write_records(self, run: Run) -> None:
        last: dict[str, Any] = {"problem": None, "at": 1}
        for producer in plan_producers(run):
            if end := self.ends.get(producer.producer):
                write_record(run, ProducerEnd(task=producer.number, producer=producer.producer, **{**last, **end}))
        for consumer in plan_consumers(run):
            if end := self.ends.get(consumer.consumer):
                write_record(run, ConsumerEnd(task=consumer.number, consumer=consumer.consumer, **{**last, **end}))
        for lives in self.lives:
            write_record(run, lives)
        for client, epochs in self.epochs.items():
            read = tuple(EpochRead(**epoch) for epoch in epochs)
            write_record(run, ClientRecordRead(client=client, epochs=read, at=1))


@pytest.fixture
def counted() -> Counted:
    return Counted()


def fail_suites(*_: object) -> dict[str, SuiteJudgement]:
    """Suites that fail, as they do if the rows of the tables accuse the system."""
    return {suite: suite_judgement(Verdict.FAILED, "3 messages are wrong.") for suite in Suite}


def test_a_run_whose_numbers_agree_has_no_problem(spark: SparkSession, tmp_path: Path, counted: Counted) -> None:
    assert counted.judge(spark, tmp_path) == (Verdict.PASSED, ())


def test_an_emptied_table_that_agrees_with_its_seal_is_named(
    spark: SparkSession, tmp_path: Path, counted: Counted
) -> None:
    counted.history.publishes.clear()
    counted.history.stored.clear()
    counted.history.deliveries.clear()
    assert counted.judge(spark, tmp_path) == (
        Verdict.UNKNOWN,
        (
            "The numbers of rows of main-p0 differ: it counted 6, its record holds 6, the table publishes holds 0.",
            "The numbers of rows of main-p1 differ: it counted 6, its record holds 6, the table publishes holds 0.",
            "The numbers of rows of audit-c0 differ: it counted 12, its record holds 12, the table deliveries holds 0.",
        ),
    )


def test_a_table_with_fewer_rows_than_its_client_recorded_is_named(tmp_path: Path, counted: Counted) -> None:
    del counted.history.deliveries[3]
    assert counted.find_problems(tmp_path) == (
        "The numbers of rows of audit-c0 differ: it counted 12, its record holds 12, the table deliveries holds 11.",
    )


def test_a_table_with_more_rows_than_its_client_recorded_is_named(tmp_path: Path, counted: Counted) -> None:
    counted.history.message("main-p0", 6)
    counted.history.deliveries[-1]["consumer"] = CONSUMER
    assert counted.find_problems(tmp_path) == (
        "The numbers of rows of main-p0 differ: it counted 6, its record holds 6, the table publishes holds 7.",
        "The numbers of rows of audit-c0 differ: it counted 12, its record holds 12, the table deliveries holds 13.",
    )


def test_rows_of_a_client_that_is_not_of_the_scenario_are_named(tmp_path: Path, counted: Counted) -> None:
    counted.history.message("stranger", 0)
    assert counted.find_problems(tmp_path) == (
        "The table publishes holds rows of stranger, which is no client of the scenario: 1.",
        "The table deliveries holds rows of consumer-0 of audit in main, which is no client of the scenario: 1.",
    )


def test_an_outcome_that_is_another_one_in_the_table_is_named(tmp_path: Path, counted: Counted) -> None:
    counted.history.publishes[-1]["outcome"] = "acked"
    assert counted.find_problems(tmp_path) == (
        "main-p1 and the table publishes count outcomes differently: acked 5 and 6, unknown 1 and 0.",
    )


def test_an_outcome_that_no_client_counts_is_named(tmp_path: Path, counted: Counted) -> None:
    counted.history.publishes[-1]["outcome"] = "odd"
    assert counted.find_problems(tmp_path) == (
        "main-p1 and the table publishes count outcomes differently: odd 0 and 1, unknown 1 and 0.",
    )


def test_a_record_whose_tail_is_gone_is_named(tmp_path: Path, counted: Counted) -> None:
    # The table has what the record has, and the last two segments of both had no rows.
    counted.epochs["consume-0"] = [Counted.epoch(12, segments=2)]
    assert counted.find_problems(tmp_path) == ("audit-c0 wrote 4 segments, and its record ends after 2.",)


def test_a_segment_that_is_missing_in_the_middle_is_named(tmp_path: Path, counted: Counted) -> None:
    # A killed client left no count of its own, so that only its record can show what is gone.
    counted.ends["main-p1"] = {**KILLED, "problem": "killed"}
    counted.epochs["load-1"] = [Counted.epoch(6, segments=3, missing=(1,))]
    assert counted.find_problems(tmp_path) == ("Segments that are missing from the record of main-p1: 1.",)


def test_a_missing_segment_is_no_missing_tail(tmp_path: Path, counted: Counted) -> None:
    counted.epochs["load-1"] = [Counted.epoch(6, segments=SEGMENTS - 1, missing=(1,))]
    assert counted.find_problems(tmp_path) == ("Segments that are missing from the record of main-p1: 1.",)


def test_a_client_that_was_killed_has_no_count_of_its_own_that_differs(tmp_path: Path, counted: Counted) -> None:
    counted.ends["main-p0"] = dict(KILLED)
    # Its task completed the record by what it may have sent.
    counted.epochs["load-0"] = [Counted.epoch(6, segments=1)]
    assert counted.find_problems(tmp_path) == ()


def test_a_killed_client_whose_table_lacks_rows_of_its_record_is_named(tmp_path: Path, counted: Counted) -> None:
    counted.ends["main-p0"] = dict(KILLED)
    counted.epochs["load-0"] = [Counted.epoch(7)]
    assert counted.find_problems(tmp_path) == (
        "The numbers of rows of main-p0 differ: its record holds 7, the table publishes holds 6.",
    )


REPEATED = (
    "2 processes ran main-p0, because its task was repeated. An earlier one may still have published when the next "
    "began, so their order may be that of Brokerproof itself.",
    "2 processes ran audit-c0, because its task was repeated. One that was killed may have acknowledged messages that "
    "its record lacks.",
)


def repeat_tasks(counted: Counted) -> None:
    """Have two tasks run twice. What their first processes recorded is in the tables, too."""
    for seq in range(3):
        counted.history.publish(at=seq, producer="main-p0", seq=seq, epoch=0, segment=5, offset=2 * seq)
    for row in counted.history.publishes[:-3]:
        if row["producer"] == "main-p0":
            row["epoch"] = 1
    counted.ends["main-p0"] |= {"epoch": 1}
    counted.epochs["load-0"] = [Counted.epoch(3, segments=2), Counted.epoch(6, epoch=1)]
    for row in counted.history.deliveries[2:]:
        row["incarnation"] = 1
    counted.ends[CONSUMER] |= {"epoch": 1, "delivered": 10}
    counted.epochs["consume-0"] = [Counted.epoch(2, segments=1), Counted.epoch(10, epoch=1)]


def test_clients_whose_tasks_were_repeated_are_named_and_accuse_nobody(
    spark: SparkSession, tmp_path: Path, counted: Counted
) -> None:
    repeat_tasks(counted)
    # The second process publishes a message again, and the first one acknowledged a message that its record lacks.
    counted.history.store(producer="main-p0", seq=0, offset=counted.history.next_entry())
    counted.history.forget("deliveries", "main-p1", 0)
    counted.epochs["consume-0"][0]["rows"] = 1
    judgement = counted.evaluate(spark, tmp_path, fail_suites)
    found = Counter(judgement.counts.legal) + Counter(judgement.counts.illegal)
    assert (found[Anomaly.STORED_TWICE], found[Anomaly.UNDELIVERED]) == (1, 1)
    assert judgement.problems == REPEATED
    assert judgement.verdict is judgement.worst is Verdict.UNKNOWN


def test_only_the_last_process_of_a_task_that_was_repeated_is_compared_with_its_own_count(
    tmp_path: Path, counted: Counted
) -> None:
    repeat_tasks(counted)
    assert counted.find_problems(tmp_path) == REPEATED


@pytest.mark.parametrize(
    ("ended", "problems"),
    [
        ({"load-0": {0: "f"}, "consume-0": {0: "g"}}, ()),
        ({"load-0": {0: "f"}}, REPEATED[1:]),
        # The record says that the process ended by itself, or it knows only the second process.
        ({"load-0": {0: None}, "consume-0": {0: "g"}}, REPEATED[:1]),
        ({"load-0": {1: "f"}, "consume-0": {0: "g"}}, REPEATED[:1]),
    ],
)
def test_a_client_that_faults_ended_and_started_again_is_no_repeated_task(
    tmp_path: Path, counted: Counted, ended: dict[str, dict[int, str | None]], problems: tuple[str, ...]
) -> None:
    repeat_tasks(counted)
    for client, faults in ended.items():
        epochs = tuple(ClientEpoch(epoch=number, started_at=0, fault=fault) for number, fault in faults.items())
        rest: dict[str, Any] = {"followed": 0, "state": ClientState.RUNNING, "evidence": "", "over": True, "at": 1}
        counted.lives.append(ClientEpochs(client=client, epochs=epochs, **rest))
    assert counted.find_problems(tmp_path) == problems


def test_a_repeated_task_is_known_from_the_rows_of_its_second_process(tmp_path: Path, counted: Counted) -> None:
    repeat_tasks(counted)
    counted.ends.clear()
    counted.epochs.clear()
    assert counted.find_problems(tmp_path) == REPEATED


def test_a_repeated_task_is_known_from_the_record_of_its_second_process(tmp_path: Path, counted: Counted) -> None:
    # The first process recorded nothing.
    counted.ends[CONSUMER] |= {"epoch": 1}
    for row in counted.history.deliveries:
        row["incarnation"] = 1
    counted.epochs["consume-0"] = [Counted.epoch(0, segments=0), Counted.epoch(12, epoch=1)]
    assert counted.find_problems(tmp_path) == REPEATED[1:]


def test_rows_of_an_earlier_process_that_are_gone_are_named(tmp_path: Path, counted: Counted) -> None:
    repeat_tasks(counted)
    del counted.history.publishes[-1], counted.history.deliveries[3]
    assert counted.find_problems(tmp_path) == (
        REPEATED[0],
        "The numbers of rows of main-p0 differ: its record holds 3, the table publishes holds 2.",
        REPEATED[1],
        "The numbers of rows of audit-c0 (epoch 1) differ: it counted 10, its record holds 10, "
        "the table deliveries holds 9.",
    )


def test_a_process_of_which_no_record_was_read_is_named(tmp_path: Path, counted: Counted) -> None:
    repeat_tasks(counted)
    del counted.epochs["consume-0"][0]
    assert counted.find_problems(tmp_path) == (
        *REPEATED,
        "No record of audit-c0 was read, and the table deliveries holds rows of it: 2.",
    )


def test_a_run_that_was_recorded_without_these_counts_has_no_problem(tmp_path: Path, counted: Counted) -> None:
    # A killed producer left zeros in such a run.
    zeros = {"scheduled": 0, "acked": 0, "failed": 0, "unknown": 0}
    counted.ends = {"main-p0": zeros, "main-p1": zeros, CONSUMER: {"delivered": 0}}
    counted.epochs.clear()
    assert counted.find_problems(tmp_path) == ()


def test_a_count_that_cannot_be_read_is_a_problem(spark: SparkSession, tmp_path: Path, counted: Counted) -> None:
    run = counted.history.write(tmp_path / "run")
    seal_tables(run, *WRITERS)
    counted.write_records(run)
    Path(run.path("state", "client_record_read-load-1.json")).write_text("{")
    judgement = judge_run(spark, run, pass_suites, ["no expectations"])
    (problem,) = judgement.problems
    assert judgement.verdict is Verdict.UNKNOWN
    assert problem.startswith("What main-p1 recorded cannot be compared with the table publishes: ")


def test_a_record_that_cannot_be_read_hides_no_problem_of_another_client(tmp_path: Path, counted: Counted) -> None:
    counted.epochs["load-1"][0]["rows"] = 7
    damaged, other = counted.find_problems(tmp_path, damaged="client_record_read-load-0.json")
    assert damaged.startswith("What main-p0 recorded cannot be compared with the table publishes: ")
    assert other.startswith("The numbers of rows of main-p1 differ: ")


def test_rows_of_a_stranger_are_named_also_if_the_last_client_has_no_record(tmp_path: Path, counted: Counted) -> None:
    counted.history.publish(at=1, producer="main-p7", seq=0)
    del counted.epochs["load-1"], counted.ends["main-p1"]
    assert counted.find_problems(tmp_path) == (
        "The table publishes holds rows of main-p7, which is no client of the scenario: 1.",
    )


def test_a_repeated_task_is_known_from_the_end_of_its_second_process(tmp_path: Path, counted: Counted) -> None:
    counted.ends["main-p0"] |= {"epoch": 1}
    assert counted.find_problems(tmp_path)[0] == REPEATED[0]


def test_an_emptied_table_of_what_is_stored_is_named_and_nothing_is_lost(
    spark: SparkSession, tmp_path: Path, counted: Counted
) -> None:
    counted.history.read_counts[LOG] = len(counted.history.stored)
    counted.history.stored.clear()
    judgement = counted.evaluate(spark, tmp_path, fail_suites)
    assert judgement.counts.illegal["lost"] > 0
    assert judgement.problems == (
        f"The numbers of rows of the log of {TOPIC} in main differ: its reader counted 12, the table stored holds 0.",
    )
    assert judgement.verdict is judgement.worst is Verdict.UNKNOWN


def test_rows_that_are_gone_from_a_log_are_named(tmp_path: Path, counted: Counted) -> None:
    del counted.history.stored[4:7]
    counted.history.read_counts[LOG] = 12
    assert counted.find_problems(tmp_path) == (
        f"The numbers of rows of the log of {TOPIC} in main differ: its reader counted 12, the table stored holds 9.",
    )


def test_a_row_that_no_reader_counted_is_named(tmp_path: Path, counted: Counted) -> None:
    counted.history.read_counts[LOG] = 12
    counted.history.store(producer="main-p0", seq=0, offset=counted.history.next_entry())
    assert counted.find_problems(tmp_path) == (
        f"The numbers of rows of the log of {TOPIC} in main differ: its reader counted 12, the table stored holds 13.",
    )


def test_a_row_that_went_to_another_partition_is_named_at_both(tmp_path: Path, counted: Counted) -> None:
    counted.history.partitions[TOPIC].add(3)
    counted.history.read_counts |= {LOG: 12, ("main", TOPIC, 3): 0}
    counted.history.stored[0]["partition"] = 3
    assert counted.find_problems(tmp_path) == (
        f"The numbers of rows of the log of {TOPIC} in main differ: its reader counted 12, the table stored holds 11.",
        f"The numbers of rows of the log of {TOPIC}-partition-3 in main differ: its reader counted 0, "
        "the table stored holds 1.",
    )


def test_rows_of_a_log_that_nobody_read_are_named(tmp_path: Path, counted: Counted) -> None:
    counted.history.partitions[TOPIC].add(3)
    counted.history.read_counts["main", TOPIC, 3] = None
    counted.history.store(producer="main-p0", seq=0, partition=3, offset=0)
    assert counted.find_problems(tmp_path) == (
        f"No reader counted the log of {TOPIC}-partition-3 in main, and the table stored holds rows of it: 1.",
    )


def test_rows_of_a_log_without_a_record_are_named(tmp_path: Path, counted: Counted) -> None:
    run = counted.history.write(tmp_path / "run")
    stored = [("main", TOPIC, -1, 12), ("elsewhere", TOPIC, -1, 2)]
    assert find_count_problems(run, [summarize(stored=stored)])["stored"] == [
        f"No reader counted the log of {TOPIC} in elsewhere, and the table stored holds rows of it: 2."
    ]


def test_the_rows_of_a_log_in_several_parts_are_added_up(tmp_path: Path, counted: Counted) -> None:
    run = counted.history.write(tmp_path / "run")
    summaries = [summarize(stored=[(*LOG, rows)]) for rows in (5, 7)]
    assert find_count_problems(run, summaries)["stored"] == []


def test_a_position_that_was_read_twice_is_two_rows_of_its_reader(
    spark: SparkSession, tmp_path: Path, counted: Counted
) -> None:
    counted.history.read_counts[LOG] = 13
    counted.history.stored.append(dict(counted.history.stored[5]))
    assert counted.judge(spark, tmp_path) == (Verdict.PASSED, ())


def test_a_log_that_was_read_in_part_or_by_nobody_differs_in_no_number(tmp_path: Path, counted: Counted) -> None:
    counted.history.not_read_to_end(passed=(SEGMENT, 4))
    counted.history.not_read_to_end(partition=3)
    counted.history.partitions[TOPIC].add(3)
    counted.history.read_counts["main", TOPIC, 3] = None
    del counted.history.stored[5:]
    assert counted.find_problems(tmp_path) == ()


@pytest.mark.parametrize("record", [None, LogsRead(started_at=0, finished_at=0, logs=())], ids=["none", "no log"])
def test_a_run_without_a_count_of_its_readers_has_no_difference(
    tmp_path: Path, counted: Counted, record: LogsRead | None
) -> None:
    counted.history.records[LogsRead] = record
    assert counted.find_problems(tmp_path) == ()


def test_a_damaged_record_of_the_readers_claims_no_number(tmp_path: Path, counted: Counted) -> None:
    run = counted.history.write(tmp_path / "run")
    run.write_text("state/logs_read.json", "{")
    # Evidence names the record.
    assert find_count_problems(run, [summarize(stored=[(*LOG, 12)])])["stored"] == []
