from __future__ import annotations

import re

import pytest
from brokerproof.experiment.guarantees import Anomaly
from brokerproof.experiment.metrics import METRICS
from brokerproof.experiment.scenario import Scenario
from brokerproof.faults.registry import FAULT_KINDS
from brokerproof.run.judgement import TOTALS
from brokerproof.run.records import Record
from brokerproof.run.tables import COLUMNS, ROWS, SCHEMAS, AttemptOutcome, FaultState
from brokerproof.suites.query_rules import FUNCTIONS
from builders import ROOT
from reference_pages import RECORDS, write_pages


def test_the_reference_pages_are_as_the_code_makes_them() -> None:
    for name, text in write_pages().items():
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == text, f"docs/{name}: run `make docs`"


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("anomalies.md", list(Anomaly)),
        ("faults.md", list(FAULT_KINDS)),
        ("measurements.md", list(METRICS)),
        ("sql-functions.md", sorted(FUNCTIONS)),
        ("topologies.md", [file.stem for file in (ROOT / "topologies").glob("*.yaml")]),
        ("scenario-reference.md", list(Scenario.model_fields)),
    ],
)
def test_a_page_names_every_kind_of_thing(page: str, names: list[str]) -> None:
    assert names
    found = set(re.findall(r"(?:`|^## )(\w+)(?:`|$)", write_pages()[page], re.MULTILINE))
    assert [name for name in names if name not in found] == []


def test_the_page_of_topologies_shows_each_as_it_is_after_extends() -> None:
    page = write_pages()["topologies.md"].partition("## sync_active_passive_managed\n")[2].partition("\n## ")[0]
    assert "| extends | [sync_active_passive](#sync_active_passive) |" in page
    assert "| namespaces | `mytenant/eu`, `mytenant/us` |" in page
    assert "| used by | " in page
    assert "| mycluster | bookie-eu-1 | bookie | eu | rack-1 | restarts after 10 s |" in page
    assert "mytenant/eu:\n        isolation: {primary: eu, secondary: us, " in page


def test_each_column_of_each_table_has_a_meaning() -> None:
    assert {table: [column.name for column in columns] for table, columns in COLUMNS.items()} == {
        table: schema.names for table, schema in SCHEMAS.items()
    }
    assert ROWS.keys() == SCHEMAS.keys()
    without = [(table, one.name) for table, columns in COLUMNS.items() for one in columns if len(one.meaning) < 8]
    assert without == []
    # A time says whose it is, and an enum which values it has.
    page = write_pages()["tables.md"]
    assert re.search(r"\| `published_at` \|[^|]+\| when the producer's client published .*wall clock", page)
    assert all(f"`{outcome}`" in page for outcome in AttemptOutcome)
    assert all(f"`{state}`" in page for state in FaultState)


def test_the_page_of_records_has_every_kind() -> None:
    kinds = {kind for kind in Record.__subclasses__() if kind.__module__.startswith("brokerproof.")}
    assert set(RECORDS) == kinds
    page = write_pages()["records.md"]
    assert re.search(r"\| `step_problem-STEP\.json` \| [^|]+ \| `step`, `problem` \|", page)
    assert TOTALS
    assert [name for name in TOTALS if f"| `{name}` | integer | " not in page] == []
