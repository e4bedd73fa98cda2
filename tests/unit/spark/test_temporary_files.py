"""The temporary files of a Spark job are removed with it or, after a killed job, with the next one."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from brokerproof.spark.submission import remove_abandoned_directories, temporary_directory

ENDS_BY_FORCE = """
import os, signal, sys
from pathlib import Path
from brokerproof.spark.submission import temporary_directory
with temporary_directory(Path(sys.argv[1])) as directory:
    (directory / "spill").write_text("much")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def left_over(tmp_path: Path) -> Path:
    """A file that a killed process left."""
    status = subprocess.run([sys.executable, "-c", ENDS_BY_FORCE, str(tmp_path)], check=False).returncode
    assert status == -signal.SIGKILL
    (spill,) = tmp_path.glob("*/spill")
    return spill


def test_a_directory_is_removed_at_the_end_of_the_block(tmp_path: Path) -> None:
    with temporary_directory(tmp_path) as directory:
        assert directory.stat().st_mode & 0o077 == 0
        (directory / "spill").write_text("much")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_is_removed_after_a_failure(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="broken"), temporary_directory(tmp_path):
        raise ValueError("broken")
    assert list(tmp_path.iterdir()) == []


def test_the_next_job_removes_the_directory_of_a_killed_job(tmp_path: Path, left_over: Path) -> None:
    with temporary_directory(tmp_path) as directory:
        assert list(tmp_path.iterdir()) == [directory]
    assert not left_over.exists()


def test_a_job_that_ends_leaves_another_one_of_the_same_process_its_files(tmp_path: Path) -> None:
    with temporary_directory(tmp_path) as directory:
        (directory / "spill").write_text("much")
        with temporary_directory(tmp_path) as other:
            assert other != directory
        assert (directory / "spill").exists()


def test_a_directory_in_use_is_not_removed(tmp_path: Path, left_over: Path) -> None:
    with temporary_directory(tmp_path) as directory:
        remove_abandoned_directories(tmp_path)
        assert directory.is_dir()


def test_a_directory_of_an_earlier_process_with_the_same_pid_is_removed(tmp_path: Path) -> None:
    with temporary_directory(tmp_path) as directory:
        earlier = tmp_path / f"{directory.name.partition('-')[0]}-1.00-0"
        earlier.mkdir()
        remove_abandoned_directories(tmp_path)
        assert list(tmp_path.iterdir()) == [directory]


@pytest.mark.parametrize("name", ["spark-2f6e", "12", "12-x", "12-x-1", "blockmgr-1.5"])
def test_what_somebody_else_made_there_is_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    remove_abandoned_directories(tmp_path)
    assert (tmp_path / name).is_dir()


def test_a_missing_parent_directory_is_no_error(tmp_path: Path) -> None:
    remove_abandoned_directories(tmp_path / "missing")
    assert list(tmp_path.iterdir()) == []
