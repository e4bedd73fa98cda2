"""A run from elsewhere that has a script in every text that it may have, and what must not become of it in a page."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from brokerproof.errors import BrokerproofError
from brokerproof.reports.pages import Page
from brokerproof.reports.run_page import render_run_page
from brokerproof.reports.run_report import read_run_report
from brokerproof.results.history_rows import make_history_rows
from brokerproof.run.directory import Run
from brokerproof.run.judgement import Judgement
from brokerproof.run.records import Record, StepProblem, name_file, read_record, write_record
from brokerproof.run.series import OwnerChange, RunSeries
from brokerproof.run.tables import SCHEMAS

# It ends an attribute, a script and a style sheet, and then does something that a test can see.
HOSTILE = (
    "\"'></script></style></title><img src=x onerror=\"document.title='run'\">"
    "<script>document.title='run'</script><a href=\"javascript:document.title='run'\" onclick=x>a</a>$x$ %{x}"
)
PLANTED = ("img", "iframe", "object", "base", "form")


def make_hostile(run: Run) -> int:
    """Add the hostile text to every text of a run's facts, judgement and series that may have it, and to its tables.

    Return the number of the texts.
    """
    write_record(run, StepProblem(step="verify", problem=HOSTILE))
    series = read_record(run, RunSeries)
    assert series is not None
    owners = [OwnerChange(topic=f"t{number}", at=series.start + number, owner="b1") for number in range(2)]
    write_record(run, series.model_copy(update={"owners": tuple(owners)}))
    planted = _poison(run, "run.json")
    planted += _poison(run, f"state/{name_file(Judgement)}", Judgement)
    planted += _poison(run, f"state/{name_file(RunSeries)}", RunSeries)
    for table, schema in SCHEMAS.items():
        texts = {field.name: HOSTILE for field in schema if pa.types.is_string(field.type)}
        fixed = {"anomaly": "lost", "suite": "recovery", "metric": "rto_s", "outcome": "acked", "state": "effective"}
        number = {"seq": 3, "at": 1_700_000_000_000_000, "legal": False}
        known = {name: value for name, value in (fixed | number).items() if name in schema.names}
        run.append(table, [texts | known | ({"run_id": run.run_id} if "run_id" in schema.names else {})])
        planted += len(texts)
    vars(run).pop("facts", None)
    return planted


def _poison(run: Run, name: str, kind: type[Record] | None = None) -> int:
    """Add the hostile text to each text of a JSON file with which the run can still be reported and recorded."""
    file = Path(run.path(name))

    def poison(paths: list[tuple[Any, ...]]) -> int:
        before = file.read_text()
        content = json.loads(before)
        for path in paths:
            place = content
            for step in path[:-1]:
                place = place[step]
            place[path[-1]] += HOSTILE
        file.write_text(json.dumps(content))
        try:
            here = Run(run.directory)
            if kind is not None:
                read_record(here, kind)
            report = read_run_report(here)
            render_run_page(report, Page(draws=False))
            make_history_rows(here, samples=1)
            if report.judgement is not None and report.series is not None:
                return len(paths)
        except (BrokerproofError, KeyError):
            pass
        file.write_text(before)
        half = len(paths) // 2
        return poison(paths[:half]) + poison(paths[half:]) if half else 0

    return poison(list(_list_texts(json.loads(file.read_text()))))


def _list_texts(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in items:
        if isinstance(value, str):
            yield (*path, key)
        yield from _list_texts(value, (*path, key))


def list_planted(page: str) -> list[str]:
    """Return what an HTML parser finds of the hostile text that is not text: elements, attributes, scripts, links."""
    parser = _Parser()
    parser.feed(page)
    parser.close()
    return parser.found


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._script: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in PLANTED and ("action", "compare") not in attrs and tag != "form":
            self.found.append(tag)
        for name, value in attrs:
            if name.startswith("on") or (value or "").strip().lower().startswith("javascript:"):
                self.found.append(f"{tag} {name}")
        self._script = dict(attrs).get("type") or "script" if tag == "script" else None

    def handle_endtag(self, tag: str) -> None:
        self._script = None

    def handle_data(self, data: str) -> None:
        if self._script == "application/json":
            # Plotly takes the texts of a figure for HTML.
            self.found += [f"chart {text}" for text in _list_strings(json.loads(data)) if "<img" in text]
        elif self._script is not None and "document.title='run'" in data:
            self.found.append("script")


def _list_strings(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    for value in content.values() if isinstance(content, dict) else content if isinstance(content, list) else ():
        yield from _list_strings(value)


def build_hostile_data_docs(site: Path) -> list[Path]:
    """Build Great Expectations' pages about rows and a suite with the hostile text everywhere. Return the pages."""
    import pandas as pd
    from brokerproof_judging.suites.data_docs import ValidationPage, make_offline
    from brokerproof_judging.suites.library import GreatExpectations

    # A page's path has the names of suite and run, and no name of a file has a slash.
    name = HOSTILE.replace("/", "")
    column = {"column": HOSTILE}
    notes = {"notes": {"format": "markdown", "content": [HOSTILE, f"[{HOSTILE}](javascript:document.title='run')"]}}
    entries: list[dict[str, Any]] = [
        {"type": "expect_column_values_to_be_in_set", "kwargs": column | {"value_set": [HOSTILE, "a"]}},
        {"type": "expect_column_values_to_match_regex", "kwargs": column | {"regex": HOSTILE}, "meta": notes},
        {"type": "expect_column_distinct_values_to_be_in_set", "kwargs": column | {"value_set": [HOSTILE]}},
        {"type": "expect_table_columns_to_match_set", "kwargs": {"column_set": [HOSTILE, "b"]}},
        {"type": "expect_column_values_to_match_json_schema", "kwargs": column | {"json_schema": {HOSTILE: HOSTILE}}},
        # The library's error has the name of the column.
        {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": f"no {HOSTILE}"}},
    ]
    described = [entry | {"description": f"{number} {HOSTILE}"} for number, entry in enumerate(entries)]
    # PySpark takes a main module without a file, as pytest-xdist's processes have it, for its own doctests, and exits.
    vars(sys.modules["__main__"]).setdefault("__file__", __file__)
    library = GreatExpectations(str(site), name)
    content = {"name": name, "meta": notes, "expectations": [*entries, *described]}
    rows = pd.DataFrame({HOSTILE: [f"cell {HOSTILE}", f"other {HOSTILE}"], f"b{HOSTILE}": [HOSTILE] * 2})
    # Not a SuiteFile, whose columns and names are those of Brokerproof's tables.
    library.validate(SimpleNamespace(title=name, content=content), rows)  # type: ignore[arg-type]
    library.build_data_docs()
    pages = sorted(site.rglob("*.html"))
    make_offline(site, HOSTILE, [ValidationPage(suite=name, success=False, path=str(pages[-1].relative_to(site)))])
    return pages
