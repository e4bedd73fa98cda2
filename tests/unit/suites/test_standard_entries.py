"""Standard expectations in a suite's file: what is taken, and what is refused before anything starts."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from brokerproof.errors import InputError
from brokerproof.run.tables import SCHEMAS
from brokerproof.suites import keyword_schemas
from brokerproof.suites.standard_expectations import CLOSED_KEYWORDS, STANDARD_EXPECTATIONS, UNUSABLE_EXPECTATIONS
from brokerproof.suites.suite_file import SuiteFile, read_suite
from builders import ROOT


def make_entry(kind: str, table: str = "stored", **kwargs: Any) -> dict[str, Any]:
    """An entry as a user writes it."""
    return {"type": kind, "kwargs": kwargs, "description": "It holds.", "meta": {"table": table}}


BETWEEN = make_entry("expect_column_values_to_be_between", column="seq", min_value=0)


def read(directory: Path, *entries: Any, name: str = "mine") -> SuiteFile:
    """Write a suite and read it."""
    (directory / f"{name}.json").write_text(json.dumps({"name": name, "expectations": list(entries)}))
    return read_suite([str(directory)], name)


def refuse(directory: Path, *entries: Any) -> InputError:
    """The sentence that refuses a suite."""
    with pytest.raises(InputError) as refused:
        read(directory, *entries)
    assert refused.value.file == f"{directory}/mine.json"
    assert refused.value.remedy
    return refused.value


def test_a_users_suite_holds_what_it_asks_and_nothing_else(tmp_path: Path) -> None:
    lost = {"type": "expect_no_illegal_anomaly", "kwargs": {"anomaly": "lost"}, "description": "None is lost."}
    file = read(tmp_path, BETWEEN, lost, make_entry("expect_table_row_count_to_be_between", "publishes", min_value=1))
    assert [written.name for written in file.expectations] == [
        "expect_column_values_to_be_between on stored.seq",
        "lost",
        "expect_table_row_count_to_be_between on publishes",
    ]
    assert [written.table for written in file.expectations] == ["stored", "", "publishes"]
    assert [part.title for part in (file.on_messages, *file.on_tables)] == ["mine", "mine.stored", "mine.publishes"]


def test_a_json_schema_may_refer_to_its_own_parts(tmp_path: Path) -> None:
    schema = {"properties": {"$ref": {"$ref": "#/definitions/id"}}, "definitions": {"id": {"type": "integer"}}}
    kind = "expect_column_values_to_match_json_schema"
    (written,) = read(tmp_path, make_entry(kind, column="key", json_schema=schema)).expectations
    assert written.kwargs["json_schema"] == schema


def test_two_of_a_kind_have_different_names(tmp_path: Path) -> None:
    other = make_entry("expect_column_values_to_be_between", column="seq", max_value=9)
    first, second = read(tmp_path, BETWEEN, other).expectations
    assert second.name == f"{first.name} #2"


def test_null_is_as_good_as_no_keyword(tmp_path: Path) -> None:
    entry = make_entry("expect_column_values_to_be_between", column="seq", min_value=0, max_value=None)
    assert read(tmp_path, entry).expectations[0].kwargs == {"column": "seq", "min_value": 0}


def test_what_the_library_itself_writes_into_a_file_is_taken(tmp_path: Path) -> None:
    assert read(tmp_path, BETWEEN | {"id": "5f0b", "severity": "critical", "notes": "mine"}).expectations


def test_the_guide_names_every_keyword_and_kind_that_is_refused() -> None:
    guide = (ROOT / "docs" / "write-a-suite.md").read_text(encoding="utf-8")
    assert CLOSED_KEYWORDS
    assert [keyword for keyword in CLOSED_KEYWORDS if f"`{keyword}`" not in guide] == []
    reasons = {reason for reason, _ in UNUSABLE_EXPECTATIONS.values()}
    assert len(reasons) == 6


@pytest.mark.parametrize("keyword", CLOSED_KEYWORDS)
def test_a_keyword_that_can_turn_a_no_into_a_yes_is_refused(tmp_path: Path, keyword: str) -> None:
    entry = make_entry("expect_column_values_to_be_between", column="seq", min_value=0, **{keyword: 1})
    refused = refuse(tmp_path, entry)
    assert refused.field == f"expectations.0.kwargs.{keyword}"
    assert f"`{keyword}`" in refused.problem


@pytest.mark.parametrize("kind", UNUSABLE_EXPECTATIONS)
def test_an_expectation_that_cannot_say_no_on_spark_is_refused_with_the_reason(tmp_path: Path, kind: str) -> None:
    refused = refuse(tmp_path, make_entry(kind, column="seq"))
    assert refused.field == "expectations.0.type"
    assert refused.problem == f"`{kind}` cannot be used: {UNUSABLE_EXPECTATIONS[kind][0]}"


SET = "expect_column_values_to_be_in_set"
SQL = "unexpected_rows_expectation"


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        (
            make_entry("expect_column_values_to_be_betwen", column="seq"),
            "type: no kind of expectation is called `expect_column_values_to_be_betwen` "
            "(did you mean `expect_column_values_to_be_between`?)",
        ),
        (make_entry("UnexpectedRowsExpectation"), "(did you mean `unexpected_rows_expectation`?)"),
        (BETWEEN | {"meta": {}}, "meta.table: does not say which table it is about (one of: anomalies, deliveries, "),
        (BETWEEN | {"meta": "stored"}, "meta.table: does not say which table it is about"),
        (BETWEEN | {"meta": {"table": "store"}}, "meta.table: no table is called `store` (did you mean `stored`?)"),
        (BETWEEN | {"meta": {"table": ["stored"]}}, "meta.table: no table is called"),
        (BETWEEN | {"description": " "}, "description: is missing (say what must hold)"),
        (BETWEEN | {"severity": "info"}, "severity: is `info`, and every expectation counts in full"),
        (BETWEEN | {"kwarg": {}}, "kwarg: unknown field `kwarg` (did you mean `kwargs`?)"),
        (BETWEEN | {"kwargs": []}, "kwargs: is no mapping"),
        (make_entry(BETWEEN["type"], min_value=0), "kwargs: does not say its `column` (add it)"),
        (
            make_entry(BETWEEN["type"], column="sequ", min_value=0),
            "kwargs.column: `stored` has no column `sequ` (did you mean `seq`?)",
        ),
        (make_entry(BETWEEN["type"], column=["seq"], min_value=0), "kwargs.column: `stored` has no column"),
        (make_entry(BETWEEN["type"], column="seq"), "kwargs: has no bound, so it always holds"),
        (
            make_entry(BETWEEN["type"], column="seq", min_value=True),
            "kwargs.min_value: is no number and no text: `true`",
        ),
        (
            make_entry(BETWEEN["type"], column="seq", min_value={"$PARAMETER": "low"}),
            "kwargs.min_value: is no number and no text",
        ),
        (make_entry(BETWEEN["type"], column="seq", min_value=float("nan")), "kwargs.min_value: is no number"),
        (make_entry(BETWEEN["type"], column="seq", minimum=0), "kwargs.minimum: unknown field `minimum`"),
        (make_entry("expect_column_mean_to_be_between", column="seq", min_value="0"), 'is no number: `"0"`'),
        (
            make_entry("expect_column_sum_to_be_between", column="seq", max_value=10**400),
            "max_value: is no number: `1000",
        ),
        (
            make_entry("expect_column_values_to_match_regex_list", column="key", regex_list=["a", " "]),
            'regex_list: holds `" "`, which is no text',
        ),
        (make_entry("expect_column_values_to_be_in_type_list", column="key"), "kwargs: does not say its `type_list`"),
        (make_entry("expect_table_columns_to_match_set"), "kwargs: does not say its `column_set`"),
        (
            make_entry("expect_table_columns_to_match_set", column_set=["seq"], exact_match="no"),
            'exact_match: is not true or false: `"no"`',
        ),
        (make_entry("expect_table_row_count_to_equal"), "kwargs: does not say its `value`"),
        (make_entry("expect_table_row_count_to_equal", value=-1), "is no whole number from 0 on: `-1`"),
        (make_entry(SET, column="key"), "kwargs: does not say its `value_set`"),
        (make_entry(SET, column="key", value_set=[]), "value_set: is no list with a value in it"),
        (
            make_entry(SET, column="key", value_set=["a", None]),
            "value_set: holds `null`, which is no text, number or boolean",
        ),
        (make_entry(SET, column="key", value_set=["a", "a"]), "value_set: holds a value twice"),
        (make_entry("expect_column_values_to_match_regex", column="key"), "does not say its `regex`"),
        (make_entry("expect_column_values_to_match_regex", column="key", regex=""), 'regex: is no text: `""`'),
        (make_entry("expect_column_values_to_match_regex_list", column="key", regex_list=[]), "no list with a value"),
        (
            make_entry("expect_compound_columns_to_be_unique", column_list=["seq"]),
            "column_list: does not name two columns or more, each once",
        ),
        (
            make_entry("expect_multicolumn_values_to_be_equal", column_list=["seq", "seq"]),
            "column_list: does not name two columns or more, each once",
        ),
        (
            make_entry(
                "expect_column_pair_values_to_be_equal", column_A="key", column_B="producer", ignore_row_if="never"
            ),
            'ignore_row_if: is not `both_values_are_missing` or `either_value_is_missing` or `neither`: `"never"`',
        ),
        (
            make_entry(
                "expect_column_pair_values_to_be_in_set", column_A="key", column_B="producer", value_pairs_set=[["a"]]
            ),
            'value_pairs_set: holds `["a"]`, which is no pair of texts, numbers or booleans',
        ),
        (make_entry(SQL), "kwargs: does not say its `unexpected_rows_query`"),
        (make_entry(SQL, unexpected_rows_query=" "), 'unexpected_rows_query: is no text: `" "`'),
        (make_entry(SQL, unexpected_rows_query="SELECT 1 WHERE false"), "does not ask the table"),
        (make_entry(SQL, unexpected_rows_query="SELECT * FROM {table}"), "has the placeholder `{table}`"),
        (make_entry(SQL, unexpected_rows_query="SELECT * FROM {batch"), "has a brace that is no `{batch}`"),
        (
            make_entry("expect_column_values_to_match_json_schema", column="key", json_schema={}),
            "json_schema: is no mapping with a key in it",
        ),
        (
            make_entry(
                "expect_column_values_to_match_json_schema",
                column="key",
                json_schema={"properties": {"a": {"anyOf": [{"$ref": "file:///etc/passwd"}]}}},
            ),
            'json_schema: refers to another document, `"file:///etc/passwd"`; a reference begins with `#`',
        ),
    ],
)
def test_a_mistake_is_one_sentence_with_its_field(tmp_path: Path, entry: Any, sentence: str) -> None:
    assert sentence in str(refuse(tmp_path, entry))


PAIR = "expect_column_pair_values_a_to_be_greater_than_b"


@pytest.mark.parametrize(
    ("entry", "keyword", "meant"),
    [
        (make_entry(PAIR, column_a="seq", column_B="offset"), "column_a", "column_A"),
        (make_entry(PAIR, column_A="seq", column_b="offset"), "column_b", "column_B"),
        (make_entry(PAIR, columnA="seq", column_B="offset"), "columnA", "column_A"),
        (make_entry("expect_column_values_to_not_be_null", column_a="seq"), "column_a", "column"),
        (make_entry("expect_column_values_to_not_be_null", Columns="seq"), "Columns", "column"),
        (make_entry(BETWEEN["type"], column="seq", min_val=0), "min_val", "min_value"),
    ],
)
def test_a_misspelt_keyword_is_one_mistake_and_answered_with_the_right_one(
    tmp_path: Path, entry: Any, keyword: str, meant: str
) -> None:
    (mistake,) = refuse(tmp_path, entry).mistakes
    assert mistake.field == f"expectations.0.kwargs.{keyword}"
    assert mistake.remedy == f"did you mean `{meant}`?"


@pytest.mark.parametrize(
    ("table", "column", "remedy"),
    [
        ("deliveries", "recieved_at", "did you mean `received_at`?"),
        ("stored", "Producer", "did you mean `producer`?"),
        ("publishes", "received_at", "did you mean"),
        ("measurements", "column_a", "one of: at_least, at_most"),
    ],
)
def test_a_column_that_a_table_lacks_is_answered_with_columns_of_that_table(
    tmp_path: Path, table: str, column: str, remedy: str
) -> None:
    (mistake,) = refuse(tmp_path, make_entry(BETWEEN["type"], table, column=column, min_value=0)).mistakes
    assert remedy in mistake.remedy
    named = re.search(r"`(\w+)`", mistake.remedy)
    names = [named[1]] if named else mistake.remedy.removeprefix("one of: ").split(", ")
    assert set(names) <= set(SCHEMAS[table].names)


def test_all_mistakes_of_a_suite_are_named(tmp_path: Path) -> None:
    mistakes = refuse(
        tmp_path,
        make_entry(PAIR, "publishes", column_A="sent", column_b="settled_at", or_equal="no"),
        BETWEEN,
        make_entry("expect_column_values_to_be_nul", column="key"),
        {"type": "expect_measurement_within_bounds", "kwargs": {"metric": "rto", "maximum": "5"}},
        {"kwargs": {}, "descripton": "It holds."},
        {"type": BETWEEN["type"], "kwargs": {"column": "seq"}, "meta": {"table": "message"}},
    ).mistakes
    assert [mistake.field.removeprefix("expectations.") for mistake in mistakes] == [
        *("0.kwargs.column_b", "0.kwargs.column_A", "0.kwargs.or_equal"),
        "2.type",
        *("3.description", "3.kwargs.maximum"),
        "4.type",
        *("5.description", "5.meta.table", "5.kwargs"),
    ]
    assert [str(mistake) for mistake in mistakes if "None" in str(mistake) or not mistake.remedy] == []


def test_the_same_is_not_asked_twice(tmp_path: Path) -> None:
    assert refuse(tmp_path, BETWEEN, BETWEEN).problem.endswith("is written twice")


def test_an_own_kind_in_a_users_suite_is_as_strict_as_in_the_shipped_one(tmp_path: Path) -> None:
    loose = {
        "type": "expect_measurement_within_bounds",
        "kwargs": {"metric": "segments_not_spanning", "maximum": 5, "required": True},
        "description": "Some may.",
    }
    assert "allows more than the bound of `segments_not_spanning`" in refuse(tmp_path, loose).problem


def test_a_standard_expectation_does_not_stand_for_one_of_the_five_suites(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no expectation is about `stored_out_of_order`"):
        read(tmp_path, BETWEEN, name="ordering")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("verify", "a suite cannot be called `verify`, as a task is (rename the file)"),
        ("record", "a suite cannot be called `record`, as a task is"),
        ("My-suite", "`My-suite` is no name of a suite (rename the file: small letters"),
    ],
)
def test_a_name_that_no_task_can_have_is_refused(tmp_path: Path, name: str, problem: str) -> None:
    with pytest.raises(InputError) as refused:
        read(tmp_path, BETWEEN, name=name)
    assert problem in str(refused.value)


def test_every_kind_can_be_broken_or_counts_what_breaks_it() -> None:
    """A kind without a demand of its own asks for something by its name alone."""
    without = {name for name, kind in STANDARD_EXPECTATIONS.items() if not kind.required and not kind.any_of}
    assert without == {
        "expect_column_values_to_not_be_null",
        "expect_column_values_to_be_null",
        "expect_column_values_to_be_unique",
        "expect_column_values_to_be_json_parseable",
        "expect_column_pair_values_to_be_equal",
        "expect_column_pair_values_a_to_be_greater_than_b",
        "expect_compound_columns_to_be_unique",
        "expect_select_column_values_to_be_unique_within_record",
        "expect_multicolumn_values_to_be_equal",
        "expect_column_to_exist",
    }


def test_a_library_that_is_not_installed_is_named_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyword_schemas, "find_spec", lambda name: None)
    keyword_schemas._read_schema.cache_clear()
    assert "Great Expectations is not installed" in refuse(tmp_path, BETWEEN).problem


def test_neither_the_library_nor_jsonschema_is_imported_to_check_a_suite(tmp_path: Path) -> None:
    read(tmp_path, BETWEEN)
    program = (
        "import sys; from brokerproof.suites.suite_file import read_suite; "
        f"assert read_suite([{str(tmp_path)!r}], 'mine').expectations; "
        "assert not {'great_expectations', 'jsonschema'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT / "plugins")
