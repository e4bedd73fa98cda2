"""Every test that the documentation names as a proof exists."""

from __future__ import annotations

import re

import pytest
from builders import ROOT

ROWS = [
    line
    for line in (ROOT / "docs" / "what-is-proven.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("|") and "`test_" in line
]


@pytest.fixture(scope="module")
def tests() -> set[str]:
    """The names of all tests."""
    files = (file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("test_*.py"))
    return {name for text in files for name in re.findall(r"^ *def (test_\w+)", text, re.MULTILINE)}


def test_the_table_of_what_breaks_is_read() -> None:
    assert len(ROWS) > 20


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip()[:60])
def test_every_row_has_a_test_that_exists(row: str, tests: set[str]) -> None:
    named = re.findall(r"`(test_\w+)`", row)
    assert named
    assert set(named) <= tests
