"""Runs the Great Expectations suites on a run's tables and makes the judgement of each.

A suite that Great Expectations calls successful passes only under three more conditions. Its file is complete
(brokerproof/suites/suite_file.py). Every expectation that applies to the run's messaging system was evaluated on all
rows, without an exception. A second count of the rows agrees (cross_check.py, standard_answers.py). Otherwise the suite
is `unknown` or `no_data`, with the reason.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any

import pandas as pd
from brokerproof.errors import InputError, RunError
from brokerproof.experiment.guarantees import Suite
from brokerproof.experiment.verdict import Verdict, merge_verdicts
from brokerproof.run.directory import Run
from brokerproof.run.judgement import Check, SuiteJudgement
from brokerproof.run.table_rows import iterate_rows
from brokerproof.run.tables import SCHEMAS
from brokerproof.suites.query_rules import QUERY_KEYWORD, fill_in_batch
from brokerproof.suites.suite_file import SuiteFile, read_suite
from brokerproof.suites.suite_names import find_suites
from brokerproof.suites.written_expectation import WrittenExpectation
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from brokerproof_judging import table_io
from brokerproof_judging.applicability import explain_inapplicable
from brokerproof_judging.suites import sentences
from brokerproof_judging.suites.cross_check import (
    MessageCounts,
    count_messages,
    doubt_measurements,
    doubt_messages,
    find_unmeasured,
    list_suites_measured,
)
from brokerproof_judging.suites.data_docs import publish_data_docs
from brokerproof_judging.suites.expectation_answers import Answer, collect_tallies, read_answers, shorten_error
from brokerproof_judging.suites.library import GreatExpectations, Library
from brokerproof_judging.suites.message_groups import read_message_groups
from brokerproof_judging.suites.parsed_query import check_parsed_query
from brokerproof_judging.suites.standard_answers import count_table, list_left_out, read_standard_answers
from brokerproof_judging.wall_clock import read_wall_clocks


class JudgedTables:
    """The tables of a run. Reading a table raises RunError if it is missing."""

    def __init__(self, spark: SparkSession, run: Run) -> None:
        self.spark, self._run = spark, run

    @cached_property
    def message_groups(self) -> pd.DataFrame:
        """The rows of `messages`, grouped by their anomalies."""
        self._require("messages")
        return read_message_groups(self._run)

    @cached_property
    def message_counts(self) -> MessageCounts:
        """The counts of `messages` and `anomalies`."""
        self._require("messages")
        self._require("anomalies")
        return count_messages(self._run)

    @cached_property
    def measurements(self) -> list[dict[str, Any]]:
        """All rows of `measurements`: one for each metric and its subject, such as a fault or a phase."""
        self._require("measurements")
        return list(iterate_rows(self._run, "measurements"))

    def select_measurements(self, suites: Collection[Suite]) -> pd.DataFrame:
        """Return the rows of `measurements` that belong to `suites`.

        The columns hold Python objects, because in a column of numbers pandas would not tell null from NaN.
        """
        rows = [row for row in self.measurements if row["suite"] in suites]
        return pd.DataFrame(rows, columns=SCHEMAS["measurements"].names, dtype=object)

    def read(self, name: str) -> DataFrame:
        self._require(name)
        return table_io.read_table(self.spark, self._run, name)

    def _require(self, name: str) -> None:
        if not self._run.exists("tables", name):
            raise RunError(f"{self._run.table(name)} is missing; did `verify` write it?")


def evaluate(
    spark: SparkSession,
    run: Run,
    expectations_dirs: Sequence[str],
    *,
    suites: Iterable[str] | None = None,
    required: Iterable[str] = (),
    library: Callable[[str, str], Library] = GreatExpectations,
    data_docs: bool = True,
) -> dict[str, SuiteJudgement]:
    """Return the judgement of each suite on the run's tables, by the suite's name.

    If `suites` is None, Brokerproof's five suites, all others with a file in `expectations_dirs`, and those in
    `required` are judged. A required suite without a file is `unknown`. An error in one suite makes only this suite
    `unknown`. Raises InputError or OSError only if `expectations_dirs` cannot be listed.

    `library` returns a `Library`, given a directory for Data Docs (pages about the results) and the run's name. If
    `data_docs`, these pages are copied to the run's `report/data_docs`. The first call in a process takes 7 to 10 s
    longer, because it imports Great Expectations.
    """
    names = list(dict.fromkeys([*find_suites(expectations_dirs), *required]) if suites is None else suites)
    tables = JudgedTables(spark, run)
    with tempfile.TemporaryDirectory(prefix="brokerproof-data-docs-") as site:
        try:
            opened = library(site, run.run_id)
        except Exception as error:
            return {suite: _give_up(suite, expectations_dirs, error) for suite in names}
        judgements = {suite: _evaluate_suite(suite, opened, tables, run, expectations_dirs) for suite in names}
        docs = publish_data_docs(opened, site, run) if data_docs else {}
    return {suite: judgement.model_copy(update=docs) for suite, judgement in judgements.items()}


def _evaluate_suite(
    suite: str, library: Library, tables: JudgedTables, run: Run, expectations_dirs: Sequence[str]
) -> SuiteJudgement:
    try:
        file = read_suite(expectations_dirs, suite)
        _check_queries(file, tables.spark)
        applicable, reasons = keep_applicable(file, run)
        messages, measured = applicable.on_messages, applicable.on_measurements
        if reasons and measured.expectations and not _has_measurements(measured, tables, run):
            reasons |= {written.name: "the scenario does not ask for it" for written in measured.expectations}
            measured = replace(measured, expectations=())
        parts = [_evaluate_messages(messages, library, tables, run)] if messages.expectations else []
        parts += [_evaluate_measurements(measured, library, tables, run)] if measured.expectations else []
        parts += [_evaluate_table(part, library, tables, run) for part in applicable.on_tables]
        return _add_inapplicable(_join(parts), file, reasons)
    except Exception as error:
        return _give_up(suite, expectations_dirs, error)


def _check_queries(file: SuiteFile, spark: SparkSession) -> None:
    """Raises InputError for a rule of queries that the SQL of a suite breaks, as Spark reads the SQL."""
    for index, written in enumerate(file.expectations):
        if not written.query:
            continue
        # The evaluation parses the same text, and reports Spark's error as a problem of this one expectation.
        with suppress(PySparkException):
            try:
                check_parsed_query(spark, fill_in_batch(written.query))
            except InputError as error:
                raise error.locate(file=file.path, below=f"expectations.{index}.kwargs.{QUERY_KEYWORD}") from None


def _join(parts: Sequence[SuiteJudgement]) -> SuiteJudgement:
    """Return a suite's judgement from its judgements on single tables: the worst verdict, and the reasons for it."""
    if not parts:
        return _judge(Verdict.NOT_APPLICABLE, "", [])
    verdict = merge_verdicts(part.verdict for part in parts)
    why = " ".join(part.why for part in parts if part.verdict is verdict)
    checks = [check for part in parts for check in part.expectations]
    return _judge(verdict, why, checks, evaluated=sum(part.evaluated for part in parts))


def _evaluate_messages(file: SuiteFile, library: Library, tables: JudgedTables, run: Run) -> SuiteJudgement:
    counts = tables.message_counts
    if counts.rows == 0:
        return _make_no_data(file, "`messages` holds no row; nothing was published or delivered.")
    answers = read_answers(file, library.validate(file, tables.message_groups))
    doubts = list(doubt_messages(collect_tallies(answers), counts, run))
    judgement = _conclude(answers, doubts, lambda: sentences.describe_messages_passed(answers, counts))
    if judgement.verdict is Verdict.PASSED and counts.acked == 0:
        why = "No message was acknowledged, so nothing had to hold."
        return judgement.model_copy(update={"verdict": Verdict.NO_DATA, "why": why})
    return judgement


def _evaluate_measurements(file: SuiteFile, library: Library, tables: JudgedTables, run: Run) -> SuiteJudgement:
    measurements, suites = tables.measurements, list_suites_measured(file)
    if not any(row["suite"] in suites for row in measurements):
        return _make_no_data(file, f"`measurements` holds no row of {' or '.join(suites)}, so no value was measured.")
    answers = read_answers(file, library.validate(file, tables.select_measurements(suites)))
    tallies = collect_tallies(answers)
    doubts = list(doubt_measurements(file, tallies, measurements, run)) if len(tallies) == len(answers) else []
    return _conclude(answers, doubts, lambda: sentences.describe_measurements_passed(file, answers, measurements, run))


def _evaluate_table(file: SuiteFile, library: Library, tables: JudgedTables, run: Run) -> SuiteJudgement:
    """Return the judgement of a suite's standard expectations on one table. After an error, all are `unknown`."""
    table = file.expectations[0].table
    try:
        frame = tables.read(table)
        counts = count_table(frame, file.expectations, run.run_id)
        # If messages were judged, an empty table `anomalies` means that no message has an anomaly.
        judged = table == "anomalies" and counts.rows == 0 and tables.message_counts.rows > 0
        validation = library.validate(file, frame)
        doubt = read_wall_clocks(run).doubt_publish_times()
        answers = read_standard_answers(file, validation, counts, no_row_is_a_finding=judged, doubt_of_wall_times=doubt)
    except Exception as error:
        logging.getLogger(__name__).warning("%s could not be judged", file.title, exc_info=error)
        answers = [
            Answer(
                written=written,
                tally=None,
                samples=[],
                problem=f"could not be evaluated: {shorten_error(str(error) or repr(error))}",
            )
            for written in file.expectations
        ]
        return _conclude(answers, [], lambda: "")
    left_out = list_left_out(answers, counts)
    return _conclude(answers, [], lambda: sentences.describe_table_passed(table, answers, counts.rows, left_out))


def _has_measurements(file: SuiteFile, tables: JudgedTables, run: Run) -> bool:
    """Return whether the run has, or must have, a measurement that this suite file judges.

    The run must have one if the file requires it, or if the scenario sets a bound or an expected owner for it.
    """
    suites = list_suites_measured(file)
    measured = any(row["suite"] in suites for row in tables.measurements)
    return measured or any(any(find_unmeasured(written, [], run.scenario)) for written in file.expectations)


def _conclude(answers: Sequence[Answer], doubts: Sequence[str], describe_passed: Callable[[], str]) -> SuiteJudgement:
    """Return a suite's judgement: `unknown` if the counts are in doubt, else the worst verdict of its expectations."""
    verdicts = [Verdict.UNKNOWN if doubts else answer.verdict for answer in answers]
    worst = merge_verdicts(verdicts)
    if doubts:
        more = f" (and {len(doubts) - 1} more doubts)" if len(doubts) > 1 else ""
        why = f"The evidence does not agree with itself: {doubts[0]}{more}."
    elif worst is Verdict.PASSED:
        why = describe_passed()
    else:
        why = sentences.describe_first(answers, worst)
    checks = [_make_check(answer.written, verdict, answer) for answer, verdict in zip(answers, verdicts, strict=True)]
    return _judge(worst, why, checks, evaluated=len(collect_tallies(answers)))


def _make_no_data(file: SuiteFile, why: str) -> SuiteJudgement:
    checks = [_make_check(written, Verdict.NO_DATA) for written in file.expectations]
    return _judge(Verdict.NO_DATA, why, checks)


def _give_up(suite: str, expectations_dirs: Sequence[str], error: Exception) -> SuiteJudgement:
    logging.getLogger(__name__).warning("%s could not be judged", suite, exc_info=error)
    try:
        written = read_suite(expectations_dirs, suite).expectations
    except InputError:
        written = ()
    why = f"The suite could not be judged: {shorten_error(str(error) or repr(error))}"
    return _judge(Verdict.UNKNOWN, why, [_make_check(each, Verdict.UNKNOWN) for each in written])


def _add_inapplicable(judgement: SuiteJudgement, file: SuiteFile, reasons: Mapping[str, str]) -> SuiteJudgement:
    """Return the judgement extended by the expectations that do not apply to the run, in the file's order.

    `reasons` maps the name of each such expectation to the reason why it does not apply. These expectations count
    neither as written nor as evaluated.
    """
    checks = {check.name: check for check in judgement.expectations}
    checks |= {
        written.name: _make_check(written, Verdict.NOT_APPLICABLE, why=reasons[written.name])
        for written in file.expectations
        if written.name in reasons
    }
    why = judgement.why
    if reasons and judgement.verdict in (Verdict.PASSED, Verdict.NOT_APPLICABLE):
        why = f"{why} {sentences.describe_inapplicable(reasons)}".strip()
    in_order = tuple(checks[written.name] for written in file.expectations)
    return judgement.model_copy(update={"why": why, "expectations": in_order})


def _judge(verdict: Verdict, why: str, checks: Sequence[Check], *, evaluated: int = 0) -> SuiteJudgement:
    return SuiteJudgement(
        verdict=verdict, why=why, evaluated=evaluated, written=len(checks), expectations=tuple(checks)
    )


def _make_check(written: WrittenExpectation, verdict: Verdict, answer: Answer | None = None, *, why: str = "") -> Check:
    tally = answer.tally if answer else None
    return Check(
        name=written.name,
        description=written.description,
        table=written.table,
        minimum=written.minimum if written.standard is None else None,
        maximum=written.maximum if written.standard is None else None,
        verdict=verdict,
        why=why,
        rows=tally.rows if tally else 0,
        unexpected=tally.unexpected if tally else 0,
        undecided=tally.undecided if tally else 0,
        legal=tally.legal if tally else 0,
        samples=tuple(answer.samples) if answer else (),
    )


def keep_applicable(file: SuiteFile, run: Run) -> tuple[SuiteFile, dict[str, str]]:
    """Return the suite with only the expectations that apply to the run, and {name: reason} of the others."""
    applicable: list[WrittenExpectation] = []
    reasons: dict[str, str] = {}
    for written in file.expectations:
        reason = explain_inapplicable(run, written.name) if written.standard is None else ""
        if reason:
            reasons[written.name] = reason
        else:
            applicable.append(written)
    return replace(file, expectations=tuple(applicable)), reasons
