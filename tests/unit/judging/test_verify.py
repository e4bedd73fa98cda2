"""The entry point: what it leaves of a run that cannot be judged, and of a directory that is no run."""

from __future__ import annotations

import verify
from brokerproof.run.judgement import JudgingFailure
from brokerproof.run.records import read_record

from .history import History


def test_what_cannot_be_judged_is_unknown_with_the_reason(spark, tmp_path):
    run = History().clean().write(tmp_path / "run")
    (tmp_path / "run/tables/stored/part-0.parquet").write_bytes(b"no Parquet")

    assert verify.main([str(tmp_path / "run")]) == 1

    failure = read_record(run, JudgingFailure)
    assert failure.verdict == "unknown"
    assert failure.why.startswith("The run could not be judged: ")
    assert list((tmp_path / "run/tables").glob(".*")) == []


def test_a_directory_without_a_run_is_left_alone(tmp_path):
    assert verify.main([str(tmp_path / "mistyped")]) == 1

    assert not (tmp_path / "mistyped").exists()
