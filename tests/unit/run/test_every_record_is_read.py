"""No record is left that nobody reads, and none is read that nobody leaves."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from brokerproof.run import judgement, outcome, records
from brokerproof.run.records import Record
from builders import ROOT

KINDS = sorted(
    (
        kind
        for module in (records, judgement, outcome)
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Record) and kind is not Record
    ),
    key=lambda kind: kind.__name__,
)


def calls(source: str) -> Iterator[tuple[str, list[str]]]:
    """The calls in a program: what is called, and the names among its arguments."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            yield called, [argument.id for argument in node.args if isinstance(argument, ast.Name)]


def find_kinds_read_and_made() -> tuple[set[str], set[str]]:
    """The kinds that the product reads, and those that it makes."""
    read: set[str] = set()
    made: set[str] = set()
    for folder in ("plugins", "spark_jobs"):
        for file in (ROOT / folder).rglob("*.py"):
            for called, names in calls(file.read_text(encoding="utf-8")):
                made.update([called, *(names if called == "parse_record" else [])])
                if called in ("read_record", "_read_proof", "_read_or_none"):
                    read.update(names)
    return read, made


@pytest.fixture(scope="module")
def read_and_made() -> tuple[set[str], set[str]]:
    return find_kinds_read_and_made()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_of_record_is_read_and_left(kind: type[Record], read_and_made: tuple[set[str], set[str]]) -> None:
    read, made = read_and_made
    assert kind.__name__ in read, f"nobody reads {kind.__name__}"
    assert kind.__name__ in made, f"nobody leaves {kind.__name__}"


def test_a_record_that_nobody_reads_is_found() -> None:
    left = list(calls("write_record(run, Provisioned(at=1))\nread_record(run, LoadEnd)"))
    assert ("read_record", ["run", "LoadEnd"]) in left
    assert "Provisioned" in {called for called, _ in left}
    assert not any("Provisioned" in names for called, names in left if called == "read_record")
