"""Counts the rows of a table that standard expectations evaluate, without Great Expectations.

This count is needed because, for Great Expectations, an expectation holds if it evaluated no row, and a comparison with
null is true.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from brokerproof.suites.standard_expectations import Scope
from brokerproof.suites.written_expectation import WrittenExpectation
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T


@dataclass(frozen=True, kw_only=True)
class TableCounts:
    rows: int
    # Rows of another run.
    foreign: int
    # By expectation: the number of rows that it evaluates, and of evaluated rows whose values cannot be compared.
    evaluated: Mapping[str, int]
    undecided: Mapping[str, int]


def count_table(frame: DataFrame, expectations: Sequence[WrittenExpectation], run_id: str) -> TableCounts:
    """Count the rows with one Spark job, for any number of expectations."""
    conditions = [(_find_evaluated(each), _find_undecided(each, frame)) for each in expectations]
    counts = [
        F.count(F.lit(1)),
        F.count_if(~F.col("run_id").eqNullSafe(F.lit(run_id))),
        *(F.expr(f"count_if({condition})") for pair in conditions for condition in pair),
    ]
    (row,) = frame.agg(*(count.alias(f"count_{index}") for index, count in enumerate(counts))).collect()
    rows, foreign, *others = row
    names = [each.name for each in expectations]
    return TableCounts(
        rows=rows,
        foreign=foreign,
        evaluated=dict(zip(names, others[::2], strict=True)),
        undecided=dict(zip(names, others[1::2], strict=True)),
    )


def _find_evaluated(written: WrittenExpectation) -> str:
    """Return the condition, in Spark SQL, of the rows that the expectation evaluates."""
    scope = written.standard.scope if written.standard else Scope.ROWS
    present = [f"`{column}` IS NOT NULL" for column in written.columns]
    if scope is Scope.ROWS:
        return "true"
    ignored = written.kwargs.get("ignore_row_if")
    if scope is Scope.VALUES or ignored in ("either_value_is_missing", "any_value_is_missing"):
        return " AND ".join(present)
    return "true" if ignored in ("neither", "never") else " OR ".join(present)


def _find_undecided(written: WrittenExpectation, frame: DataFrame) -> str:
    """Return the condition, in Spark SQL, of the evaluated rows with a null or NaN in place of a value.

    For Spark, NaN is greater than every number, so a NaN would be above every minimum.
    """
    columns = written.columns
    if written.standard is not None and written.standard.needs_both:
        missing = " OR ".join(f"`{column}` IS NULL" for column in columns)
        return f"({_find_evaluated(written)}) AND ({missing})"
    if written.standard is None or written.standard.scope is not Scope.VALUES:
        return "false"
    numbers = [column for column in columns if isinstance(frame.schema[column].dataType, T.DoubleType)]
    return " OR ".join(f"isnan(`{column}`)" for column in numbers) or "false"
