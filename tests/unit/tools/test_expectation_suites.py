from __future__ import annotations

from builders import EXPECTATIONS
from expectation_suites import write_suites


def test_the_suites_are_as_the_tables_of_anomalies_and_metrics_make_them() -> None:
    made = write_suites()
    assert {path.name for path in EXPECTATIONS.glob("*.json")} == made.keys()
    for name, text in made.items():
        assert (EXPECTATIONS / name).read_text(encoding="utf-8") == text, f"expectations/{name}: run `make docs`"
