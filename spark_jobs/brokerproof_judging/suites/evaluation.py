"""Runs the five Great Expectations suites on a run's tables and says what each comes to.

Great Expectations is not trusted with the verdict. A suite counts as passed only where its file asks for everything
that there is to ask (suite_file.py), every expectation written was evaluated, on all rows, without an exception, and
an independent count agrees (cross_check.py). Everything else is `unknown` or `no_data`, with the reason.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import fsspec
from brokerproof.errors import InputError, RunError
from brokerproof.experiment.guarantees import DEFINITIONS, Anomaly, Suite
from brokerproof.experiment.metrics import METRICS
from brokerproof.experiment.verdict import Verdict, merge_verdicts
from brokerproof.run.directory import Run
from pyspark.sql import DataFrame, SparkSession

from brokerproof_judging import table_io
from brokerproof_judging.suites.cross_check import (
    MessageCounts,
    Tally,
    doubts_about_measurements,
    doubts_about_messages,
)
from brokerproof_judging.suites.library import GreatExpectations, Library
from brokerproof_judging.suites.suite_file import SuiteFile, Written, read_suite

_ON_MESSAGES = (Suite.COMPLETENESS, Suite.UNIQUENESS, Suite.ORDERING)
_LONGEST_REASON = 300

# A suite's result. Keys: verdict, why, evaluated, written, expectations, data_docs and, where they could not be
# built, data_docs_error. Each of `expectations`: name, description, verdict, rows, unexpected, undecided, legal,
# samples.
Judgement = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class _Answer:
    """What Great Expectations said to one expectation."""

    written: Written
    tally: Tally | None
    samples: list[dict[str, Any]]
    # Why there is no tally.
    trouble: str = ""

    @property
    def verdict(self) -> Verdict:
        if self.tally is None:
            return Verdict.UNKNOWN
        if self.tally.unexpected:
            return Verdict.FAILED
        return Verdict.UNKNOWN if self.tally.undecided else Verdict.PASSED


@dataclass(kw_only=True)
class _Evidence:
    """The run's tables, read at first use and counted once; what went wrong is told to every suite that needs it."""

    spark: SparkSession
    run: Run
    _kept: dict[str, Any] = field(default_factory=dict)

    def messages(self) -> DataFrame:
        return self._once("messages", lambda: self._table("messages"))

    def counts(self) -> MessageCounts:
        return self._once(
            "counts", lambda: MessageCounts.of(self.messages(), self._table("anomalies"), self.run.run_id)
        )

    def measured(self) -> list[dict[str, Any]]:
        """All rows of `measurements`: one per metric and fault, phase or moment."""
        return self._once("measured", lambda: [row.asDict() for row in self._table("measurements").collect()])

    def measurements(self, suite: Suite) -> DataFrame:
        """The suite's rows, as a frame that one task reads from memory: a third of the time that Parquet takes."""
        rows = [tuple(row.values()) for row in self.measured() if row["suite"] == suite]
        return self.spark.createDataFrame(rows, table_io.schema("measurements")).coalesce(1)

    def _table(self, name: str) -> DataFrame:
        if not self.run.exists("tables", name):
            raise RunError(f"{self.run.table(name)} is missing; did `verify` write it?")
        return table_io.read(self.spark, self.run, name)

    def _once(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self._kept:
            try:
                self._kept[name] = make()
            except Exception as error:
                self._kept[name] = error
        if isinstance(self._kept[name], Exception):
            raise self._kept[name]
        return self._kept[name]


def evaluate(
    spark: SparkSession,
    run: Run,
    expectations_dir: str,
    *,
    suites: Iterable[Suite] = tuple(Suite),
    library: Callable[[str], Library] = GreatExpectations,
    data_docs: bool = True,
) -> dict[str, Judgement]:
    """What each of the suites comes to on `messages`, `anomalies` and `measurements` of the run.

    Whatever goes wrong makes the suite that it concerns `unknown`; the call never fails. The first call in a process
    takes 7 to 10 s longer, in which Great Expectations is imported. `library` makes what runs the expectations, from
    the directory in which it builds its Data Docs; these go to the run's `report/data_docs`.
    """
    evidence = _Evidence(spark=spark, run=run)
    with tempfile.TemporaryDirectory(prefix="brokerproof-data-docs-") as site:
        try:
            asked = library(site)
        except Exception as error:
            return {str(suite): _unknown(suite, expectations_dir, error) for suite in suites}
        judged = {str(suite): _judge_safely(asked, suite, evidence, expectations_dir) for suite in suites}
        docs = _publish_data_docs(asked, site, run) if data_docs else {}
    return {suite: judgement | docs for suite, judgement in judged.items()}


def data_docs_index(run: Run) -> str:
    """Location of the first page of the run's Data Docs."""
    return run.path("report", "data_docs", "index.html")


def _judge_safely(library: Library, suite: Suite, evidence: _Evidence, expectations_dir: str) -> Judgement:
    try:
        return _judge(library, suite, evidence, expectations_dir)
    except Exception as error:
        return _unknown(suite, expectations_dir, error)


def _judge(library: Library, suite: Suite, evidence: _Evidence, expectations_dir: str) -> Judgement:
    file = read_suite(expectations_dir, suite)
    if suite in _ON_MESSAGES:
        frame, counts = evidence.messages(), evidence.counts()
        if counts.rows == 0:
            return _no_data(file, "`messages` holds no row; nothing was published or delivered")
        answers = _ask(library, file, frame)
        doubts = doubts_about_messages(suite, _tallies(answers), counts, evidence.run)
        nothing = "no message was acknowledged, so nothing had to hold" if counts.acked == 0 else ""
        return _judgement(file, answers, doubts, nothing, lambda: _passed_on_messages(answers, counts))
    rows = evidence.measured()
    if not any(row["suite"] == suite for row in rows):
        return _no_data(file, f"`measurements` holds no row of {suite}; nothing of it was measured")
    answers = _ask(library, file, evidence.measurements(suite))
    tallies = _tallies(answers)
    doubts = doubts_about_measurements(file, tallies, rows, evidence.run) if len(tallies) == len(answers) else []
    return _judgement(file, answers, doubts, "", lambda: _passed_on_measurements(file, answers, rows, evidence.run))


def _ask(library: Library, file: SuiteFile, frame: DataFrame) -> list[_Answer]:
    """Great Expectations' answers, in the order of the file; RunError where it did not evaluate what is written."""
    outcome = library.validate(file, frame)
    if outcome.taken != len(file.expectations):
        raise RunError(
            f"{file.path} holds {len(file.expectations)} expectations, and Great Expectations took "
            f"{outcome.taken} of them; is one of an unregistered kind?"
        )
    by_name: dict[str, list[Any]] = {}
    for result in outcome.results:
        kwargs = result.expectation_config.kwargs
        by_name.setdefault(kwargs.get("anomaly") or kwargs.get("metric"), []).append(result)
    answers = [_answer(written, by_name.get(written.name, [])) for written in file.expectations]
    holds = all(answer.verdict is Verdict.PASSED for answer in answers)
    if outcome.success is not holds and not any(answer.trouble for answer in answers):
        raise RunError(
            f"Great Expectations calls the suite {'held' if outcome.success else 'broken'}, its counts do not"
        )
    return answers


def _answer(written: Written, results: list[Any]) -> _Answer:
    if len(results) != 1:
        trouble = "was not evaluated" if not results else f"was evaluated {len(results)} times"
        return _Answer(written=written, tally=None, samples=[], trouble=trouble)
    result = results[0]
    if exception := _raised(result.exception_info):
        return _Answer(written=written, tally=None, samples=[], trouble=f"could not be evaluated: {_short(exception)}")
    found = result.result
    try:
        tally = Tally(
            rows=found["rows"], unexpected=found["unexpected_count"], undecided=found["undecided"], legal=found["legal"]
        )
        samples = found["details"]["samples"]
    except (KeyError, TypeError) as error:
        return _Answer(written=written, tally=None, samples=[], trouble=f"came back without its counts: {error!r}")
    if bool(result.success) is not (tally.unexpected == 0 and tally.undecided == 0):
        return _Answer(
            written=written, tally=None, samples=samples, trouble="came back with a verdict that is not its counts'"
        )
    return _Answer(written=written, tally=tally, samples=samples)


def _raised(information: Mapping[str, Any] | None) -> str:
    """The message of an exception, which is held directly or one level down, by metric; empty where there was none."""
    if not information:
        return ""
    entries = [information, *(entry for entry in information.values() if isinstance(entry, Mapping))]
    for entry in entries:
        if entry.get("raised_exception"):
            return str(entry.get("exception_message") or "an exception without a message")
    return ""


def _tallies(answers: list[_Answer]) -> dict[str, Tally]:
    return {answer.written.name: answer.tally for answer in answers if answer.tally is not None}


def _judgement(
    file: SuiteFile, answers: list[_Answer], doubts: list[str], nothing: str, passed: Callable[[], str]
) -> Judgement:
    """The suite's verdict: unknown where the counts are in doubt, else the worst of its expectations.

    `nothing` says why there was nothing to judge, empty where there was; `passed` words the good end.
    """
    verdicts = [Verdict.UNKNOWN if doubts else answer.verdict for answer in answers]
    worst = merge_verdicts(verdicts)
    if doubts:
        more = f" (and {len(doubts) - 1} more doubts)" if len(doubts) > 1 else ""
        verdict, why = Verdict.UNKNOWN, f"The evidence does not agree with itself: {doubts[0]}{more}."
    elif worst is Verdict.PASSED and nothing:
        verdict, why = Verdict.NO_DATA, f"{nothing[0].upper()}{nothing[1:]}."
    elif worst is Verdict.PASSED:
        verdict, why = Verdict.PASSED, passed()
    else:
        verdict, why = worst, _said(next(answer for answer in answers if answer.verdict is worst), answers)
    return {
        "verdict": str(verdict),
        "why": why,
        "evaluated": len(_tallies(answers)),
        "written": len(file.expectations),
        "expectations": [
            _entry(answer.written, str(came_to), answer.tally, answer.samples)
            for answer, came_to in zip(answers, verdicts, strict=True)
        ],
    }


def _entry(written: Written, verdict: str, tally: Tally | None, samples: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": written.name,
        "description": written.description,
        "verdict": verdict,
        "rows": tally.rows if tally else 0,
        "unexpected": tally.unexpected if tally else 0,
        "undecided": tally.undecided if tally else 0,
        "legal": tally.legal if tally else 0,
        "samples": samples,
    }


def _said(answer: _Answer, answers: list[_Answer]) -> str:
    """One sentence on the first expectation that did not hold."""
    name, tally = answer.written.name, answer.tally
    also = [other.written.name for other in answers if other is not answer and other.verdict is answer.verdict]
    rest = f"; {answer.verdict} too: {', '.join(also)}" if also else ""
    if tally is None:
        return f"`{name}` {answer.trouble}{rest}."
    first = answer.samples[0] if answer.samples else {}
    if name in METRICS:
        subject = f" of {first.get('subject')}" if first.get("subject") else ""
        if answer.verdict is Verdict.UNKNOWN:
            return f"`{name}`{subject} could not be measured ({tally.undecided:,} of {tally.rows:,} values){rest}."
        bounds = _bounds(answer.written, first)
        # Infinity comes as a word, because JSON has no number for it.
        value = f"{float(first['value']):g} {first.get('unit') or ''}".rstrip() if first else "a value"
        return f"`{name}`{subject} is {value}, {bounds} ({tally.unexpected:,} of {tally.rows:,} values are not){rest}."
    where = f"; the first is {first.get('producer')} #{first.get('seq')} on {first.get('cluster')}" if first else ""
    if answer.verdict is Verdict.UNKNOWN and name != Anomaly.UNPROVEN:
        return f"Whether `{name}` holds is not recorded for {tally.undecided:,} of {tally.rows:,} rows{where}{rest}."
    number = tally.undecided if answer.verdict is Verdict.UNKNOWN else tally.unexpected
    meaning = DEFINITIONS[Anomaly(name)].meaning
    return f"{number:,} of {tally.rows:,} rows are `{name}`: such a message {meaning}{where}{rest}."


def _bounds(written: Written, row: Mapping[str, Any]) -> str:
    said = []
    for name, word in (("minimum", "at least"), ("maximum", "at most")):
        bound = row.get(name) if row.get(name) is not None else written.kwargs.get(name)
        if bound is not None:
            said.append(f"{word} {float(bound):g}")
    return f"and has to be {' and '.join(said)}"


def _passed_on_messages(answers: list[_Answer], counts: MessageCounts) -> str:
    legal = [f"{tally.legal:,} {name}" for name, tally in _tallies(answers).items() if tally.legal]
    allowed = f"; legal under the guarantee: {', '.join(legal)}" if legal else ""
    return f"All {len(answers)} expectations hold for {counts.rows:,} messages and places{allowed}."


def _passed_on_measurements(file: SuiteFile, answers: list[_Answer], rows: list[dict[str, Any]], run: Run) -> str:
    own = [row for row in rows if row["suite"] == file.suite]
    defaults = {written.name for written in file.expectations if {"minimum", "maximum"} & written.kwargs.keys()}
    bounded = [row for row in own if (row["minimum"], row["maximum"]) != (None, None) or row["metric"] in defaults]
    legal = [f"{name} {tally.legal:,} times" for name, tally in _tallies(answers).items() if tally.legal]
    allowed = f"; only the scenario's own bound allows {', '.join(legal)}" if legal else ""
    if bounded:
        return f"{len(bounded):,} of {len(own):,} measurements have bounds, and all of them are within{allowed}."
    faults = "" if run.scenario.faults else "no fault and "
    return f"The scenario sets {faults}no bound, so nothing can fail; {len(own):,} measurements are recorded."


def _no_data(file: SuiteFile, reason: str) -> Judgement:
    return {
        "verdict": str(Verdict.NO_DATA),
        "why": f"{reason}.",
        "evaluated": 0,
        "written": len(file.expectations),
        "expectations": [_entry(written, str(Verdict.NO_DATA), None, []) for written in file.expectations],
    }


def _unknown(suite: Suite, expectations_dir: str, error: Exception) -> Judgement:
    logging.getLogger(__name__).warning("%s could not be judged", suite, exc_info=error)
    try:
        written = read_suite(expectations_dir, suite).expectations
    except InputError:
        written = ()
    return {
        "verdict": str(Verdict.UNKNOWN),
        "why": f"The suite could not be judged: {_short(str(error) or repr(error))}",
        "evaluated": 0,
        "written": len(written),
        "expectations": [_entry(expectation, str(Verdict.UNKNOWN), None, []) for expectation in written],
    }


def _short(text: str) -> str:
    """The first line of an error; Spark's are followed by a plan or a Java stack."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= _LONGEST_REASON else f"{line[:_LONGEST_REASON]}…"


def _publish_data_docs(library: Library, site: str, run: Run) -> dict[str, str]:
    """Build the pages here and put them into the run's directory, wherever that is."""
    try:
        library.build_data_docs()
        filesystem, target = fsspec.url_to_fs(run.path("report", "data_docs"))
        if filesystem.exists(target):
            filesystem.rm(target, recursive=True)
        filesystem.makedirs(target.rsplit("/", 1)[0], exist_ok=True)
        filesystem.put(f"{site}/", f"{target}/", recursive=True)
        if not run.exists("report", "data_docs", "index.html"):
            return {"data_docs_error": "Great Expectations built no index page"}
    except Exception as error:
        return {"data_docs_error": _short(f"{type(error).__name__}: {error}")}
    return {"data_docs": data_docs_index(run)}
