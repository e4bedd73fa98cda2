"""Keeps what judging found about the messages of each planted run, for mutants of code that comes after it.

Judging the messages takes two thirds of the time of judging a planted run. Measurements and suites read only its
results, so a mutant of them cannot change it. A run with other rows, records or evidence is judged anew.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from dataclasses import dataclass
from pathlib import Path

from brokerproof.run.directory import Run
from brokerproof.run.judgement import Counts
from brokerproof_judging.evidence import Evidence
from brokerproof_judging.messages.message_judging import MessageJudging
from brokerproof_judging.messages.publish_record import PartSummary
from brokerproof_judging.table_io import Replacement
from mutant_trials import KEPT_MESSAGES
from pyspark.sql import SparkSession

_TABLES = ("messages", "anomalies")


@dataclass(frozen=True, kw_only=True)
class _Kept:
    summaries: list[PartSummary]
    counts: Counts
    # {table: {name of a file: its bytes}}
    files: dict[str, dict[str, bytes]]


class KeptMessages:
    """Judges the messages of a run, or writes the tables that were kept of an equal run."""

    def __init__(self, spark: SparkSession, run: Run, evidence: Evidence, replacement: Replacement) -> None:
        self._directories = {name: Path(replacement.locate_beside(name)) for name in _TABLES}
        self._file = Path(os.environ[KEPT_MESSAGES], _hash_run(run, evidence))
        self._kept: _Kept | None = None
        if self._file.exists():
            self._kept = pickle.loads(self._file.read_bytes())
        else:
            self._judging = MessageJudging(spark, run, evidence, replacement)

    def work_out_facts(self) -> list[PartSummary]:
        if self._kept is None:
            self._summaries = self._judging.work_out_facts()
            return self._summaries
        return self._kept.summaries

    def write_tables(self) -> Counts:
        if self._kept is None:
            counts = self._judging.write_tables()
            files = {
                name: {file.name: file.read_bytes() for file in directory.iterdir()}
                for name, directory in self._directories.items()
            }
            self._keep(_Kept(summaries=self._summaries, counts=counts, files=files))
            return counts
        for name, directory in self._directories.items():
            directory.mkdir(parents=True)
            for file, content in self._kept.files[name].items():
                (directory / file).write_bytes(content)
        return self._kept.counts

    def _keep(self, kept: _Kept) -> None:
        unfinished = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_bytes(pickle.dumps(kept))
        unfinished.rename(self._file)


def _hash_run(run: Run, evidence: Evidence) -> str:
    """Return a hash of everything of a run that judging its messages reads."""
    total = hashlib.sha256(pickle.dumps(evidence))
    total.update(run.facts.model_dump_json(exclude={"created_at"}).encode())
    for folder, has_names in (("state", True), ("tables", False)):
        # The names of a table's files are new each time.
        files = [file for file in Path(run.directory, folder).rglob("*") if file.is_file()]
        contents = ((str(file.name) if has_names else "", hashlib.sha256(file.read_bytes())) for file in files)
        for name, content in sorted((name, content.hexdigest()) for name, content in contents):
            total.update(f"{folder} {name} {content}\n".encode())
    return total.hexdigest()
