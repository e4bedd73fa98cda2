from __future__ import annotations

from pathlib import Path

from brokerproof.run.counts import TOTALS
from brokerproof.run.records import Record
from reference_pages import RECORDS, write_pages


def test_the_reference_pages_are_as_the_code_makes_them() -> None:
    docs = Path(__file__).parents[3] / "docs"
    for name, text in write_pages().items():
        assert (docs / name).read_text(encoding="utf-8") == text, f"docs/{name}: run `make docs`"


def test_a_page_names_every_kind_of_thing() -> None:
    made = write_pages()
    assert "`lost`" in made["anomalies.md"]
    assert "`destroy`" in made["faults.md"]
    assert "`rto_s`" in made["measurements.md"]
    assert "[Workload](#workload)" in made["scenario-reference.md"]


def test_the_page_of_records_has_every_kind() -> None:
    kinds = {kind for kind in Record.__subclasses__() if kind.__module__.startswith("brokerproof.")}
    assert set(RECORDS) == kinds
    page = write_pages()["records.md"]
    assert "| `step_problem-STEP.json` | Why a step could not do its work. | `step`, `problem` |" in page
    assert all(f"| `{name}` | integer | " in page for name in TOTALS)
