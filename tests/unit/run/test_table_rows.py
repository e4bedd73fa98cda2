"""The rows of a table are selected from its files, and an error names the damaged file."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import fsspec
import pyarrow.parquet as pq
import pytest
from brokerproof.errors import RunError
from brokerproof.run.directory import Run
from brokerproof.run.table_rows import collect_rows, count_rows, iterate_rows, query_files

AT = 1_767_227_467_000_123
CHANGES = [
    {"fault": "killed", "targets": ["bookie-eu-1"], "state": "injecting", "at": AT},
    {"fault": "killed", "targets": [], "state": "recovered", "at": AT + 1},
    {"fault": "it's", "targets": None, "state": "injecting", "at": None},
]


def plant(directory: str) -> Run:
    run = Run(directory)
    for row in CHANGES:
        run.append("faults", [row])
    return run


@pytest.fixture(params=["{tmp_path}/run", "{tmp_path}/runs [1]*/r?n", "memory://bucket/a run"])
def run(request: pytest.FixtureRequest, tmp_path: Path):
    """A run with three files, whose location may have characters that mean something in a pattern of names."""
    yield plant(request.param.format(tmp_path=tmp_path))
    memory = fsspec.filesystem("memory")
    if memory.exists("/bucket"):
        memory.rm("/bucket", recursive=True)


def test_all_rows_are_read_with_times_in_microseconds(run: Run) -> None:
    rows = list(iterate_rows(run, "faults", ("fault", "targets", "state", "at")))
    assert rows == CHANGES
    assert count_rows(run, "faults") == 3


def test_rows_are_selected_by_bound_values(run: Run) -> None:
    (row,) = iterate_rows(run, "faults", where="fault = $fault", values={"fault": "it's"})
    assert (row["fault"], row["kind"]) == ("it's", None)


def test_a_query_is_made_for_each_file(run: Run) -> None:
    found = query_files(run, "faults", 'SELECT min(state) AS state FROM recorded WHERE "at" IS NOT NULL')
    assert [row["state"] for row in found] == ["injecting", "recovered", None]


def test_look_ups_that_overlap_do_not_disturb_each_other(run: Run) -> None:
    pairs = zip(*(iterate_rows(run, "faults", ("fault", "targets", "state", "at")) for _ in range(2)), strict=True)
    assert list(pairs) == [(row, row) for row in CHANGES]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda _: count_rows(run, "faults"), range(40))) == [3] * 40


def test_a_forked_process_has_a_database_of_its_own(run: Run) -> None:
    assert count_rows(run, "faults") == 3
    child = get_context("fork").Process(target=lambda: sys.exit(count_rows(run, "faults")))
    child.start()
    child.join(timeout=60)
    assert child.exitcode == 3


def test_a_table_that_does_not_exist_has_no_rows(run: Run) -> None:
    assert (list(iterate_rows(run, "copies")), count_rows(run, "copies")) == ([], 0)


def test_rows_beyond_the_limit_are_a_problem(run: Run) -> None:
    problems: list[str] = []
    assert len(collect_rows(run, "faults", problems, most_rows=3)) == 3
    assert problems == []
    assert len(collect_rows(run, "faults", problems, most_rows=2)) == 2
    assert problems == ["Only 2 rows of the table faults are read, and there are more."]


def test_unfinished_files_are_not_read(tmp_path: Path) -> None:
    run = plant(str(tmp_path / "run"))
    for name in (".part-0.parquet", "_temporary"):
        (tmp_path / "run/tables/faults" / name).write_text("unfinished")
    assert count_rows(run, "faults") == 3


def test_a_column_that_a_file_lacks_is_null_unless_it_selects(tmp_path: Path) -> None:
    run = plant(str(tmp_path / "run"))
    file = sorted((tmp_path / "run/tables/faults").iterdir())[0]
    pq.write_table(pq.read_table(file).drop_columns(["at", "targets", "fault"]), file)

    assert next(iterate_rows(run, "faults", ("state", "at", "targets"))) == {
        "state": "injecting",
        "at": None,
        "targets": None,
    }
    with pytest.raises(RunError, match='"fault" not found'):
        list(iterate_rows(run, "faults", where="fault = 'killed'"))


@pytest.mark.parametrize("content", [b"", b"no Parquet", b"PAR1" + b"\xff" * 100 + b"PAR1"])
def test_a_damaged_file_is_named_and_the_others_can_be_read(tmp_path: Path, content: bytes) -> None:
    run = plant(str(tmp_path / "run"))
    file = sorted((tmp_path / "run/tables/faults").iterdir())[1]
    file.write_bytes(content)

    with pytest.raises(RunError, match=f"^The file {file.name} of the table faults cannot be read: "):
        list(iterate_rows(run, "faults"))
    problems: list[str] = []
    assert len(collect_rows(run, "faults", problems)) == 2
    (problem,) = problems
    assert problem.startswith(f"The file {file.name} of the table faults cannot be read: ")
