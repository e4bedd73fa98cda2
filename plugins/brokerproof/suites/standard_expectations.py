"""The standard expectations (Great Expectations' own kinds) that a suite may have, and why it cannot have the others.

The list is closed, so that no verdict rests on a kind that a new version of the library adds. The keyword arguments of
each kind come from the library's own schemas (keyword_schemas.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from brokerproof.suites.keyword_schemas import Schema, list_keyword_schemas, list_required_keywords


class Scope(StrEnum):
    """The rows of a table that an expectation evaluates."""

    ROWS = "every row"
    # Great Expectations leaves out the rows without a value.
    VALUES = "every row with a value in `column`"
    # For PAIRS and RECORDS, the keyword `ignore_row_if` decides which rows are left out.
    PAIRS = "every row with values in `column_A` and `column_B`"
    RECORDS = "every row with values in `column_list`"


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


@dataclass(frozen=True)
class StandardExpectation:
    """One of Great Expectations' own kinds of expectation, such as `expect_column_max_to_be_between`."""

    kind: str
    scope: Scope
    # The fields of the library's result whose sum is the number of violations; empty if only one figure is judged.
    counted_in: tuple[str, ...] = ()
    # Whether the library leaves a row undecided if only one of its two values is present.
    needs_both: bool = False

    @property
    def keywords(self) -> Mapping[str, Schema]:
        """All keywords that an expectation of this kind may have in a suite, each with its schema."""
        schemas = list_keyword_schemas(self.kind)
        return {name: schema for name, schema in schemas.items() if name not in CLOSED_KEYWORDS}

    @property
    def column_keywords(self) -> tuple[str, ...]:
        """The keyword arguments whose values are names of columns, such as `column`."""
        if self.scope is Scope.RECORDS:
            return ("column_list",)
        return tuple(name for name in ("column", "column_A", "column_B") if name in self.keywords)

    @property
    def required(self) -> frozenset[str]:
        """The keywords that must be given, without those that name columns."""
        return list_required_keywords(self.kind).difference(self.column_keywords)

    @property
    def any_of(self) -> tuple[str, ...]:
        """The keywords for bounds. At least one must be given, because without a bound the expectation always holds."""
        return tuple(name for name in ("min_value", "max_value") if name in self.keywords)

    def list_columns(self, kwargs: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the names of the columns in an expectation's keyword arguments."""
        named = [kwargs[keyword] for keyword in self.column_keywords]
        return tuple(column for each in named for column in (each if isinstance(each, list) else [each]))


_EACH = ("unexpected_count",)
_MISSING = ("missing_count",)
_KINDS = (
    # SQL
    StandardExpectation("unexpected_rows_expectation", Scope.ROWS, ("observed_value",)),
    # Each value of a column
    StandardExpectation("expect_column_values_to_not_be_null", Scope.ROWS, _EACH),
    StandardExpectation("expect_column_values_to_be_null", Scope.ROWS, _EACH),
    StandardExpectation("expect_column_values_to_be_between", Scope.VALUES, _EACH),
    StandardExpectation("expect_column_value_lengths_to_be_between", Scope.VALUES, _EACH),
    StandardExpectation("expect_column_value_lengths_to_equal", Scope.VALUES, _EACH),
    StandardExpectation("expect_column_values_to_be_in_set", Scope.VALUES, _EACH),
    StandardExpectation("expect_column_values_to_not_be_in_set", Scope.VALUES, _EACH),
    StandardExpectation("expect_column_values_to_be_unique", Scope.VALUES, _EACH),
    StandardExpectation("expect_column_values_to_match_regex", Scope.VALUES, _EACH),
    StandardExpectation("expect_column_values_to_not_match_regex", Scope.VALUES, _EACH),
    StandardExpectation("expect_column_values_to_match_regex_list", Scope.VALUES, _EACH),
    StandardExpectation("expect_column_values_to_not_match_regex_list", Scope.VALUES, _EACH),
    StandardExpectation("expect_column_values_to_match_strftime_format", Scope.VALUES, _EACH),
    StandardExpectation("expect_column_values_to_be_json_parseable", Scope.VALUES, _EACH),
    StandardExpectation("expect_column_values_to_match_json_schema", Scope.VALUES, _EACH),
    # One figure of a column
    StandardExpectation("expect_column_max_to_be_between", Scope.VALUES),
    StandardExpectation("expect_column_min_to_be_between", Scope.VALUES),
    StandardExpectation("expect_column_mean_to_be_between", Scope.VALUES),
    StandardExpectation("expect_column_stdev_to_be_between", Scope.VALUES),
    StandardExpectation("expect_column_sum_to_be_between", Scope.VALUES),
    StandardExpectation("expect_column_unique_value_count_to_be_between", Scope.VALUES),
    StandardExpectation("expect_column_proportion_of_unique_values_to_be_between", Scope.VALUES),
    StandardExpectation("expect_column_proportion_of_non_null_values_to_be_between", Scope.ROWS),
    # The different values of a column
    StandardExpectation("expect_column_distinct_values_to_be_in_set", Scope.VALUES, _EACH),
    StandardExpectation("expect_column_distinct_values_to_contain_set", Scope.VALUES, _MISSING),
    StandardExpectation("expect_column_distinct_values_to_equal_set", Scope.VALUES, (*_EACH, *_MISSING)),
    # Several columns
    StandardExpectation("expect_column_pair_values_to_be_equal", Scope.PAIRS, _EACH),
    StandardExpectation("expect_column_pair_values_a_to_be_greater_than_b", Scope.PAIRS, _EACH, needs_both=True),
    StandardExpectation("expect_column_pair_values_to_be_in_set", Scope.PAIRS, _EACH),
    StandardExpectation("expect_compound_columns_to_be_unique", Scope.RECORDS, _EACH),
    StandardExpectation("expect_select_column_values_to_be_unique_within_record", Scope.RECORDS, _EACH),
    StandardExpectation("expect_multicolumn_values_to_be_equal", Scope.RECORDS, _EACH),
    StandardExpectation("expect_multicolumn_sum_to_equal", Scope.RECORDS, _EACH),
    # The table
    StandardExpectation("expect_table_row_count_to_equal", Scope.ROWS),
    StandardExpectation("expect_table_row_count_to_be_between", Scope.ROWS),
    StandardExpectation("expect_table_column_count_to_equal", Scope.ROWS),
    StandardExpectation("expect_table_column_count_to_be_between", Scope.ROWS),
    StandardExpectation("expect_table_columns_to_match_ordered_list", Scope.ROWS),
    StandardExpectation("expect_table_columns_to_match_set", Scope.ROWS),
    StandardExpectation("expect_column_to_exist", Scope.ROWS),
    StandardExpectation("expect_column_type_to_be", Scope.ROWS),
    StandardExpectation("expect_column_values_to_be_of_type", Scope.ROWS),
    StandardExpectation("expect_column_values_to_be_in_type_list", Scope.ROWS),
)
STANDARD_EXPECTATIONS: Mapping[str, StandardExpectation] = MappingProxyType({each.kind: each for each in _KINDS})

_SQL = "write an `unexpected_rows_expectation` instead"
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
