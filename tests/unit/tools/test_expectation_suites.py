from __future__ import annotations

from pathlib import Path

from expectation_suites import write_suites

EXPECTATIONS = Path(__file__).parents[3] / "expectations"


def test_the_suites_are_as_the_tables_of_anomalies_and_metrics_make_them() -> None:
    made = write_suites()
    assert {path.name for path in EXPECTATIONS.glob("*.json")} == made.keys()
    for name, text in made.items():
        assert (EXPECTATIONS / name).read_text(encoding="utf-8") == text, f"expectations/{name}: run `make docs`"
