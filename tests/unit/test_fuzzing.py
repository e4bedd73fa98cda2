"""Mutated files are read or refused, and the harness that tries them says no to a reader that does neither."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import bad_readers
import pytest
from fuzzing import describe, fuzz, start_reading
from readers import FAMILIES, list_every_file
from reading_child import Child, File

SOUND = ("x", b"sound")
# `make fuzz` tries 10,000 of each.
INPUTS = {"yaml": 100, "json": 60, "lines": 150, "segments": 100, "parquet": 60}


@dataclass(frozen=True)
class Reading:
    files: Mapping[str, Sequence[File]]
    child: Child


@pytest.fixture(scope="module")
def reading(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reading]:
    files = list_every_file(tmp_path_factory.mktemp("to-mutate"))
    child = start_reading(files)
    yield Reading(files, child)
    child.close()


@pytest.mark.parametrize("family", FAMILIES)
def test_mutated_files_are_read_or_refused(reading: Reading, family: str) -> None:
    result = fuzz(reading.child, family, reading.files[family], INPUTS[family], first_seed=1)
    assert result.inputs >= INPUTS[family]
    assert not result.findings, describe(result)


@pytest.mark.parametrize(
    ("make_reader", "reason"),
    [
        (bad_readers.crash, "the process ended with status -6"),
        (bad_readers.hang, "no answer"),
        (bad_readers.waste_time, "more than 2 s"),
        (bad_readers.waste_memory, "more than 200 MB"),
        (bad_readers.waste_more_memory_than_allowed, "MemoryError in bad_readers.py"),
        (bad_readers.raise_unexpected, "KeyError in bad_readers.py"),
        (bad_readers.refuse, ""),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_harness_reports_a_reader_that_misbehaves_and_goes_on(make_reader, reason: str) -> None:
    # The others need processor time, which a busy machine gives late.
    child = Child(make_reader, [SOUND], silent_s=3 if make_reader is bad_readers.hang else 60)
    try:
        problem, _, _ = child.try_file(("x", b"mutated"))
        assert problem.startswith(reason)
        assert bool(problem) is bool(reason)
        assert child.try_file(SOUND)[0] == ""
    finally:
        child.close()
