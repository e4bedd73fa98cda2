"""A run's directory from elsewhere: a file that is a bomb, or no file at all, is refused in one sentence."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from brokerproof import bounded_reading
from brokerproof.bounded_reading import ContentError, check_columns, read_footer
from brokerproof.cli import main
from brokerproof.clients.deliveries import ConfirmedAcks
from brokerproof.clients.producing import complete_publishes, plan_producers
from brokerproof.clients.record import RecordReader, RecordWriter, Reservation
from brokerproof.errors import RunError
from brokerproof.results.run_outcome import compose_outcome
from brokerproof.run.directory import Run
from brokerproof.run.fault_course import read_fault_courses
from brokerproof.run.records import FaultsUndone, StepSeconds, read_record, write_record
from brokerproof.run.seals import check_seals, seal_tables
from brokerproof.run.table_rows import check_files, iterate_rows
from brokerproof.run.tables import SCHEMAS, make_batch
from brokerproof.runtimes.restarts import RestartEvent, RestartRecord, RestartStep
from brokerproof_judging.run_judging import judge_run
from builders import SCENARIOS, make_run
from planted_runs import plant_run

SCHEMA = SCHEMAS["faults"]
AT = 1_767_225_600_000_000


def write_table(columns: dict[str, pa.Array], **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, **options)
    return file.getvalue()


def nest(depth: int) -> pa.Array:
    nested: Any = pa.array(["x"])
    for _ in range(depth):
        nested = pa.StructArray.from_arrays([nested], ["x"])
    return nested


def check(content: bytes) -> None:
    file = io.BytesIO(content)
    check_columns(read_footer(file), SCHEMA)


def test_a_table_of_many_rows_that_takes_room_in_its_file_is_read() -> None:
    numbers = pa.array(range(200_000))
    assert read_footer(io.BytesIO(write_table({"seq": numbers}, row_group_size=50_000))).num_rows == 200_000
    check(write_table({"run_id": pa.array(["r"] * 90_000)}))


BOMBS: dict[str, tuple[Callable[[], bytes], str]] = {
    "rows without room": (lambda: write_table({"seq": pa.array([0] * 3_000_000)}), "states 3,000,000 rows in"),
    "columns": (lambda: write_table({f"c{n}": pa.array([1]) for n in range(101)}), "states 101 columns"),
    "another type": (lambda: write_table({"at": pa.array(["x"])}), "its column at has the type string instead of"),
    "levels": (lambda: write_table({"fault": nest(50)}), "its column fault has the type struct"),
    "a number for a text": (lambda: write_table({"fault": pa.array([1])}), "its column fault has the type int64"),
    "no footer": (lambda: write_table({"fault": pa.array(["x"])})[:-9], "is no Parquet file"),
    "a footer that is longer than the file": (
        lambda: write_table({"fault": pa.array(["x"])})[:-8] + (2**31).to_bytes(4, "little") + b"PAR1",
        "is no Parquet file",
    ),
    "a footer of other bytes": (
        lambda: b"PAR1" + b"\xff" * 400 + (400).to_bytes(4, "little") + b"PAR1",
        "its footer cannot be read",
    ),
    "nothing": (lambda: b"", "is no Parquet file"),
}


@pytest.mark.parametrize(("make", "problem"), BOMBS.values(), ids=BOMBS)
def test_a_parquet_bomb_is_refused_by_its_footer(make: Callable[[], bytes], problem: str) -> None:
    with pytest.raises(ContentError, match=problem):
        check(make())


@pytest.mark.parametrize(
    ("limit", "most", "problem"),
    [
        ("MOST_ROW_GROUPS", 3, "states 4 row groups, and at most 3"),
        ("MOST_ROW_GROUP_BYTES", 10, "states a row group of 1 rows"),
        ("MOST_FOOTER_BYTES", 10, "has a footer of"),
    ],
)
def test_row_groups_and_footers_have_limits(
    monkeypatch: pytest.MonkeyPatch, limit: str, most: int, problem: str
) -> None:
    content = write_table({"fault": pa.array(["x"] * 4)}, row_group_size=1)
    check(content)
    monkeypatch.setattr(bounded_reading, limit, most)
    with pytest.raises(ContentError, match=problem):
        check(content)


def plant_file(run: Run, table: str, content: bytes) -> Path:
    file = Path(run.table(table)) / "part-0.parquet"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


def test_a_text_that_many_rows_share_is_refused_before_each_row_gets_a_copy(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r")
    shared = pa.DictionaryArray.from_arrays(pa.array([0] * 50_000, pa.int32()), pa.array(["x" * 1_000_000]))
    file = plant_file(run, "faults", write_table({"evidence": shared}, store_schema=False))
    assert file.stat().st_size < 100_000
    with pytest.raises(RunError, match="its column evidence has a text of more than 65,536 bytes"):
        list(iterate_rows(run, "faults"))


def test_a_time_that_no_datetime_can_have_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r")
    plant_file(run, "faults", write_table({"at": pa.array([2**62]).cast(SCHEMA.field("at").type)}))
    with pytest.raises(RunError, match="its column at has a time before the year 1 or after 9999"):
        list(iterate_rows(run, "faults"))


def make_something_else(path: Path, kind: str) -> None:
    if kind == "a named pipe":
        os.mkfifo(path)
    elif kind == "a device":
        path.symlink_to("/dev/zero")
    elif kind == "a directory":
        path.mkdir()
    else:
        path.symlink_to(path)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["a named pipe", "a device", "a link to itself"])
def test_something_else_than_a_file_in_a_table_is_refused(tmp_path: Path, kind: str) -> None:
    run = make_run(tmp_path / "r", sealed=True)
    write_record(run, FaultsUndone(undone=True, problems=(), at=AT))
    plant_file(run, "faults", write_table({"fault": pa.array(["x"])}))
    seal_tables(run, "faults")
    make_something_else(Path(run.table("faults"), "part-1.parquet"), kind)
    for read in (
        lambda: run.list_files("faults"),
        lambda: check_files(run, ["faults"]),
        lambda: list(iterate_rows(run, "faults")),
    ):
        with pytest.raises(RunError, match=r"faults/part-1\.parquet cannot be read"):
            read()
    assert "part-1.parquet cannot be read" in check_seals(run, ["faults"]).problems[0]


def test_judging_ends_before_spark_sees_a_bomb(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r")
    plant_file(run, "publishes", write_table({"seq": pa.array([0] * 3_000_000)}))
    with pytest.raises(RunError, match=r"part-0\.parquet of the table publishes .* states 3,000,000 rows"):
        judge_run(None, run, lambda *_: {}, [])


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", ["a named pipe", "a device", "a directory", "a link to itself"])
@pytest.mark.parametrize(
    "arguments", [["report", "RUN"], ["explain", "RUN", "p0", "1"], ["watch", "RUN"]], ids=lambda each: each[0]
)
def test_a_command_says_in_one_sentence_that_a_run_holds_no_file(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    kind: str,
    arguments: list[str],
) -> None:
    monkeypatch.setenv("BROKERPROOF_VAR", str(tmp_path / "var"))
    run = tmp_path / "r"
    run.mkdir()
    make_something_else(run / "run.json", kind)
    assert main([str(run) if each == "RUN" else each for each in arguments]) in (2, 3)
    (sentence,) = capsys.readouterr().err.strip().splitlines()
    assert "Traceback" not in sentence


RECORDS = {
    "levels": ("[" * 100_000, "nested too deep"),
    "no object": ("[1]", "it holds no object"),
    "half a file": ('{"version": 1, "step', "not valid JSON"),
    "a name twice": ('{"version": 1, "undone": false, "undone": true}', "has `undone` twice"),
    "no number": (
        '{"version": 1, "step": "load", "started_at": NaN, "finished_at": 1}',
        "`started_at` input should be",
    ),
    "a time of another age": (
        json.dumps({"version": 1, "step": "load", "started_at": 10**30, "finished_at": 1}),
        "`started_at` input should be less than",
    ),
}


@pytest.mark.parametrize(("text", "problem"), RECORDS.values(), ids=RECORDS)
def test_a_record_that_is_a_bomb_is_damaged(tmp_path: Path, text: str, problem: str) -> None:
    run = make_run(tmp_path / "r")
    run.write_text("state/step_seconds-load.json", text)
    with pytest.raises(RunError, match=problem):
        read_record(run, StepSeconds, "load")


def plant_segments(run: Run, **changes: Any) -> RecordReader:
    task = plan_producers(run)[0]
    numbers = dict.fromkeys(("partition", "segment", "offset", "epoch", "payload_hash"), 0)
    times = dict.fromkeys(("scheduled_at", "sent_at", "settled_at"), AT)
    row = dict.fromkeys(SCHEMAS["publishes"].names) | numbers | times | {"seq": 0} | changes
    writer = RecordWriter(run, task.client, table="publishes", epoch=0)
    writer.append(make_batch("publishes", [row], {"run_id": "r"}), [ConfirmedAcks(cluster="c", at=AT)])
    writer.reserve(Reservation(until=3, start_at=AT / 1e6))
    return RecordReader(run, task.client, epoch=0)


def recover(run: Run, reader: RecordReader) -> int:
    task = plan_producers(run)[0]
    batches = complete_publishes(run, task, reader, reader.read_rest(), lambda: False)
    return sum(batch.num_rows for batch in batches)


def test_a_record_of_a_client_is_read(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r")
    assert recover(run, plant_segments(run)) == 3


@pytest.mark.parametrize("seq", [2**62, -1, None])
def test_a_message_that_a_producer_cannot_have_sent_is_refused(tmp_path: Path, seq: int | None) -> None:
    run = make_run(tmp_path / "r")
    with pytest.raises(RunError, match="names a message that it cannot have sent"):
        recover(run, plant_segments(run, seq=seq))


def test_a_message_of_a_load_that_went_on_for_a_fault_is_read(tmp_path: Path) -> None:
    one = {"name": "one", "kind": "stop", "targets": {"nodes": ["broker-eu-1"]}, "heal_after_s": 0}
    when = {"healthy": "one", "for_s": 1, "within_s": 3000}
    faults = [one, {**one, "name": "two", "targets": {"nodes": ["broker-eu-2"]}, "when": when}]
    run = make_run(tmp_path / "r", "sync_nominal", {"faults": faults})
    seq = int(plan_producers(run)[0].rate * (run.scenario.longest_load_s + run.scenario.settle_s))
    assert recover(run, plant_segments(run, seq=seq)) > 0


def test_a_reservation_of_more_messages_than_a_producer_can_send_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r")
    reader = plant_segments(run)
    file = Path(run.path("clients", plan_producers(run)[0].client, "0-reserved.json"))
    file.write_text(file.read_text().replace("3", str(10**15), 1))
    with pytest.raises(RunError, match=r"the reservation of .* is damaged"):
        recover(run, reader)


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_compressed_segment_is_refused_before_it_is_decompressed(tmp_path: Path, compression: str) -> None:
    run = make_run(tmp_path / "r")
    reader = plant_segments(run)
    file = Path(run.path("clients", plan_producers(run)[0].client, "0-000000.arrow"))
    with pa.ipc.open_file(file) as segment:
        table = segment.read_all()
    with pa.ipc.new_file(file, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    with pytest.raises(RunError, match="its rows are compressed"):
        recover(run, reader)


def test_a_damaged_record_of_a_service_manager_is_named(tmp_path: Path) -> None:
    record = RestartRecord(tmp_path / "restarts.jsonl")
    event = RestartEvent(node="broker", step=RestartStep.ENDED, at=AT, times=1)
    record.add(event)
    assert record.read() == [event]
    for line in ("[" * 100_000, '{"node": "x"}', "null"):
        (tmp_path / "restarts.jsonl").write_text(f"{line}\n")
        with pytest.raises(RunError, match=r"restarts\.jsonl is damaged"):
            record.read()


def test_a_segment_with_more_answers_about_acks_than_a_cluster_gives_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r")
    task = plan_producers(run)[0]
    rows = [dict.fromkeys(SCHEMAS["publishes"].names) | {"seq": 0}] * 10_000
    answers = [ConfirmedAcks(cluster="c", at=AT)] * 10_000
    RecordWriter(run, task.client, table="publishes", epoch=0).append(make_batch("publishes", rows, {}), answers)
    with pytest.raises(RunError, match="it has 10,000 answers about acks"):
        recover(run, RecordReader(run, task.client, epoch=0))


def test_a_row_without_a_value_that_it_must_have_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r")
    run.append("copies", [{"at": AT, "moment": "end"}, {"at": None, "moment": "end"}])
    assert len(list(iterate_rows(run, "copies"))) == 2
    with pytest.raises(RunError, match="its column at is empty in a row"):
        list(iterate_rows(run, "copies", filled=("at", "moment")))


def test_more_states_of_faults_than_a_timeline_has_are_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r")
    run.append("faults", [{"fault": "x", "kind": "kill", "state": "effective", "at": AT}] * 10_001)
    with pytest.raises(RunError, match="Only 10,000 rows of the table faults are read"):
        read_fault_courses(run)


def test_a_judgement_of_unknown_metrics_and_a_fault_of_an_unknown_kind_make_the_outcome_unknown(tmp_path: Path) -> None:
    run = plant_run(tmp_path / "r", SCENARIOS / "sync_datacenter_loss.yaml", at=datetime(2026, 1, 1, tzinfo=UTC))
    assert compose_outcome(run).verdict == "passed"
    facts = Path(run.path("run.json"))
    facts.write_text(facts.read_text().replace('"kind": "destroy"', '"kind": "dance"'))
    assert compose_outcome(Run(run.directory)).verdict == "passed"
    judgement = Path(run.path("state/judgement.json"))
    judgement.write_text(judgement.read_text().replace('"metric": "rto_s"', '"metric": "rto"'))
    outcome = compose_outcome(Run(run.directory))
    assert outcome.verdict == "unknown"
    assert "names metrics that this Brokerproof has not: rto" in outcome.why
