"""The suites that judge a run: the five, and the files of users, found without being read."""

from __future__ import annotations

from pathlib import Path

import pytest
from brokerproof.directories import Directories
from brokerproof.errors import InputError
from brokerproof.experiment.guarantees import Suite
from brokerproof.suites.suite_names import find_suites, list_suites


def test_each_other_file_is_one_more_suite(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text("broken")
    assert list_suites(Directories((tmp_path,))) == [*Suite, "mine"]
    assert find_suites([str(tmp_path)]) == [*Suite, "mine"]


def test_a_name_that_no_task_can_have_is_left_out_of_the_tasks_and_refused_where_files_are_judged(
    tmp_path: Path,
) -> None:
    (tmp_path / "verify.json").touch()
    assert list_suites(Directories((tmp_path,))) == list(Suite)
    with pytest.raises(InputError, match="a suite cannot be called `verify`, as a task is"):
        find_suites([str(tmp_path)])


def test_a_directory_that_is_gone_does_not_look_like_one_without_suites(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="gone"):
        find_suites([str(tmp_path / "gone")])
