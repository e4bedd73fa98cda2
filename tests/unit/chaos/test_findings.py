"""Everything that chaos looks for is found where it is planted."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from brokerproof.clock import wait_until
from brokerproof.run.tables import SCHEMAS
from findings import (
    Truth,
    find_damage_of_database,
    find_damaged_files,
    find_lost_records,
    find_lost_run,
    find_remaining_processes,
    find_temporary_files,
    find_unfinished_files,
    find_wrong_verdict,
)
from kept_evidence import EvidenceKeeper
from victims import Kill, Killer, adopt_orphans, choose_kills, list_candidates

CORRECT, LOSING = Truth(anomalies=frozenset()), Truth(anomalies=frozenset({"lost"}))


@pytest.fixture
def adopting() -> Iterator[None]:
    adopt_orphans()
    yield
    adopt_orphans(adopt=False)


def write_table(run: Path, table: str, *rows: dict[str, Any]) -> None:
    file = run / "tables" / table / "part-0.parquet"
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows), schema=SCHEMAS[table]), file)


def publish(seq: int, outcome: str = "acked") -> dict[str, Any]:
    return {"producer": "p0", "epoch": 0, "seq": seq, "outcome": outcome}


def outcome(verdict: str, *, acked: int = 2, why: str = "for a reason", **illegal: int) -> dict[str, Any]:
    return {"verdict": verdict, "why": why, "counts": {"acked": acked, "illegal": illegal}}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of which two messages were acknowledged and stored."""
    directory = tmp_path / "runs" / "r"
    write_table(directory, "publishes", publish(0), publish(1), publish(2, "unknown"))
    write_table(directory, "stored", *({"producer": "p0", "seq": seq} for seq in (0, 1)))
    (directory / "state").mkdir()
    for table in ("publishes", "deliveries", "stored", "faults", "copies", "observations"):
        (directory / "state" / f"table_seal-{table}.json").write_text("{}")
    return directory


@pytest.mark.parametrize(
    ("result", "truth"),
    [
        (outcome("passed"), CORRECT),
        (outcome("unknown"), CORRECT),
        (outcome("unknown"), LOSING),
        (outcome("failed", lost=1), LOSING),
    ],
)
def test_a_right_verdict_is_none(run: Path, result: dict[str, Any], truth: Truth) -> None:
    assert list(find_wrong_verdict(result, run, truth)) == []


@pytest.mark.parametrize(
    ("result", "truth", "found"),
    [
        (outcome("failed", lost=1), CORRECT, "lost, which the servers do not do"),
        (outcome("failed"), CORRECT, "failed, where only passed or unknown can be right"),
        (outcome("passed"), LOSING, "passed, where only failed or unknown can be right"),
        (outcome("failed", stored_twice=1), LOSING, "stored_twice, which the servers do not do"),
        (outcome("no_data"), CORRECT, "no_data, where only"),
        (outcome("unknown", why=" "), CORRECT, "unknown without a reason"),
        (outcome("unknown", why="Traceback (most recent call last)"), CORRECT, "the reason is a traceback"),
        (outcome("passed", acked=3), CORRECT, "passed with 3 acknowledged messages, and 2 were acknowledged"),
    ],
)
def test_a_wrong_verdict_is_found(run: Path, result: dict[str, Any], truth: Truth, found: str) -> None:
    assert any(found in sentence for sentence in find_wrong_verdict(result, run, truth))


def test_a_passed_run_of_which_a_message_is_not_stored_is_found(run: Path) -> None:
    write_table(run, "stored", {"producer": "p0", "seq": 0})
    assert list(find_wrong_verdict(outcome("passed"), run, CORRECT)) == [
        "passed, and 1 acknowledged messages are not stored"
    ]


def test_a_passed_run_without_samples_is_found(run: Path) -> None:
    (run / "state" / "table_seal-observations.json").unlink()
    assert list(find_wrong_verdict(outcome("passed"), run, CORRECT)) == [
        "passed, and nothing says that these tables are whole: observations"
    ]


def test_no_data_is_right_where_nothing_was_acknowledged(run: Path) -> None:
    write_table(run, "publishes", publish(0, "unknown"))
    assert list(find_wrong_verdict(outcome("no_data", acked=0), run, CORRECT)) == []


def test_a_run_that_the_history_lacks_or_has_otherwise_is_found(run: Path) -> None:
    assert list(find_lost_run(run, [{"run_id": "r", "verdict": "passed"}], outcome("passed"))) == []
    assert list(find_lost_run(run, [], outcome("passed"))) == ["the history has it 0 times"]
    assert list(find_lost_run(run, [{"run_id": "r", "verdict": "failed"}], outcome("unknown"))) == [
        "the history says failed and its directory unknown"
    ]


def record(run: Path, name: str, *rows: dict[str, Any]) -> None:
    """What a client leaves in its record."""
    file = run / "clients" / "load-0" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    batch = pa.RecordBatch.from_pylist(list(rows), schema=SCHEMAS["publishes"])
    with pa.ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch)


def test_recorded_rows_that_no_table_has_are_found_though_their_record_is_gone(run: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    keeper = EvidenceKeeper(run.parent, kept)
    try:
        record(run, "0-000000.arrow", publish(0), publish(1))
        record(run, "0-000001.arrow", publish(3))
        wait_until(lambda: len(list(kept.rglob("*.arrow"))) == 2, timeout_s=10, what="the records to be kept")
    finally:
        keeper.close()
    lost, left = find_lost_records(run, kept / "r")
    assert lost == "1 of 3 recorded rows are not in publishes, such as ('p0', 0, 3, 'acked')"
    assert left == "records of clients are left: load-0"


def test_files_that_are_not_whole_are_found(run: Path, tmp_path: Path) -> None:
    (run / "state" / ".part-0.parquet.crc").touch()
    assert find_unfinished_files(run) == []
    for name in (".outcome.json.12-34", "_temporary", ".part-0.parquet"):
        (run / "state" / name).touch()
    assert len(find_unfinished_files(run)) == 3
    (run / "state" / "outcome.json").write_text('{"verdict": ')
    assert [sentence.split(":")[0] for sentence in find_damaged_files(run)] == ["state/outcome.json is damaged"]
    (tmp_path / "tmp" / "spark-1").mkdir(parents=True)
    assert find_temporary_files(tmp_path / "tmp") == ["a temporary file is left: spark-1"]


def test_a_damaged_database_is_found(tmp_path: Path) -> None:
    file = tmp_path / "history.db"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE a (b TEXT)")
        connection.executemany("INSERT INTO a VALUES (?)", [("x" * 500,) for _ in range(200)])
    connection.close()
    assert list(find_damage_of_database(file)) == []
    content = bytearray(file.read_bytes())
    content[8192:12288] = b"\x01" * 4096
    file.write_bytes(content)
    assert list(find_damage_of_database(file))


@pytest.mark.usefixtures("adopting")
def test_a_process_that_stays_is_found_though_its_parent_has_ended() -> None:
    subprocess.run(
        [sys.executable, "-c", "import subprocess; subprocess.Popen(['sleep', '31.4159'], start_new_session=True)"],
        check=True,
    )
    try:
        assert "a process is left: sleep 31.4159" in find_remaining_processes()
    finally:
        (left,) = (one.process for one in list_candidates() if one.command == "sleep 31.4159")
        left.kill()
    wait_until(
        lambda: not any("31.4159" in sentence for sentence in find_remaining_processes()),
        timeout_s=10,
        what="the process to be reaped",
    )


@pytest.mark.usefixtures("adopting")
def test_a_part_is_killed_when_it_is_due_and_one_that_is_not_there_is_waited_for() -> None:
    killer = Killer([Kill(part="scheduler", at_s=0.0, later_s=0.0)], random.Random(0))
    try:
        stand_in = subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(60)", "airflow scheduler --skip-serve-logs"]
        )
        assert stand_in.wait(20) == -9
    finally:
        killer.stop()
    assert [done.partition(" at ")[0] for done in killer.done] == ["scheduler"]


def test_a_seed_chooses_the_same_kills_again_and_another_one_others() -> None:
    def choose(seed: int) -> list[Kill]:
        return choose_kills(random.Random(seed), parts=("client", "monitor", "task"), seconds=40)

    assert choose(1) == choose(1)
    assert any(choose(1) != choose(seed) for seed in range(2, 5))


def test_every_scenario_of_chaos_has_its_truth() -> None:
    from chaos_campaign import SCENARIOS, STAGES, TRUTHS

    files = {file.stem for file in SCENARIOS.rglob("*.yaml")}
    assert files == set(TRUTHS) == {name for stage in STAGES.values() for name in stage.scenarios}
