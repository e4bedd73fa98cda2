"""What must not be found after a run whose instrument was killed at: remains, lost records, wrong verdicts."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kept_evidence import find_lost_rows, read_table
from victims import list_candidates

# How files are called until they are whole: of this project, of Spark, and of pyarrow's writer in a job of Spark.
# Hadoop keeps a checksum beside each file, under a name that begins with a dot too.
_UNFINISHED = re.compile(r"^\..*\.\d+-\d+$|^_temporary$|^\.part-.*(?<!\.crc)$|\.inprogress$")
# Everything that a verdict rests on.
_TABLES = ("publishes", "deliveries", "stored", "faults", "copies", "observations")


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What a scenario's system does to messages: the only anomalies of which a verdict may speak.

    A system without any is correct: a run of it is never `failed`. One with some is known to do them: its runs are
    never `passed`.
    """

    anomalies: frozenset[str]

    @property
    def allowed(self) -> frozenset[str]:
        """The verdicts that are not wrong."""
        return frozenset({"failed", "unknown"} if self.anomalies else {"passed", "unknown"})


def find_remaining_processes() -> list[str]:
    """The descendants of this process that live on."""
    return [f"a process is left: {one.mark or one.command[:100]}" for one in list_candidates()]


def find_unfinished_files(*directories: Path) -> list[str]:
    """Files below the directories that were not written to their end."""
    return [
        f"a half-written file is left: {file.relative_to(directory)}"
        for directory in directories
        for file in sorted(directory.rglob("*"))
        if _UNFINISHED.search(file.name) and "spark-warehouse" not in file.parts
    ]


def find_temporary_files(directory: Path) -> list[str]:
    """Everything in the directory for temporary files."""
    return [f"a temporary file is left: {each.name}" for each in sorted(directory.iterdir())]


def find_damaged_files(run_directory: Path) -> Iterator[str]:
    """JSON files of a run that are no JSON."""
    for file in sorted(run_directory.rglob("*.json")):
        try:
            json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            yield f"{file.relative_to(run_directory)} is damaged: {error}"


def find_damage_of_database(file: Path) -> Iterator[str]:
    """What SQLite says of a database that is not whole."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        try:
            sentences = [sentence for (sentence,) in connection.execute("PRAGMA integrity_check")]
        except sqlite3.DatabaseError as error:
            sentences = [str(error)]
    yield from (f"{file.name} is damaged: {sentence}" for sentence in sentences if sentence != "ok")


def find_wrong_verdict(result: Mapping[str, Any], run_directory: Path, truth: Truth) -> Iterator[str]:
    """What is wrong in the outcome of a run, by what is known of its system and by its own tables."""
    verdict, counts = result["verdict"], result["counts"]
    acked = {
        row[:2] for row in read_table(run_directory, "publishes", ("producer", "seq", "outcome")) if row[2] == "acked"
    }
    if verdict == "no_data" and not acked:
        return
    if verdict not in truth.allowed:
        yield f"{verdict}, where only {' or '.join(sorted(truth.allowed))} can be right: {result['why']}"
    illegal = {name for name, count in (counts["illegal"] or {}).items() if count}
    if wrong := illegal - truth.anomalies:
        yield f"{', '.join(sorted(wrong))}, which the servers do not do: {result['why']}"
    if verdict == "passed":
        unsealed = [table for table in _TABLES if not (run_directory / "state" / f"table_seal-{table}.json").exists()]
        if unsealed:
            yield f"passed, and nothing says that these tables are whole: {', '.join(unsealed)}"
        stored = set(read_table(run_directory, "stored", ("producer", "seq")))
        if missing := acked - stored:
            yield f"passed, and {len(missing)} acknowledged messages are not stored"
        if len(acked) != counts["acked"]:
            yield f"passed with {counts['acked']} acknowledged messages, and {len(acked)} were acknowledged"
    elif not str(result["why"]).strip():
        yield f"{verdict} without a reason"
    if "Traceback" in str(result["why"]):
        yield f"the reason is a traceback: {result['why']}"


def find_lost_run(
    run_directory: Path, recorded: Sequence[Mapping[str, Any]], result: Mapping[str, Any]
) -> Iterator[str]:
    """Where the history does not have a run once, with the verdict of its directory."""
    verdicts = [one["verdict"] for one in recorded if one["run_id"] == run_directory.name]
    if len(verdicts) != 1:
        yield f"the history has it {len(verdicts)} times"
    elif verdicts[0] != result["verdict"]:
        yield f"the history says {verdicts[0]} and its directory {result['verdict']}"


def find_lost_records(run_directory: Path, kept: Path) -> Iterator[str]:
    """Rows that clients recorded and no table has, and records that were not made a table."""
    yield from find_lost_rows(run_directory, kept)
    if left := sorted(each.name for each in (run_directory / "clients").glob("*")):
        yield f"records of clients are left: {', '.join(left)}"
