"""The results of standard expectations (Great Expectations' own kinds), checked before they count.

A second count of the table, made without the library, checks them. The library lets an expectation hold if it evaluated
no row, and takes a comparison with null as true.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from brokerproof.experiment.verdict import Verdict
from brokerproof.suites.standard_expectations import Scope, StandardExpectation
from brokerproof.suites.suite_file import SuiteFile
from brokerproof.suites.written_expectation import WrittenExpectation
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from brokerproof_judging.suites.expectation_answers import Answer, match_results
from brokerproof_judging.suites.library import Validation
from brokerproof_judging.suites.tally import MOST_SAMPLES, Tally, order_columns


@dataclass(frozen=True, kw_only=True)
class TableCounts:
    rows: int
    # Rows of another run.
    foreign: int
    # By expectation: the number of rows that it evaluates, and of evaluated rows whose values cannot be compared.
    evaluated: Mapping[str, int]
    undecided: Mapping[str, int]


def count_table(frame: DataFrame, expectations: Sequence[WrittenExpectation], run_id: str) -> TableCounts:
    """Count, in one Spark job, a table's rows and the rows that each expectation evaluates."""
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
    """Return a condition, in Spark SQL, that holds for the rows that the expectation evaluates."""
    scope = written.standard.scope if written.standard else Scope.ROWS
    present = [f"`{column}` IS NOT NULL" for column in written.columns]
    if scope is Scope.ROWS:
        return "true"
    ignored = written.kwargs.get("ignore_row_if")
    if scope is Scope.VALUES or ignored in ("either_value_is_missing", "any_value_is_missing"):
        return " AND ".join(present)
    return "true" if ignored in ("neither", "never") else " OR ".join(present)


def _find_undecided(written: WrittenExpectation, frame: DataFrame) -> str:
    """Return a condition, in Spark SQL, that holds for evaluated rows with a null or NaN in place of a value.

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


class DoubtError(Exception):
    """A result of Great Expectations does not count. The message completes the sentence "the expectation …"."""


def read_standard_answers(
    file: SuiteFile,
    validation: Validation,
    counts: TableCounts,
    *,
    no_row_is_a_finding: bool,
    doubt_of_wall_times: str = "",
) -> list[Answer]:
    """Return one answer for each expectation of the file, in the same order.

    If `no_row_is_a_finding`, an expectation may hold on an empty table. `doubt_of_wall_times` is a reason to doubt wall
    times, or empty. If there is one, expectations that read wall times get it as their `problem`. Raises RunError if
    the library dropped an expectation.
    """
    answers = [
        matched if isinstance(matched, Answer) else _read(written, matched, counts, no_row_is_a_finding)
        for written, matched in zip(file.expectations, match_results(file, validation), strict=True)
    ]
    return [
        Answer(written=answer.written, tally=None, samples=[], problem=doubt_of_wall_times)
        if doubt_of_wall_times and answer.tally is not None and answer.written.reads_wall_times
        else answer
        for answer in answers
    ]


def _read(written: WrittenExpectation, result: Any, counts: TableCounts, no_row_is_a_finding: bool) -> Answer:
    standard = written.standard
    assert standard is not None
    try:
        if not (counts.rows == 0 and no_row_is_a_finding):
            _check_evaluated(written, standard, counts)
        found: Mapping[str, Any] = result.result or {}
        _check_counts(written, standard, found, counts)
        unexpected = _count_unexpected(standard, found, held=bool(result.success))
    except DoubtError as doubt:
        return Answer(written=written, tally=None, samples=[], problem=str(doubt))
    evaluated, undecided = counts.evaluated[written.name], counts.undecided[written.name]
    tally = Tally(rows=evaluated, unexpected=unexpected, undecided=undecided, legal=0)
    column = written.columns[0] if written.columns else ""
    samples = collect_samples(found, column) if unexpected else []
    if unexpected and not samples and found.get("observed_value") is not None:
        samples = [{"observed_value": make_plain(found["observed_value"])}]
    return Answer(written=written, tally=tally, samples=samples)


def _check_evaluated(written: WrittenExpectation, standard: StandardExpectation, counts: TableCounts) -> None:
    if counts.rows == 0:
        raise DoubtError(f"had nothing to evaluate: `{written.table}` holds no row")
    if counts.foreign:
        raise DoubtError(f"cannot be trusted: {counts.foreign:,} rows of `{written.table}` belong to another run")
    if counts.evaluated[written.name] == 0:
        columns = ", ".join(f"`{column}`" for column in written.columns)
        raise DoubtError(
            f"had nothing to evaluate: all {counts.rows:,} rows of `{written.table}` are without a value in {columns}"
        )


def _check_counts(
    written: WrittenExpectation, standard: StandardExpectation, found: Mapping[str, Any], counts: TableCounts
) -> None:
    """Raise DoubtError if the library's number of evaluated rows differs from that of the second count."""
    if "element_count" in found and found["element_count"] != counts.rows:
        raise DoubtError(f"was asked of {found['element_count']:,} of {counts.rows:,} rows")
    missing, evaluated = found.get("missing_count"), counts.evaluated[written.name]
    if "element_count" in found and standard.scope is not Scope.ROWS and counts.rows - (missing or 0) != evaluated:
        raise DoubtError(f"was asked of {counts.rows - (missing or 0):,} rows, and {evaluated:,} have a value")


def _count_unexpected(standard: StandardExpectation, found: Mapping[str, Any], *, held: bool) -> int:
    """Return how many rows or values break the expectation; 1 if it is about a single figure, such as a mean.

    Raises DoubtError if the library's counts are missing or contradict its verdict.
    """
    if not standard.counted_in:
        if standard.scope is Scope.VALUES and found.get("observed_value") is None:
            raise DoubtError("came to no value")
        return 0 if held else 1
    numbers = [found.get(name) for name in standard.counted_in]
    if not all(isinstance(number, int) and not isinstance(number, bool) and number >= 0 for number in numbers):
        raise DoubtError(f"came back without its counts: {found!r:.100}")
    unexpected = sum(number for number in numbers if number is not None)
    if held is not (unexpected == 0):
        raise DoubtError("came back with a verdict that is not its counts'")
    return unexpected


def list_left_out(answers: list[Answer], counts: TableCounts) -> dict[str, int]:
    """Return, by expectation, the number of rows that a passed expectation left out because they lack a value.

    The result has only expectations that left out rows.
    """
    return {
        answer.written.name: left_out
        for answer in answers
        if answer.verdict is Verdict.PASSED and (left_out := counts.rows - counts.evaluated[answer.written.name])
    }


def collect_samples(result: Mapping[str, Any], column: str) -> list[dict[str, Any]]:
    """Return up to `MOST_SAMPLES` rows of a library's result, or values of `column` if the result has no rows.

    In a row, the columns that name a message come first.
    """
    rows = result.get("unexpected_rows") or (result.get("details") or {}).get("unexpected_rows")
    if not rows:
        values = [*(result.get("partial_unexpected_list") or ()), *(result.get("partial_missing_list") or ())]
        rows = [{column or "value": value} for value in values]
    return [order_columns({str(name): make_plain(value) for name, value in row.items()}) for row in rows[:MOST_SAMPLES]]


def make_plain(value: Any) -> Any:
    """Return a value of Spark as JSON can hold it: NaN and infinity as their names, a time as text."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return make_plain(float(value))
    if isinstance(value, Mapping):
        return {str(name): make_plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [make_plain(item) for item in value]
    return str(value)
