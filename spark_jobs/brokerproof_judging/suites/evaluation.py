"""Runs the five Great Expectations suites on a run's tables and makes the judgement of each.

Great Expectations is not trusted with the verdict. A suite counts as passed only where its file asks for everything
that there is to ask (suite_file.py), every expectation that applies to the run's system was evaluated, on all rows,
without an exception, and an independent count agrees (cross_check.py). Everything else is `unknown` or `no_data`, with
the reason.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from brokerproof.errors import InputError
from brokerproof.experiment.guarantees import Suite
from brokerproof.experiment.verdict import Verdict, merge_verdicts
from brokerproof.run.directory import Run
from brokerproof.run.judgement import Check, SuiteJudgement
from pyspark.sql import SparkSession

from brokerproof_judging.suites import sentences
from brokerproof_judging.suites.answers import Answer, collect_tallies, read_answers, shorten_error
from brokerproof_judging.suites.applicable_suite import keep_applicable
from brokerproof_judging.suites.cross_check import doubt_measurements, doubt_messages, find_unmeasured
from brokerproof_judging.suites.data_docs import publish_data_docs
from brokerproof_judging.suites.judged_tables import JudgedTables
from brokerproof_judging.suites.library import GreatExpectations, Library
from brokerproof_judging.suites.suite_file import SuiteFile, WrittenExpectation, read_suite

_ON_MESSAGES = (Suite.COMPLETENESS, Suite.UNIQUENESS, Suite.ORDERING)


def evaluate(
    spark: SparkSession,
    run: Run,
    expectations_dir: str,
    *,
    suites: Iterable[Suite] = tuple(Suite),
    library: Callable[[str], Library] = GreatExpectations,
    data_docs: bool = True,
) -> dict[Suite, SuiteJudgement]:
    """The judgement of each suite on `messages`, `anomalies` and `measurements` of the run.

    Whatever goes wrong makes the suite that it concerns `unknown`; the call never fails. The first call in a process
    takes 7 to 10 s longer, in which Great Expectations is imported. `library` makes what runs the expectations, from
    the directory in which it builds its Data Docs; these go to the run's `report/data_docs`.
    """
    tables = JudgedTables(spark, run)
    with tempfile.TemporaryDirectory(prefix="brokerproof-data-docs-") as site:
        try:
            opened = library(site)
        except Exception as error:
            return {suite: _give_up(suite, expectations_dir, error) for suite in suites}
        judgements = {suite: _evaluate_suite(suite, opened, tables, run, expectations_dir) for suite in suites}
        docs = publish_data_docs(opened, site, run) if data_docs else {}
    return {suite: judgement.model_copy(update=docs) for suite, judgement in judgements.items()}


def _evaluate_suite(
    suite: Suite, library: Library, tables: JudgedTables, run: Run, expectations_dir: str
) -> SuiteJudgement:
    try:
        file = read_suite(expectations_dir, suite)
        applicable, reasons = keep_applicable(file, run)
        if reasons and suite not in _ON_MESSAGES and not _has_measurements(applicable, tables, run):
            applicable, others = replace(applicable, expectations=()), applicable
            reasons |= {written.name: "the scenario does not ask for it" for written in others.expectations}
        if not applicable.expectations:
            judgement = _judge(Verdict.NOT_APPLICABLE, "", [])
        elif suite in _ON_MESSAGES:
            judgement = _evaluate_messages(applicable, library, tables, run)
        else:
            judgement = _evaluate_measurements(applicable, library, tables, run)
        return _add_inapplicable(judgement, file, reasons)
    except Exception as error:
        return _give_up(suite, expectations_dir, error)


def _evaluate_messages(file: SuiteFile, library: Library, tables: JudgedTables, run: Run) -> SuiteJudgement:
    counts = tables.message_counts
    if counts.rows == 0:
        return _make_no_data(file, "`messages` holds no row; nothing was published or delivered.")
    answers = read_answers(file, library.validate(file, tables.messages))
    doubts = list(doubt_messages(collect_tallies(answers), counts, run))
    judgement = _conclude(answers, doubts, lambda: sentences.describe_messages_passed(answers, counts))
    if judgement.verdict is Verdict.PASSED and counts.acked == 0:
        why = "No message was acknowledged, so nothing had to hold."
        return judgement.model_copy(update={"verdict": Verdict.NO_DATA, "why": why})
    return judgement


def _evaluate_measurements(file: SuiteFile, library: Library, tables: JudgedTables, run: Run) -> SuiteJudgement:
    measurements = tables.measurements
    if not any(row["suite"] == file.suite for row in measurements):
        return _make_no_data(file, f"`measurements` holds no row of {file.suite}; nothing of it was measured.")
    answers = read_answers(file, library.validate(file, tables.select_measurements(file.suite)))
    tallies = collect_tallies(answers)
    doubts = list(doubt_measurements(file, tallies, measurements, run)) if len(tallies) == len(answers) else []
    return _conclude(answers, doubts, lambda: sentences.describe_measurements_passed(file, answers, measurements, run))


def _has_measurements(file: SuiteFile, tables: JudgedTables, run: Run) -> bool:
    """Whether anything of the suite was measured, or had to be."""
    measured = any(row["suite"] == file.suite for row in tables.measurements)
    return measured or any(any(find_unmeasured(written, [], run.scenario)) for written in file.expectations)


def _conclude(answers: Sequence[Answer], doubts: Sequence[str], describe_passed: Callable[[], str]) -> SuiteJudgement:
    """The suite's verdict: unknown where the counts are in doubt, else the worst of its expectations."""
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


def _give_up(suite: Suite, expectations_dir: str, error: Exception) -> SuiteJudgement:
    logging.getLogger(__name__).warning("%s could not be judged", suite, exc_info=error)
    try:
        written = read_suite(expectations_dir, suite).expectations
    except InputError:
        written = ()
    why = f"The suite could not be judged: {shorten_error(str(error) or repr(error))}"
    return _judge(Verdict.UNKNOWN, why, [_make_check(each, Verdict.UNKNOWN) for each in written])


def _add_inapplicable(judgement: SuiteJudgement, file: SuiteFile, reasons: Mapping[str, str]) -> SuiteJudgement:
    """The judgement with what does not apply, in the file's order; that counts neither as written nor as evaluated."""
    if not reasons:
        return judgement
    checks = {check.name: check for check in judgement.expectations}
    checks |= {
        written.name: _make_check(written, Verdict.NOT_APPLICABLE, why=reasons[written.name])
        for written in file.expectations
        if written.name in reasons
    }
    why = judgement.why
    if judgement.verdict in (Verdict.PASSED, Verdict.NOT_APPLICABLE):
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
        verdict=verdict,
        why=why,
        rows=tally.rows if tally else 0,
        unexpected=tally.unexpected if tally else 0,
        undecided=tally.undecided if tally else 0,
        legal=tally.legal if tally else 0,
        samples=tuple(answer.samples) if answer else (),
    )
