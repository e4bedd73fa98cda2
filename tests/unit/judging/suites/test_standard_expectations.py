"""Standard expectations of Great Expectations on a run's tables, and each way in which they say yes to nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from brokerproof.experiment.guarantees import Anomaly, Suite
from brokerproof.run.directory import TimeAxis
from brokerproof.run.records import WallClockNote, WallClockStep
from brokerproof.suites.standard_expectations import (
    CLOSED_KEYWORDS,
    STANDARD_EXPECTATIONS,
    UNUSABLE_EXPECTATIONS,
    Scope,
)
from brokerproof.suites.suite_file import SuiteFile
from brokerproof_judging.suites.library import Frame, GreatExpectations, Validation
from pyspark.sql import SparkSession

from .conftest import PROJECT, RUN_ID, Judge, Planted, rewrite

NOT_NULL = "expect_column_values_to_not_be_null"
BETWEEN = "expect_column_values_to_be_between"
SQL = "unexpected_rows_expectation"


def store(seq: int, **columns: Any) -> dict[str, Any]:
    """A row of `stored`."""
    row = {"run_id": RUN_ID, "cluster": "mycluster", "topic": "orders", "partition": -1, "producer": "producer-1"}
    return {**row, "seq": seq, "key": f"key-{seq % 3}", "segment": 7, "offset": seq, "published_at": seq, **columns}


@pytest.fixture
def stored(planted: Planted) -> list[dict[str, Any]]:
    """The rows of `stored`, to be changed by a test: fifty that are sound."""
    planted.recorded["stored"] = [store(seq) for seq in range(50)]
    return planted.recorded["stored"]


def entry(kind: str, table: str = "stored", **kwargs: Any) -> dict[str, Any]:
    """A standard expectation as a user writes it."""
    return {"type": kind, "kwargs": kwargs, "description": "It holds.", "meta": {"table": table}}


Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def ask(planted: Planted, judge: Judge, tmp_path: Path) -> Ask:
    """Judges the planted run by a user's suite with these expectations."""

    def ask(*entries: dict[str, Any], **options: Any) -> dict[str, Any]:
        directory = tmp_path / "mine"
        directory.mkdir()
        (directory / "mine.json").write_text(json.dumps({"name": "mine", "expectations": entries}))
        judgement: dict[str, Any] = judge(planted, directory, only="mine", **options)["mine"]
        return judgement

    return ask


# Of each kind one that holds on the fifty sound rows, and one that does not. The two of a kind differ in little.
HELD_AND_BROKEN: Mapping[str, tuple[dict[str, Any], dict[str, Any]]] = {
    SQL: (
        {"unexpected_rows_query": "SELECT * FROM {batch} WHERE seq > 49"},
        {"unexpected_rows_query": "SELECT * FROM {batch} WHERE seq > 48"},
    ),
    NOT_NULL: ({"column": "seq"}, {"column": "replicated_from"}),
    "expect_column_values_to_be_null": ({"column": "replicated_from"}, {"column": "seq"}),
    BETWEEN: ({"column": "seq", "max_value": 49}, {"column": "seq", "max_value": 48}),
    "expect_column_value_lengths_to_be_between": ({"column": "key", "max_value": 5}, {"column": "key", "max_value": 4}),
    "expect_column_value_lengths_to_equal": ({"column": "key", "value": 5}, {"column": "key", "value": 4}),
    "expect_column_values_to_be_in_set": (
        {"column": "key", "value_set": ["key-0", "key-1", "key-2"]},
        {"column": "key", "value_set": ["key-0", "key-1"]},
    ),
    "expect_column_values_to_not_be_in_set": (
        {"column": "key", "value_set": ["key-3"]},
        {"column": "key", "value_set": ["key-2"]},
    ),
    "expect_column_values_to_be_unique": ({"column": "offset"}, {"column": "key"}),
    "expect_column_values_to_match_regex": (
        {"column": "key", "regex": "^key-[0-2]$"},
        {"column": "key", "regex": "^key-[01]$"},
    ),
    "expect_column_values_to_not_match_regex": (
        {"column": "key", "regex": "^key-3$"},
        {"column": "key", "regex": "^key-2$"},
    ),
    "expect_column_values_to_match_regex_list": (
        {"column": "key", "regex_list": ["0", "1", "2"]},
        {"column": "key", "regex_list": ["0", "1"]},
    ),
    "expect_column_values_to_not_match_regex_list": (
        {"column": "key", "regex_list": ["3", "4"]},
        {"column": "key", "regex_list": ["3", "2"]},
    ),
    "expect_column_values_to_match_strftime_format": (
        {"column": "key", "strftime_format": "key-%w"},
        {"column": "key", "strftime_format": "%w"},
    ),
    "expect_column_values_to_be_json_parseable": ({"column": "topic"}, {"column": "key"}),
    "expect_column_values_to_match_json_schema": (
        {"column": "topic", "json_schema": {"type": "string"}},
        {"column": "topic", "json_schema": {"type": "number"}},
    ),
    "expect_column_max_to_be_between": ({"column": "seq", "max_value": 49}, {"column": "seq", "max_value": 48}),
    "expect_column_min_to_be_between": ({"column": "seq", "min_value": 0}, {"column": "seq", "min_value": 1}),
    "expect_column_mean_to_be_between": ({"column": "seq", "max_value": 24.5}, {"column": "seq", "max_value": 24.4}),
    "expect_column_stdev_to_be_between": ({"column": "seq", "max_value": 15}, {"column": "seq", "max_value": 14}),
    "expect_column_sum_to_be_between": ({"column": "seq", "max_value": 1225}, {"column": "seq", "max_value": 1224}),
    "expect_column_unique_value_count_to_be_between": (
        {"column": "key", "max_value": 3},
        {"column": "key", "max_value": 2},
    ),
    "expect_column_proportion_of_unique_values_to_be_between": (
        {"column": "seq", "min_value": 1},
        {"column": "key", "min_value": 1},
    ),
    "expect_column_proportion_of_non_null_values_to_be_between": (
        {"column": "seq", "min_value": 1},
        {"column": "replicated_from", "min_value": 1},
    ),
    "expect_column_distinct_values_to_be_in_set": (
        {"column": "key", "value_set": ["key-0", "key-1", "key-2", "key-3"]},
        {"column": "key", "value_set": ["key-0", "key-1"]},
    ),
    "expect_column_distinct_values_to_contain_set": (
        {"column": "key", "value_set": ["key-0"]},
        {"column": "key", "value_set": ["key-3"]},
    ),
    "expect_column_distinct_values_to_equal_set": (
        {"column": "key", "value_set": ["key-0", "key-1", "key-2"]},
        {"column": "key", "value_set": ["key-0", "key-1", "key-3"]},
    ),
    "expect_column_pair_values_to_be_equal": (
        {"column_A": "seq", "column_B": "offset"},
        {"column_A": "seq", "column_B": "segment"},
    ),
    "expect_column_pair_values_a_to_be_greater_than_b": (
        {"column_A": "seq", "column_B": "offset", "or_equal": True},
        {"column_A": "seq", "column_B": "offset"},
    ),
    "expect_column_pair_values_to_be_in_set": (
        {"column_A": "segment", "column_B": "partition", "value_pairs_set": [[7, -1]]},
        {"column_A": "segment", "column_B": "partition", "value_pairs_set": [[7, 0]]},
    ),
    "expect_compound_columns_to_be_unique": ({"column_list": ["key", "seq"]}, {"column_list": ["key", "topic"]}),
    "expect_select_column_values_to_be_unique_within_record": (
        {"column_list": ["key", "topic"]},
        {"column_list": ["seq", "offset"]},
    ),
    "expect_multicolumn_values_to_be_equal": (
        {"column_list": ["seq", "offset"]},
        {"column_list": ["seq", "offset", "segment"]},
    ),
    "expect_multicolumn_sum_to_equal": (
        {"column_list": ["segment", "partition"], "sum_total": 6},
        {"column_list": ["segment", "partition"], "sum_total": 7},
    ),
    "expect_table_row_count_to_equal": ({"value": 50}, {"value": 49}),
    "expect_table_row_count_to_be_between": ({"max_value": 50}, {"max_value": 49}),
    "expect_table_column_count_to_equal": ({"value": 13}, {"value": 12}),
    "expect_table_column_count_to_be_between": ({"max_value": 13}, {"max_value": 12}),
    "expect_table_columns_to_match_ordered_list": (
        {
            "column_list": [
                *("run_id", "cluster", "topic", "partition", "producer", "seq", "key", "payload_hash", "segment"),
                *("offset", "batch_index", "published_at", "replicated_from"),
            ]
        },
        {"column_list": ["run_id"]},
    ),
    "expect_table_columns_to_match_set": ({"column_set": ["run_id"], "exact_match": False}, {"column_set": ["run_id"]}),
    "expect_column_to_exist": ({"column": "cluster", "column_index": 1}, {"column": "cluster", "column_index": 2}),
    "expect_column_type_to_be": ({"column": "seq", "type_": "LongType"}, {"column": "seq", "type_": "StringType"}),
    "expect_column_values_to_be_of_type": (
        {"column": "seq", "type_": "LongType"},
        {"column": "seq", "type_": "StringType"},
    ),
    "expect_column_values_to_be_in_type_list": (
        {"column": "seq", "type_list": ["LongType"]},
        {"column": "seq", "type_list": ["StringType"]},
    ),
}


def test_every_kind_holds_where_it_should_and_is_broken_where_it_should_be(
    stored: list[dict[str, Any]], ask: Ask
) -> None:
    for row in stored:
        row["topic"] = '"orders"'
    assert HELD_AND_BROKEN.keys() == STANDARD_EXPECTATIONS.keys()
    entries = [entry(kind, **kwargs) for kind, pair in HELD_AND_BROKEN.items() for kwargs in pair]
    judgement = ask(*entries)
    verdicts = [check["verdict"] for check in judgement["expectations"]]
    found = {kind: tuple(verdicts[2 * index : 2 * index + 2]) for index, kind in enumerate(HELD_AND_BROKEN)}
    assert found == dict.fromkeys(HELD_AND_BROKEN, ("passed", "failed"))
    assert judgement["verdict"] == "failed"
    assert judgement["evaluated"] == judgement["written"] == len(entries)
    assert max(len(check["samples"]) for check in judgement["expectations"]) <= 20
    assert {check["table"] for check in judgement["expectations"]} == {"stored"}


def test_the_table_of_kinds_has_every_expectation_and_keyword_of_the_library() -> None:
    import great_expectations.expectations.core as core
    from great_expectations.expectations.expectation import Expectation

    described = {"id", "meta", "notes", "description", "rendered_content", "severity", "library_metadata"}
    # The library calls one that it leaves unfinished by no name.
    library = {
        kind.expectation_type: kind
        for kind in vars(core).values()
        if isinstance(kind, type) and issubclass(kind, Expectation) and getattr(kind, "expectation_type", "")
    }
    assert {*STANDARD_EXPECTATIONS, *UNUSABLE_EXPECTATIONS} >= library.keys()
    assert STANDARD_EXPECTATIONS.keys() <= library.keys()
    for name, ours in STANDARD_EXPECTATIONS.items():
        keywords = set(library[name].__fields__) - described - CLOSED_KEYWORDS.keys()
        assert ours.keywords.keys() == keywords, name


def test_what_the_table_of_kinds_allows_the_library_takes() -> None:
    import great_expectations as gx

    for kind, pair in HELD_AND_BROKEN.items():
        for kwargs in pair:
            gx.ExpectationSuite(name="alone", expectations=[{"type": kind, "kwargs": kwargs}])


def test_a_suite_that_holds_says_on_how_many_rows(stored: list[dict[str, Any]], ask: Ask) -> None:
    stored[0]["key"] = stored[1]["key"] = None
    judgement = ask(
        entry(NOT_NULL, column="seq"), entry("expect_column_values_to_match_regex", column="key", regex="^key-")
    )
    assert (judgement["verdict"], judgement["evaluated"], judgement["written"]) == ("passed", 2, 2)
    name = "expect_column_values_to_match_regex on stored.key"
    assert judgement["why"] == (
        f"All 2 standard expectations on `stored` hold for 50 rows. `{name}` left out 2 rows without a value."
    )
    assert [check["rows"] for check in judgement["expectations"]] == [50, 48]


@pytest.mark.parametrize(("size_s", "verdict"), [(2.0, "unknown"), (None, "passed")])
def test_what_rests_on_the_wall_clock_is_unknown_only_if_that_stepped(
    planted: Planted, stored: list[dict[str, Any]], ask: Ask, size_s: float | None, verdict: str
) -> None:
    planted.facts["time_axis"] = TimeAxis(boot_id="here", offset_us=0)
    steps = () if size_s is None else (WallClockStep(at=1, size_us=int(size_s * 1_000_000)),)
    for process in ("monitor", *(f"load-{number}" for number in range(2))):
        of_one = steps if process == "load-0" else ()
        planted.records.append(WallClockNote(process=process, boot_id="here", at=2, lead_us=0, steps=of_one))
    judgement = ask(
        entry(BETWEEN, column="published_at", max_value="2030-01-01"),
        entry(SQL, unexpected_rows_query="SELECT * FROM {batch} WHERE PUBLISHED_AT < '1960-01-01'"),
        # What does not read the times stays proven.
        entry(NOT_NULL, column="published_at"),
        entry(NOT_NULL, column="seq"),
    )
    assert judgement["verdict"] == verdict
    assert [check["verdict"] for check in judgement["expectations"]] == [verdict, verdict, "passed", "passed"]
    assert ("the wall clock of mycluster-p0 stepped by +2.00 s at" in judgement["why"].lower()) is (size_s is not None)


def test_rows_that_break_it_are_counted_and_some_are_shown_whole(stored: list[dict[str, Any]], ask: Ask) -> None:
    judgement = ask(
        entry(BETWEEN, column="seq", max_value=9), entry(SQL, unexpected_rows_query="SELECT * FROM {batch}")
    )
    assert judgement["verdict"] == "failed"
    between, sql = judgement["expectations"]
    assert (between["rows"], between["unexpected"], len(between["samples"])) == (50, 40, 20)
    assert (sql["rows"], sql["unexpected"], len(sql["samples"])) == (50, 50, 20)
    for sample in (between["samples"][0], sql["samples"][0]):
        assert (sample["producer"], sample["topic"]) == ("producer-1", "orders")
        assert sample["published_at"].startswith("1970-01-01T00:00:00")
    assert list(sql["samples"][0])[:2] == ["producer", "seq"]
    assert judgement["why"].startswith(
        f"It holds. `{BETWEEN} on stored.seq` is broken by 40 of 50 rows or values; the first is producer producer-1, "
    )
    assert judgement["why"].endswith(f"; failed too: {SQL} on stored.")


def test_a_standard_expectation_stands_beside_those_of_a_shipped_suite(
    stored: list[dict[str, Any]], planted: Planted, judge: Judge, written_suites: Path
) -> None:
    query = "SELECT * FROM {batch} WHERE seq % 10 = 3"
    rewrite(
        written_suites,
        "ordering",
        lambda content: content["expectations"].insert(1, entry(SQL, "messages", unexpected_rows_query=query)),
    )
    judgement = judge(planted, written_suites, only="ordering")["ordering"]
    assert (judgement["verdict"], judgement["evaluated"], judgement["written"]) == ("failed", 5, 5)
    verdicts = [check["verdict"] for check in judgement["expectations"]]
    assert verdicts == ["passed", "failed", "passed", "passed", "passed", "not_applicable"]
    assert judgement["expectations"][1]["unexpected"] == 4


def test_own_kinds_stand_in_a_users_suite(planted: Planted, ask: Ask) -> None:
    planted.mark(Anomaly.LOST)
    planted.measure("publish_latency_p99_ms", "steady", 12.0)
    lost = {"type": "expect_no_illegal_anomaly", "kwargs": {"anomaly": "lost"}, "description": "None is lost."}
    fast = {
        "type": "expect_measurement_within_bounds",
        "kwargs": {"metric": "publish_latency_p99_ms", "maximum": 10},
        "description": "Fast.",
    }
    judgement = ask(lost, fast, entry(NOT_NULL, "messages", column="seq"))
    assert [check["verdict"] for check in judgement["expectations"]] == ["failed", "failed", "passed"]


def test_the_example_of_the_guide_judges_a_run(
    stored: list[dict[str, Any]], planted: Planted, judge: Judge, tmp_path: Path
) -> None:
    guide = (PROJECT / "docs" / "write-a-suite.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```json\n(.*?)```", guide, re.DOTALL)
    (tmp_path / "house_rules.json").write_text(example)
    attempt = {"run_id": RUN_ID, "producer": "producer-1", "seq": 0, "outcome": "acked", "sent_at": 0}
    planted.recorded["publishes"] = [
        attempt | {"settled_at": 60_000_000},
        attempt | {"seq": 1, "settled_at": 60_000_001},
    ]
    planted.measure("longest_ack_gap_s", "killed", 3.0)
    judgement = judge(planted, tmp_path, only="house_rules")["house_rules"]
    assert [check["verdict"] for check in judgement["expectations"]] == ["passed", "failed", "passed"]
    assert judgement["expectations"][1]["unexpected"] == 1
    assert judgement["expectations"][1]["samples"][0]["seq"] == 1
    # Readers of the judgement show the bound of the suite.
    assert [check["maximum"] for check in judgement["expectations"]] == [None, None, 60.0]


# --- the library's ways of saying yes to nothing


def test_a_table_without_rows_is_unknown(stored: list[dict[str, Any]], ask: Ask) -> None:
    stored.clear()
    judgement = ask(
        entry(NOT_NULL, column="seq"),
        entry(SQL, unexpected_rows_query="SELECT * FROM {batch}"),
        entry("expect_table_row_count_to_equal", value=0),
    )
    assert (judgement["verdict"], judgement["evaluated"]) == ("unknown", 0)
    assert [check["verdict"] for check in judgement["expectations"]] == ["unknown"] * 3
    assert f"`{NOT_NULL} on stored.seq` had nothing to evaluate: `stored` holds no row" in judgement["why"]


def test_a_table_that_is_missing_is_unknown_and_the_others_are_judged(planted: Planted, ask: Ask) -> None:
    judgement = ask(entry(NOT_NULL, "publishes", column="seq"), entry(NOT_NULL, "messages", column="seq"))
    assert judgement["verdict"] == "unknown"
    assert [check["verdict"] for check in judgement["expectations"]] == ["unknown", "passed"]
    assert "/tables/publishes is missing" in judgement["why"]


@pytest.mark.parametrize("judged", [1, 40])
def test_no_anomaly_is_a_finding_where_messages_were_judged(planted: Planted, ask: Ask, judged: int) -> None:
    del planted.messages[judged:]
    query = "SELECT * FROM {batch} WHERE cause LIKE '%disk%'"
    judgement = ask(entry(SQL, "anomalies", unexpected_rows_query=query))
    assert judgement["verdict"] == "passed"
    assert judgement["why"] == "All 1 standard expectations on `anomalies` hold, because it holds no row."


def test_no_anomaly_is_no_finding_where_nothing_was_judged(planted: Planted, ask: Ask) -> None:
    planted.messages.clear()
    judgement = ask(entry(SQL, "anomalies", unexpected_rows_query="SELECT * FROM {batch}"))
    assert judgement["verdict"] == "unknown"


@pytest.mark.parametrize(
    ("kind", "kwargs"),
    [
        (BETWEEN, {"column": "payload_hash", "min_value": 0}),
        ("expect_column_values_to_be_unique", {"column": "payload_hash"}),
        ("expect_column_max_to_be_between", {"column": "payload_hash", "max_value": 0}),
        ("expect_column_distinct_values_to_be_in_set", {"column": "payload_hash", "value_set": [1]}),
        ("expect_column_pair_values_to_be_equal", {"column_A": "payload_hash", "column_B": "batch_index"}),
        ("expect_multicolumn_values_to_be_equal", {"column_list": ["payload_hash", "batch_index"]}),
    ],
)
def test_a_column_without_a_value_is_unknown(
    stored: list[dict[str, Any]], ask: Ask, kind: str, kwargs: dict[str, Any]
) -> None:
    judgement = ask(entry(kind, **kwargs))
    assert (judgement["verdict"], judgement["evaluated"]) == ("unknown", 0)
    assert "had nothing to evaluate: all 50 rows of `stored` are without a value in `payload_hash`" in judgement["why"]


def test_a_comparison_with_null_is_unknown_and_not_held(stored: list[dict[str, Any]], ask: Ask) -> None:
    stored[7]["segment"] = None
    pair = {"column_A": "offset", "column_B": "segment", "or_equal": True}
    for row in stored:
        row["offset"] += 10
    judgement = ask(entry("expect_column_pair_values_a_to_be_greater_than_b", **pair))
    assert judgement["verdict"] == "unknown"
    assert "cannot compare 1 of 50 rows, which hold a null or NaN" in judgement["why"]


def test_nan_is_not_above_every_bound(planted: Planted, ask: Ask) -> None:
    planted.measure("publish_latency_p99_ms", "steady", float("nan"))
    judgement = ask(entry(BETWEEN, "measurements", column="value", min_value=0))
    assert judgement["verdict"] == "unknown"


def test_an_error_is_unknown_and_not_failed_and_the_others_are_judged(stored: list[dict[str, Any]], ask: Ask) -> None:
    judgement = ask(
        entry(SQL, unexpected_rows_query="SELECT * FROM {batch} WHERE nothing = 1"),
        entry("expect_column_values_to_match_regex", column="key", regex="("),
        entry(NOT_NULL, column="seq"),
    )
    assert judgement["verdict"] == "unknown"
    assert [check["verdict"] for check in judgement["expectations"]] == ["unknown", "unknown", "passed"]
    assert "could not be evaluated" in judgement["why"]


def test_rows_of_another_run_make_it_unknown(stored: list[dict[str, Any]], ask: Ask) -> None:
    stored[0]["run_id"] = "other"
    judgement = ask(entry(NOT_NULL, column="seq"))
    assert judgement["verdict"] == "unknown"
    assert "1 rows of `stored` belong to another run" in judgement["why"]


@pytest.mark.parametrize("keyword", ["mostly", "row_condition", "result_format", "catch_exceptions"])
def test_a_closed_keyword_that_appears_only_after_the_run_began_is_unknown(
    stored: list[dict[str, Any]], ask: Ask, keyword: str
) -> None:
    judgement = ask(entry(BETWEEN, column="seq", max_value=9, **{keyword: 0.1}))
    assert judgement["verdict"] == "unknown"
    assert f"mine.json: expectations.0.kwargs.{keyword}: `{keyword}`" in judgement["why"]


def test_the_library_holds_what_mostly_allows(spark: SparkSession) -> None:
    """What is closed is open in the library itself: one row of two breaks it, and it succeeds."""
    import great_expectations as gx

    context = gx.get_context(mode="ephemeral")
    batches = context.data_sources.add_spark("alone", persist=False).add_dataframe_asset("rows")
    batch = batches.add_batch_definition_whole_dataframe("all").get_batch({"dataframe": spark.range(2)})
    expectation = gx.expectations.ExpectColumnValuesToBeBetween(column="id", max_value=0, mostly=0.5)
    assert batch.validate(expectation).success


class Changed(GreatExpectations):
    """Great Expectations, with what it says of each result changed before it is believed."""

    def change(self, result: Any) -> None:
        """Change a result in place."""

    def validate(self, file: SuiteFile, frame: Frame) -> Validation:
        validation = super().validate(file, frame)
        for result in validation.results:
            self.change(result)
        return validation


def test_a_success_that_the_counts_contradict_is_unknown(stored: list[dict[str, Any]], ask: Ask) -> None:
    class Content(Changed):
        def change(self, result: Any) -> None:
            result.success = True

    judgement = ask(entry(BETWEEN, column="seq", max_value=9), library=Content)
    assert judgement["verdict"] == "unknown"
    assert "came back with a verdict that is not its counts'" in judgement["why"]


def test_a_result_without_counts_is_unknown(stored: list[dict[str, Any]], ask: Ask) -> None:
    class WithoutCounts(Changed):
        def change(self, result: Any) -> None:
            result.result = {}

    judgement = ask(entry(BETWEEN, column="seq", min_value=0), library=WithoutCounts)
    assert judgement["verdict"] == "unknown"
    assert "came back without its counts" in judgement["why"]


def test_rows_that_the_library_did_not_see_make_it_unknown(stored: list[dict[str, Any]], ask: Ask) -> None:
    class HalfBlind(GreatExpectations):
        def validate(self, file: SuiteFile, frame: Frame) -> Validation:
            return super().validate(file, frame.where("seq < 25"))

    judgement = ask(entry(BETWEEN, column="seq", max_value=30), library=HalfBlind)
    assert judgement["verdict"] == "unknown"
    assert "was asked of 25 of 50 rows" in judgement["why"]


def test_an_expectation_that_the_library_drops_makes_the_table_unknown(stored: list[dict[str, Any]], ask: Ask) -> None:
    class WithoutAKind(GreatExpectations):
        def validate(self, file: SuiteFile, frame: Frame) -> Validation:
            first, *others = file.expectations
            unknown = replace(first, content={**first.content, "type": "expect_x"})
            return super().validate(replace(file, expectations=(unknown, *others)), frame)

    judgement = ask(entry(BETWEEN, column="seq", min_value=0), entry(NOT_NULL, column="seq"), library=WithoutAKind)
    assert (judgement["verdict"], judgement["evaluated"], judgement["written"]) == ("unknown", 0, 2)
    assert "holds 2 expectations, and Great Expectations took 1" in judgement["why"]


def test_a_suite_that_is_gone_when_the_run_is_judged_is_unknown(
    planted: Planted, spark: SparkSession, written_suites: Path
) -> None:
    from brokerproof_judging.suites.evaluation import evaluate

    judged = evaluate(spark, planted.write(), [str(written_suites)], required=["mine"], data_docs=False)
    assert list(judged) == [*Suite, "mine"]
    assert judged["mine"].verdict == "unknown"
    assert "mine.json: no such file" in judged["mine"].why
    assert judged["ordering"].verdict == "passed"


def test_every_file_of_the_directories_is_judged_and_has_its_pages(
    stored: list[dict[str, Any]], planted: Planted, spark: SparkSession, written_suites: Path, tmp_path: Path
) -> None:
    from brokerproof_judging.suites.evaluation import evaluate

    (tmp_path / "own").mkdir()
    content = {"name": "mine", "expectations": [entry(BETWEEN, column="seq", max_value=9)]}
    (tmp_path / "own" / "mine.json").write_text(json.dumps(content))
    run = planted.write()
    judged = evaluate(spark, run, [str(tmp_path / "own"), str(written_suites)])
    assert {name: str(judgement.verdict) for name, judgement in judged.items()} == {
        **dict.fromkeys(map(str, Suite), "passed"),
        "mine": "failed",
    }
    assert judged["mine"].data_docs_error is None
    pages = {path.name for path in Path(run.path("report", "data_docs")).rglob("*.html")}
    assert len(pages) > len(Suite)


def test_what_leaves_rows_out_is_known_of_every_kind() -> None:
    """`list_left_out` and the independent count rest on the scope of each kind."""
    assert {kind.scope for kind in STANDARD_EXPECTATIONS.values()} == set(Scope)
