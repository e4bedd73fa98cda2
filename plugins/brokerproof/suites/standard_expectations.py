"""The standard expectations of Great Expectations that a suite may have, and the reasons against all others.

Each expectation is listed with all its keywords. So a file is checked without an import of the library, which would
take 7 to 10 s. A test compares this table with the library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from brokerproof.suites.keyword_rules import (
    Rule,
    check_bound,
    check_flag,
    check_mapping,
    check_number,
    check_query,
    check_text,
    check_texts,
    check_value_pairs,
    check_values,
    check_whole_number,
    choose_from,
)


class Scope(StrEnum):
    """The rows of a table that an expectation evaluates."""

    ROWS = "every row"
    # Great Expectations leaves out the rows without a value.
    VALUES = "every row with a value in `column`"
    # For PAIRS and RECORDS, the keyword `ignore_row_if` decides which rows are left out.
    PAIRS = "every row with values in `column_A` and `column_B`"
    RECORDS = "every row with values in `column_list`"


@dataclass(frozen=True, kw_only=True)
class StandardExpectation:
    """A kind of standard expectation, with the rules for its keywords."""

    scope: Scope
    # All keywords except those that name columns, each with its rule.
    keywords: Mapping[str, Rule]
    required: frozenset[str] = frozenset()
    # At least one of these keywords is needed, because without them the expectation always holds.
    any_of: tuple[str, ...] = ()
    # The fields of the library's result whose sum is the number of violations; empty if only one figure is judged.
    counted_in: tuple[str, ...] = ()
    names_column: bool = False
    # Whether the library leaves a row undecided if only one of its two values is present.
    needs_both: bool = False

    @property
    def column_keywords(self) -> tuple[str, ...]:
        """The keywords that name columns of the table."""
        if self.scope is Scope.PAIRS:
            return ("column_A", "column_B")
        if self.scope is Scope.RECORDS:
            return ("column_list",)
        return ("column",) if self.names_column else ()

    @property
    def known_keywords(self) -> frozenset[str]:
        return frozenset(self.keywords).union(self.column_keywords)


# The keywords of the library with which a broken expectation can pass, each with its effect and a remedy.
CLOSED_KEYWORDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "mostly": ("lets rows break the expectation", "leave it out: every row counts"),
        "row_condition": ("hides rows", "write an `unexpected_rows_expectation` with a WHERE"),
        "condition_parser": ("belongs to `row_condition`, which hides rows", "leave it out"),
        "result_format": ("takes the counts away", "leave it out"),
        "catch_exceptions": ("hides an error", "leave it out: an error makes the suite `unknown`"),
        "windows": ("changes bounds by earlier results", "leave it out"),
        "batch_id": ("takes the rows of another batch", "leave it out: `meta.table` says which rows"),
    }
)

_BETWEEN = {"strict_min": check_flag, "strict_max": check_flag}


def _compare(scope: Scope, rule: Rule, *, strict: bool = True, counted_in: tuple[str, ...] = ()) -> StandardExpectation:
    """Return a kind of expectation with a range. It needs `min_value`, `max_value` or both."""
    return StandardExpectation(
        scope=scope,
        keywords={"min_value": rule, "max_value": rule, **(_BETWEEN if strict else {})},
        any_of=("min_value", "max_value"),
        counted_in=counted_in,
        names_column=scope is Scope.VALUES,
    )


_EACH = ("unexpected_count",)
_SQL = "write an `unexpected_rows_expectation` instead"


def _ask_each_value(
    required: Mapping[str, Rule], optional: Mapping[str, Rule] = MappingProxyType({})
) -> StandardExpectation:
    return StandardExpectation(
        scope=Scope.VALUES,
        keywords={**required, **optional},
        required=frozenset(required),
        counted_in=_EACH,
        names_column=True,
    )


def _ask_whole_values(counted_in: tuple[str, ...]) -> StandardExpectation:
    """Return a kind of expectation about the set of all distinct values of a column."""
    return StandardExpectation(
        scope=Scope.VALUES,
        keywords={"value_set": check_values},
        required=frozenset({"value_set"}),
        counted_in=counted_in,
        names_column=True,
    )


def _ask_rows(
    required: Mapping[str, Rule] = MappingProxyType({}),
    optional: Mapping[str, Rule] = MappingProxyType({}),
    *,
    counted_in: tuple[str, ...] = (),
    names_column: bool = False,
) -> StandardExpectation:
    """Return a kind of expectation about a table as a whole, or about each of its rows."""
    return StandardExpectation(
        scope=Scope.ROWS,
        keywords={**required, **optional},
        required=frozenset(required),
        counted_in=counted_in,
        names_column=names_column,
    )


def _ask_pairs(keywords: Mapping[str, Rule], *required: str, needs_both: bool = False) -> StandardExpectation:
    """Return a kind of expectation about two values of each row."""
    ignore = choose_from("both_values_are_missing", "either_value_is_missing", "neither")
    return StandardExpectation(
        scope=Scope.PAIRS,
        keywords={**keywords, "ignore_row_if": ignore},
        required=frozenset(required),
        counted_in=_EACH,
        needs_both=needs_both,
    )


def _ask_records(keywords: Mapping[str, Rule] = MappingProxyType({})) -> StandardExpectation:
    """Return a kind of expectation about several values of each row."""
    ignore = choose_from("all_values_are_missing", "any_value_is_missing", "never")
    return StandardExpectation(
        scope=Scope.RECORDS,
        keywords={**keywords, "ignore_row_if": ignore},
        required=frozenset(keywords),
        counted_in=_EACH,
    )


_MATCH = {"match_on": choose_from("any", "all")}

STANDARD_EXPECTATIONS: Mapping[str, StandardExpectation] = MappingProxyType(
    {
        # SQL
        "unexpected_rows_expectation": _ask_rows(
            {"unexpected_rows_query": check_query}, counted_in=("observed_value",)
        ),
        # Each value of a column
        "expect_column_values_to_not_be_null": _ask_rows(counted_in=_EACH, names_column=True),
        "expect_column_values_to_be_null": _ask_rows(counted_in=_EACH, names_column=True),
        "expect_column_values_to_be_between": _compare(Scope.VALUES, check_bound, counted_in=_EACH),
        "expect_column_value_lengths_to_be_between": _compare(Scope.VALUES, check_whole_number, counted_in=_EACH),
        "expect_column_value_lengths_to_equal": _ask_each_value({"value": check_whole_number}),
        "expect_column_values_to_be_in_set": _ask_each_value({"value_set": check_values}),
        "expect_column_values_to_not_be_in_set": _ask_each_value({"value_set": check_values}),
        "expect_column_values_to_be_unique": _ask_each_value({}),
        "expect_column_values_to_match_regex": _ask_each_value({"regex": check_text}),
        "expect_column_values_to_not_match_regex": _ask_each_value({"regex": check_text}),
        "expect_column_values_to_match_regex_list": _ask_each_value({"regex_list": check_texts}, _MATCH),
        "expect_column_values_to_not_match_regex_list": _ask_each_value({"regex_list": check_texts}),
        "expect_column_values_to_match_strftime_format": _ask_each_value({"strftime_format": check_text}),
        "expect_column_values_to_be_json_parseable": _ask_each_value({}),
        "expect_column_values_to_match_json_schema": _ask_each_value({"json_schema": check_mapping}),
        # One figure of a column
        "expect_column_max_to_be_between": _compare(Scope.VALUES, check_bound),
        "expect_column_min_to_be_between": _compare(Scope.VALUES, check_bound),
        "expect_column_mean_to_be_between": _compare(Scope.VALUES, check_number),
        "expect_column_stdev_to_be_between": _compare(Scope.VALUES, check_number),
        "expect_column_sum_to_be_between": _compare(Scope.VALUES, check_number),
        "expect_column_unique_value_count_to_be_between": _compare(Scope.VALUES, check_whole_number),
        "expect_column_proportion_of_unique_values_to_be_between": _compare(Scope.VALUES, check_number),
        "expect_column_proportion_of_non_null_values_to_be_between": StandardExpectation(
            scope=Scope.ROWS,
            keywords={"min_value": check_number, "max_value": check_number, **_BETWEEN},
            any_of=("min_value", "max_value"),
            names_column=True,
        ),
        # The different values of a column
        "expect_column_distinct_values_to_be_in_set": _ask_whole_values(("unexpected_count",)),
        "expect_column_distinct_values_to_contain_set": _ask_whole_values(("missing_count",)),
        "expect_column_distinct_values_to_equal_set": _ask_whole_values(("unexpected_count", "missing_count")),
        # Several columns
        "expect_column_pair_values_to_be_equal": _ask_pairs({}),
        "expect_column_pair_values_a_to_be_greater_than_b": _ask_pairs({"or_equal": check_flag}, needs_both=True),
        "expect_column_pair_values_to_be_in_set": _ask_pairs({"value_pairs_set": check_value_pairs}, "value_pairs_set"),
        "expect_compound_columns_to_be_unique": _ask_records(),
        "expect_select_column_values_to_be_unique_within_record": _ask_records(),
        "expect_multicolumn_values_to_be_equal": _ask_records(),
        "expect_multicolumn_sum_to_equal": _ask_records({"sum_total": check_number}),
        # The table
        "expect_table_row_count_to_equal": _ask_rows({"value": check_whole_number}),
        "expect_table_row_count_to_be_between": _compare(Scope.ROWS, check_whole_number),
        "expect_table_column_count_to_equal": _ask_rows({"value": check_whole_number}),
        "expect_table_column_count_to_be_between": _compare(Scope.ROWS, check_whole_number, strict=False),
        "expect_table_columns_to_match_ordered_list": _ask_rows({"column_list": check_texts}),
        "expect_table_columns_to_match_set": _ask_rows({"column_set": check_texts}, {"exact_match": check_flag}),
        "expect_column_to_exist": _ask_rows(optional={"column_index": check_whole_number}, names_column=True),
        "expect_column_type_to_be": _ask_rows({"type_": check_text}, names_column=True),
        "expect_column_values_to_be_of_type": _ask_rows({"type_": check_text}, names_column=True),
        "expect_column_values_to_be_in_type_list": _ask_rows({"type_list": check_texts}, names_column=True),
    }
)

_NOT_ON_SPARK = ("the library does not evaluate it on Spark", _SQL)
_IN_ONE_PROCESS = ("the library would take all values into one process, and a table may have 10^8 rows", _SQL)
_BY_ITSELF = ("it compares the rows with each other, and holds where all are equally wrong", _SQL)
_NO_ORDER = (
    "rows have no order on Spark, and the library compares them in any",
    "write an `unexpected_rows_expectation` with `lag(…) OVER (PARTITION BY … ORDER BY …)`",
)

# The reason and a remedy for each standard expectation that cannot be used.
UNUSABLE_EXPECTATIONS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "expect_column_values_to_be_increasing": _NO_ORDER,
        "expect_column_values_to_be_decreasing": _NO_ORDER,
        "expect_column_values_to_be_dateutil_parseable": _NOT_ON_SPARK,
        "expect_column_values_to_match_like_pattern": _NOT_ON_SPARK,
        "expect_column_values_to_match_like_pattern_list": _NOT_ON_SPARK,
        "expect_column_values_to_not_match_like_pattern": _NOT_ON_SPARK,
        "expect_column_values_to_not_match_like_pattern_list": _NOT_ON_SPARK,
        "expect_multicolumn_values_to_be_unique": _NOT_ON_SPARK,
        "expect_column_median_to_be_between": _IN_ONE_PROCESS,
        "expect_column_quantile_values_to_be_between": _IN_ONE_PROCESS,
        "expect_column_most_common_value_to_be_in_set": _IN_ONE_PROCESS,
        "expect_column_kl_divergence_to_be_less_than": _IN_ONE_PROCESS,
        "expect_column_value_z_scores_to_be_less_than": _BY_ITSELF,
        "expect_column_values_to_not_be_outliers": _BY_ITSELF,
        "expect_query_results_to_match_comparison": ("there is no second data source to compare with", _SQL),
        "expect_table_row_count_to_equal_other_table": ("there is no second table to compare with", _SQL),
    }
)
