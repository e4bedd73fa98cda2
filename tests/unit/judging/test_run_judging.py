"""How the tables of a verification take the place of those of an earlier one, and what little there may be in them."""

from __future__ import annotations

import subprocess
import sys

import fsspec
import pyarrow.parquet as pq
import pytest
from brokerproof.run.directory import Run
from brokerproof_judging.run_judging import judge_run
from brokerproof_judging.table_io import Replacement
from fsspec.implementations.memory import MemoryFileSystem

from .history import History
from .judged import pass_suites


@pytest.mark.parametrize("place", ["{}", "memory:/{}"])
def test_new_tables_take_the_place_of_old_ones_only_when_all_are_whole(place, tmp_path, monkeypatch):
    rename = MemoryFileSystem.mv

    def rename_object(self, path, target, **options):
        if self.isdir(path):
            # The client of S3 looks for an object of the directory's name.
            raise FileNotFoundError(path)
        rename(self, path, target, **options)

    monkeypatch.setattr(MemoryFileSystem, "mv", rename_object)
    run = Run(place.format(tmp_path))
    filesystem, root = fsspec.url_to_fs(run.path("tables"))
    run.append("anomalies", [{"run_id": "old"}])
    replacement = Replacement(run)

    def read() -> list[str]:
        return pq.read_table(f"{root}/anomalies", filesystem=filesystem)["run_id"].to_pylist()

    replacement.write("anomalies", [{"run_id": "new"}])
    assert read() == ["old"]
    replacement.take_place()
    assert read() == ["new"]
    assert {path.removeprefix(root).split("/")[1] for path in filesystem.find(root)} == {"anomalies"}


@pytest.mark.parametrize(("messages", "verdict"), [(0, "no_data"), (1, "passed")])
def test_a_part_without_any_message_counts_nothing(spark, tmp_path, messages, verdict):
    run = History().clean(producers=1, messages=messages).write(tmp_path / "run")

    judgement = judge_run(spark, run, pass_suites, "no expectations")

    assert judgement.counts.messages == messages
    assert judgement.verdict == verdict


def test_judging_loads_without_great_expectations_which_the_job_imports_in_a_thread_meanwhile():
    modules = "brokerproof_judging.run_judging, brokerproof_judging.suites.evaluation"
    code = f"import sys, {modules}; print('great_expectations' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "False\n"
