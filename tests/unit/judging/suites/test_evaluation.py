"""From a library's results to a suite's judgement: each way to it, without the library."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from brokerproof.errors import InputError, MachineError
from brokerproof.experiment.guarantees import Suite
from brokerproof.experiment.verdict import Verdict
from brokerproof.run.judgement import SuiteJudgement
from brokerproof.suites.suite_file import SuiteFile, make_entry
from brokerproof.suites.written_expectation import WrittenExpectation
from brokerproof_judging.suites import evaluation
from brokerproof_judging.suites.evaluation import JudgedTables, evaluate, keep_applicable
from brokerproof_judging.suites.library import Validation
from pyspark.errors import PySparkException

from .conftest import EXPECTATIONS, RUN_ID, Planted, measurement, move_to_log_server

STANDARD = {"description": "It holds.", "meta": {"table": "messages"}}
BETWEEN = {**STANDARD, "type": "expect_column_values_to_be_between", "kwargs": {"column": "seq", "min_value": 0}}
SQL = "SELECT * FROM {batch} WHERE seq < 0"
QUERY = {**STANDARD, "type": "unexpected_rows_expectation", "kwargs": {"unexpected_rows_query": SQL}}
ROWS = 40
# What a test says about an expectation: its counts, or what else to do with its result.
Said = Mapping[str, Any]


class Library:
    """Says of each expectation that it holds for all rows of its frame, or what a test wants."""

    def __init__(self, said: Mapping[str, Said] | None = None, error: Exception | None = None) -> None:
        self._said, self._error = said or {}, error
        self.asked: list[tuple[SuiteFile, Any]] = []
        self.site, self.run_name = "", ""
        self.validated: dict[str, bool] = {}

    def __call__(self, site: str, run_name: str) -> Library:
        self.site, self.run_name = site, run_name
        if self._error:
            raise self._error
        return self

    def validate(self, file: SuiteFile, frame: Any) -> Validation:
        self.asked.append((file, frame))
        results = [self._answer(written, frame) for written in file.expectations]
        success = all(result.success for result in results)
        self.validated[file.title] = success
        return Validation(taken=len(file.expectations), success=success, results=results)

    def _answer(self, written: WrittenExpectation, frame: Any) -> Any:
        rows = int(frame["rows"].sum()) if "rows" in frame else int((frame["metric"] == written.name).sum())
        said = self._said.get(written.name, {})
        counts = {"rows": rows, "unexpected_count": 0, "undecided": 0, "legal": 0, **said}
        exception = {"raised_exception": True, "exception_message": said["raises"]} if "raises" in said else None
        return SimpleNamespace(
            expectation_config=SimpleNamespace(kwargs=written.kwargs, meta={"name": written.name}),
            exception_info=exception,
            success=not counts["unexpected_count"] and not counts["undecided"] and exception is None,
            result={**counts, "details": {"samples": said.get("samples", [])}},
        )

    def build_data_docs(self) -> None:
        (Path(self.site) / "page.html").write_text("<html><head><title>t</title></head></html>")


class NoSpark:
    """Spark, which nothing here may need."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"Spark was asked for {name}")


@pytest.fixture
def own(tmp_path: Path) -> Callable[..., str]:
    """Writes a suite of a user's own, and returns its directory."""

    def write(*entries: dict[str, Any], name: str = "mine") -> str:
        directory = tmp_path / "own"
        directory.mkdir(exist_ok=True)
        (directory / f"{name}.json").write_text(json.dumps({"name": name, "expectations": list(entries)}))
        return str(directory)

    return write


def judge(planted: Planted, *directories: str, library: Any = None, **options: Any) -> dict[str, SuiteJudgement]:
    options = {"data_docs": False, **options}
    places = [*directories, str(EXPECTATIONS)]
    return evaluate(NoSpark(), planted.write(), places, library=library or Library(), **options)  # type: ignore[arg-type]


def judge_one(planted: Planted, suite: str, *directories: str, library: Any = None) -> SuiteJudgement:
    (judgement,) = judge(planted, *directories, library=library, suites=[suite]).values()
    return judgement


def verdicts(judgement: SuiteJudgement) -> dict[str, str]:
    return {check.name: str(check.verdict) for check in judgement.expectations}


# Which suites


def test_all_suites_are_judged_once_and_those_that_are_required(planted: Planted, own: Callable[..., str]) -> None:
    directory = own(make_entry("lost"))
    library = Library()
    judged = judge(planted, directory, library=library, required=["mine", "gone"])
    assert list(judged) == [*map(str, Suite), "mine", "gone"]
    assert {str(each.verdict) for name, each in judged.items() if name != "gone"} == {"passed"}
    assert judged["gone"].verdict is Verdict.UNKNOWN
    assert judged["gone"].why.startswith("The suite could not be judged: ")
    assert "gone.json: no such file" in judged["gone"].why
    assert (judged["gone"].expectations, judged["gone"].written) == ((), 0)
    assert library.run_name == RUN_ID
    assert {file.suite for file, _ in library.asked} == {*map(str, Suite), "mine"}


def test_only_the_suites_that_are_named_are_judged_each_once(planted: Planted) -> None:
    judged = judge(planted, suites=["ordering", "recovery", "ordering"], required=["gone"])
    assert list(judged) == ["ordering", "recovery"]


def test_without_the_library_every_suite_is_unknown(planted: Planted, caplog: pytest.LogCaptureFixture) -> None:
    judged = judge(planted, library=Library(error=MachineError("")), suites=["ordering", "recovery"])
    for judgement in judged.values():
        assert (judgement.verdict, judgement.evaluated) == (Verdict.UNKNOWN, 0)
        assert judgement.why == "The suite could not be judged: MachineError('')"
        assert set(verdicts(judgement).values()) == {"unknown"}
    assert len(judged["ordering"].expectations) == 5
    assert "ordering could not be judged" in caplog.text
    assert "MachineError" in caplog.text


def test_pages_are_built_only_if_they_are_wanted(planted: Planted, tmp_path: Path) -> None:
    library = Library()
    (judgement,) = judge(planted, library=library, suites=["ordering"]).values()
    assert not (tmp_path / "run" / "report").exists()
    assert not Path(library.site).exists(), "the directory of the pages stays"
    planted.directory = str(tmp_path / "again")
    (with_pages,) = judge(planted, suites=["ordering"], data_docs=True).values()
    assert list((tmp_path / "again" / "report" / "data_docs").glob("*.html"))
    assert with_pages.data_docs_error is None
    assert with_pages.verdict is judgement.verdict
    planted.directory = str(tmp_path / "default")
    evaluate(NoSpark(), planted.write(), [str(EXPECTATIONS)], suites=["ordering"], library=Library())  # type: ignore[arg-type]
    assert (tmp_path / "default" / "report" / "data_docs").exists()


def test_an_error_in_one_suite_leaves_the_others(planted: Planted, caplog: pytest.LogCaptureFixture) -> None:
    class Breaking(Library):
        def validate(self, file: SuiteFile, frame: Any) -> Validation:
            if file.suite == "ordering":
                raise ValueError("it broke\nand more")
            return super().validate(file, frame)

    judged = judge(planted, library=Breaking(), suites=["ordering", "uniqueness"])
    assert judged["ordering"].why == "The suite could not be judged: it broke"
    assert judged["uniqueness"].verdict is Verdict.PASSED
    (logged,) = caplog.records
    assert (logged.name, logged.getMessage()) == (evaluation.__name__, "ordering could not be judged")
    assert "and more" in caplog.text, "the log has no trace"


# Messages


def test_expectations_on_messages_see_all_rows(planted: Planted) -> None:
    library = Library()
    judgement = judge_one(planted, "ordering", library=library)
    assert (judgement.verdict, judgement.evaluated, judgement.written) == (Verdict.PASSED, 4, 4)
    not_applicable = "Not applicable: `key_on_two_consumers` (no subscription is key_shared)."
    assert judgement.why == f"All 4 expectations hold for 40 messages and places. {not_applicable}"
    ((file, frame),) = library.asked
    assert (file.title, int(frame["rows"].sum())) == ("ordering", ROWS)
    first = judgement.expectations[0]
    assert (first.name, first.table, first.minimum, first.maximum) == ("stored_out_of_order", "", None, None)
    assert first.description == make_entry("stored_out_of_order")["description"]
    assert (first.rows, first.unexpected, first.undecided, first.legal, first.samples, first.why) == (
        40,
        0,
        0,
        0,
        (),
        "",
    )


def test_what_the_library_counts_is_what_the_check_says(planted: Planted) -> None:
    planted.mark("stored_out_of_order", count=2)
    planted.mark("stored_out_of_order", legal=True, count=3, in_log=False)
    sample = {"producer": "producer-1", "seq": 0, "cluster": "mycluster"}
    said = {"stored_out_of_order": {"unexpected_count": 2, "legal": 3, "samples": [sample]}}
    judgement = judge_one(planted, "ordering", library=Library(said))
    assert judgement.verdict is Verdict.FAILED
    first = judgement.expectations[0]
    assert (first.verdict, first.unexpected, first.legal, first.samples) == (Verdict.FAILED, 2, 3, (sample,))
    assert [str(check.verdict) for check in judgement.expectations] == ["failed", *3 * ["passed"], "not_applicable"]
    assert judgement.why.startswith("2 of 40 rows are `stored_out_of_order`")


def test_an_empty_table_and_a_run_without_an_ack_are_no_data(planted: Planted, tmp_path: Path) -> None:
    for row in planted.messages:
        row["outcome"] = "unknown"
    judgement = judge_one(planted, "ordering")
    assert (judgement.verdict, judgement.why) == (
        Verdict.NO_DATA,
        "No message was acknowledged, so nothing had to hold.",
    )
    planted.messages[0]["outcome"] = "acked"
    planted.directory = str(tmp_path / "acked")
    assert judge_one(planted, "ordering").verdict is Verdict.PASSED
    planted.messages.clear()
    planted.directory = str(tmp_path / "empty")
    library = Library()
    judgement = judge_one(planted, "ordering", library=library)
    assert (judgement.verdict, judgement.evaluated, judgement.written) == (Verdict.NO_DATA, 0, 4)
    assert judgement.why == "`messages` holds no row; nothing was published or delivered."
    assert set(verdicts(judgement).values()) == {"no_data", "not_applicable"}
    assert library.asked == []


def test_a_run_without_an_ack_in_which_something_is_wrong_is_not_excused(planted: Planted) -> None:
    for row in planted.messages:
        row["outcome"] = "unknown"
    planted.mark("stored_out_of_order")
    judgement = judge_one(planted, "ordering", library=Library({"stored_out_of_order": {"unexpected_count": 1}}))
    assert judgement.verdict is Verdict.FAILED


@pytest.mark.parametrize(
    ("said", "more"),
    [
        ({"stored_out_of_order": {"rows": 39}}, ""),
        ({"stored_out_of_order": {"rows": 39}, "position_regressed": {"rows": 1}}, " (and 1 more doubts)"),
        ({"stored_out_of_order": {"rows": 39, "legal": 1}, "position_regressed": {"rows": 1}}, " (and 2 more doubts)"),
    ],
)
def test_counts_that_do_not_agree_make_every_expectation_unknown(
    planted: Planted, said: dict[str, Said], more: str
) -> None:
    judgement = judge_one(planted, "ordering", library=Library(said))
    assert judgement.verdict is Verdict.UNKNOWN
    assert judgement.why.startswith("The evidence does not agree with itself: `")
    assert judgement.why.endswith(f"rows{more}.") or "and `anomalies` has" in judgement.why
    assert ("more doubts" in judgement.why) is bool(more)
    assert more in judgement.why
    assert set(verdicts(judgement).values()) == {"unknown", "not_applicable"}
    assert (judgement.evaluated, judgement.written) == (4, 4)


def test_an_expectation_that_could_not_be_evaluated_is_unknown_and_leaves_the_others(planted: Planted) -> None:
    judgement = judge_one(planted, "ordering", library=Library({"stored_out_of_order": {"raises": "no column"}}))
    assert judgement.verdict is Verdict.UNKNOWN
    assert judgement.why == "`stored_out_of_order` could not be evaluated: no column."
    assert [str(check.verdict) for check in judgement.expectations] == ["unknown", *3 * ["passed"], "not_applicable"]
    assert (judgement.evaluated, judgement.written) == (3, 4)
    assert judgement.expectations[0].rows == 0


@pytest.mark.parametrize("table", ["messages", "anomalies"])
def test_a_table_that_is_missing_makes_suites_on_messages_unknown(
    planted: Planted, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    exists = evaluation.Run.exists
    monkeypatch.setattr(evaluation.Run, "exists", lambda run, *path: path != ("tables", table) and exists(run, *path))
    judgement = judge_one(planted, "ordering")
    assert judgement.verdict is Verdict.UNKNOWN
    assert judgement.why.endswith(f"{table} is missing; did `verify` write it?")


# Measurements


def test_expectations_on_measurements_see_the_rows_of_their_suite(planted: Planted) -> None:
    library = Library()
    judgement = judge_one(planted, "placement", library=library)
    assert judgement.verdict is Verdict.PASSED
    ((file, frame),) = library.asked
    assert file.title == "placement"
    assert set(frame["suite"]) == {"placement"}
    assert list(frame.columns) == evaluation.SCHEMAS["measurements"].names
    assert set(map(str, frame.dtypes)) == {"object"}
    check = next(check for check in judgement.expectations if check.name == "segments_not_spanning")
    assert (check.rows, check.table) == (2, "")


@pytest.mark.parametrize("limits", [{"minimum": 0.25}, {"maximum": 0.75}, {}])
def test_a_check_has_the_limits_that_the_suite_sets(
    planted: Planted, own: Callable[..., str], limits: dict[str, float]
) -> None:
    entry = make_entry("rate_held")
    kwargs = {name: value for name, value in entry["kwargs"].items() if name not in ("minimum", "maximum")}
    (check,) = judge_one(planted, "mine", own({**entry, "kwargs": {**kwargs, **limits}})).expectations
    assert (check.minimum, check.maximum) == (limits.get("minimum"), limits.get("maximum"))


def test_a_suite_without_a_measurement_is_no_data(planted: Planted, own: Callable[..., str], tmp_path: Path) -> None:
    planted.measurements = [row for row in planted.measurements if row["suite"] == "recovery"]
    judgement = judge_one(planted, "placement")
    assert (judgement.verdict, judgement.evaluated) == (Verdict.NO_DATA, 0)
    assert judgement.why == "`measurements` holds no row of placement, so no value was measured."
    assert set(verdicts(judgement).values()) == {"no_data"}
    planted.measurements.clear()
    planted.directory = str(tmp_path / "none")
    mixed = judge_one(planted, "mine", own(make_entry("rto_s"), make_entry("owner_in_region")))
    assert mixed.why == "`measurements` holds no row of recovery or placement, so no value was measured."


def test_measurements_that_are_doubted_are_unknown_and_what_was_not_evaluated_is_no_doubt(
    planted: Planted, own: Callable[..., str], tmp_path: Path
) -> None:
    directory = own(make_entry("sampling_gap_s"), make_entry("publish_latency_p99_ms"))
    judgement = judge_one(planted, "mine", directory, library=Library({"sampling_gap_s": {"rows": 2}}))
    assert judgement.verdict is Verdict.UNKNOWN
    assert judgement.why.startswith("The evidence does not agree with itself: `sampling_gap_s` was found")
    planted.directory = str(tmp_path / "raised")
    said = {"sampling_gap_s": {"rows": 2}, "publish_latency_p99_ms": {"raises": "no column"}}
    judgement = judge_one(planted, "mine", directory, library=Library(said))
    assert judgement.why == "`publish_latency_p99_ms` could not be evaluated: no column."
    assert (judgement.evaluated, judgement.written) == (1, 2)


def test_a_missing_table_of_measurements_is_named(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    exists = evaluation.Run.exists
    monkeypatch.setattr(evaluation.Run, "exists", lambda run, *path: path[-1] != "measurements" and exists(run, *path))
    assert judge_one(planted, "recovery").why.endswith("measurements is missing; did `verify` write it?")


def test_without_rows_the_columns_of_measurements_are_there(planted: Planted) -> None:
    tables = JudgedTables(NoSpark(), planted.write())  # type: ignore[arg-type]
    frame = tables.select_measurements([])
    assert (len(frame), list(frame.columns)) == (0, evaluation.SCHEMAS["measurements"].names)


# Parts of one suite


def test_a_suite_of_two_parts_has_the_worst_verdict_and_the_reasons_for_it(
    planted: Planted, own: Callable[..., str], tmp_path: Path
) -> None:
    directory = own(make_entry("sampling_gap_s"), make_entry("lost"))
    library = Library()
    judgement = judge_one(planted, "mine", directory, library=library)
    assert judgement.why.startswith("All 1 expectations hold for 40 messages and places. The scenario sets no fault")
    assert [file.title for file, _ in library.asked] == ["mine", "mine.bounds"]
    assert (judgement.evaluated, judgement.written) == (2, 2)
    # In the order of the file.
    assert list(verdicts(judgement)) == ["sampling_gap_s", "lost"]
    planted.directory = str(tmp_path / "failed")
    planted.mark("lost")
    failed = judge_one(planted, "mine", directory, library=Library({"lost": {"unexpected_count": 1}}))
    assert failed.verdict is Verdict.FAILED
    assert failed.why.startswith("1 of 40 rows are `lost`")
    assert "measurements" not in failed.why
    assert verdicts(failed) == {"sampling_gap_s": "passed", "lost": "failed"}


@pytest.mark.parametrize(
    ("error", "why"), [(ValueError("no such column\nJava"), "no such column"), (ValueError(), "ValueError()")]
)
def test_a_table_that_cannot_be_read_makes_its_expectations_unknown(
    planted: Planted,
    own: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: ValueError,
    why: str,
) -> None:
    def refuse(*_: object) -> Any:
        raise error

    monkeypatch.setattr(evaluation.table_io, "read_table", refuse)
    monkeypatch.setattr(evaluation, "check_parsed_query", lambda *_: None)
    judgement = judge_one(planted, "mine", own(BETWEEN, make_entry("lost")))
    assert judgement.verdict is Verdict.UNKNOWN
    assert f"could not be evaluated: {why}" in judgement.why
    assert "Java" not in judgement.why
    assert sorted(verdicts(judgement).values()) == ["passed", "unknown"]
    (check,) = (check for check in judgement.expectations if check.table)
    assert (check.table, check.minimum, check.maximum, check.rows) == ("messages", None, None, 0)
    assert (judgement.evaluated, judgement.written) == (1, 2)
    (logged,) = caplog.records
    assert (logged.name, logged.getMessage()) == (evaluation.__name__, "mine.messages could not be judged")
    assert logged.exc_info is not None
    assert logged.exc_info[1] is error


def test_a_query_that_breaks_a_rule_is_named_with_its_place(
    planted: Planted, own: Callable[..., str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []

    def check(spark: object, query: str) -> None:
        asked.append(query)
        raise InputError("reads a file", remedy="leave it out")

    monkeypatch.setattr(evaluation, "check_parsed_query", check)
    directory = own(make_entry("lost"), QUERY)
    judgement = judge_one(planted, "mine", directory)
    assert judgement.verdict is Verdict.UNKNOWN
    assert "expectations.1.kwargs.unexpected_rows_query: reads a file" in judgement.why
    assert "mine.json" in judgement.why
    (query,) = asked
    assert "{batch}" not in query

    def break_down(*_: object) -> None:
        raise PySparkException("no such table")

    # What Spark cannot parse is told when it is evaluated.
    monkeypatch.setattr(evaluation, "check_parsed_query", break_down)
    planted.directory = str(tmp_path / "parsed")
    assert "could not be evaluated" in judge_one(planted, "mine", directory).why


# What does not apply


@pytest.fixture
def on_log_server(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> Planted:
    """A sound run of the log server with one measurement."""
    planted.measurements = [measurement("sampling_gap_s", "run", 0.6)]
    return move_to_log_server(planted, monkeypatch)


def test_what_a_system_cannot_do_is_set_apart_in_the_order_of_the_file(
    on_log_server: Planted, own: Callable[..., str]
) -> None:
    directory = own(make_entry("lost"), make_entry("not_replicated"), make_entry("undelivered"))
    judgement = judge_one(on_log_server, "mine", directory)
    assert verdicts(judgement) == {"lost": "passed", "not_replicated": "not_applicable", "undelivered": "passed"}
    assert judgement.expectations[1].why == "testlog cannot send what is published in one cluster to another one"
    assert judgement.why == (
        "All 2 expectations hold for 40 messages and places. Not applicable: `not_replicated` "
        "(testlog cannot send what is published in one cluster to another one)."
    )
    # They count neither as written nor as evaluated.
    assert (judgement.evaluated, judgement.written) == (2, 2)


def test_the_reasons_follow_no_failure(on_log_server: Planted, own: Callable[..., str]) -> None:
    on_log_server.mark("lost")
    directory = own(make_entry("lost"), make_entry("not_replicated"))
    judgement = judge_one(on_log_server, "mine", directory, library=Library({"lost": {"unexpected_count": 1}}))
    assert judgement.verdict is Verdict.FAILED
    assert "Not applicable" not in judgement.why


def test_a_suite_of_which_nothing_applies_does_not_apply(on_log_server: Planted, own: Callable[..., str]) -> None:
    library = Library()
    judgement = judge_one(on_log_server, "mine", own(make_entry("not_replicated")), library=library)
    assert (judgement.verdict, judgement.evaluated, judgement.written) == (Verdict.NOT_APPLICABLE, 0, 0)
    assert judgement.why.startswith("Not applicable: `not_replicated` (")
    assert library.asked == []


@pytest.mark.parametrize(
    ("owner", "bounds", "required", "verdict"),
    [
        # Beside what cannot be measured, nothing is asked for.
        ({}, {}, False, "not_applicable"),
        ({}, {"lost_later_messages": {"max": 0}}, False, "not_applicable"),
        ({}, {"rto_s": {"max": 5}}, False, "no_data"),
        ({}, {}, True, "no_data"),
    ],
)
def test_what_the_scenario_does_not_ask_for_does_not_apply(
    on_log_server: Planted,
    own: Callable[..., str],
    owner: dict[str, str],
    bounds: dict[str, Any],
    required: bool,
    verdict: str,
) -> None:
    on_log_server.measurements.clear()
    on_log_server.scenario |= {"owner": owner, "bounds": bounds}
    wanted = make_entry("sampling_gap_s" if required else "rto_s")
    wanted["kwargs"] |= {"required": True} if required else {}
    judgement = judge_one(on_log_server, "mine", own(make_entry("segments_not_spanning"), wanted))
    name = wanted["kwargs"]["metric"]
    assert verdicts(judgement)[name] == verdict
    if verdict == "not_applicable":
        assert judgement.expectations[1].why == "the scenario does not ask for it"
        assert judgement.verdict is Verdict.NOT_APPLICABLE


def test_measurements_that_a_run_has_are_judged_although_others_do_not_apply(
    on_log_server: Planted, own: Callable[..., str]
) -> None:
    judgement = judge_one(on_log_server, "mine", own(make_entry("segments_not_spanning"), make_entry("rto_s")))
    assert verdicts(judgement) == {"segments_not_spanning": "not_applicable", "rto_s": "passed"}


def test_where_everything_applies_a_suite_without_rows_is_not_excused(
    planted: Planted, own: Callable[..., str]
) -> None:
    planted.measurements.clear()
    assert judge_one(planted, "mine", own(make_entry("rto_s"))).verdict is Verdict.NO_DATA


def test_a_standard_expectation_applies_to_every_system(on_log_server: Planted, own: Callable[..., str]) -> None:
    from brokerproof.suites.suite_file import read_suite

    file = read_suite([own(BETWEEN, make_entry("not_replicated"))], "mine")
    kept, reasons = keep_applicable(file, on_log_server.write())
    assert [written.table for written in kept.expectations] == ["messages"]
    assert list(reasons) == ["not_replicated"]


def test_a_frame_of_groups_has_the_number_of_rows_of_each_group(planted: Planted) -> None:
    planted.mark("lost", count=3)
    tables = JudgedTables(NoSpark(), planted.write())  # type: ignore[arg-type]
    assert isinstance(tables.message_groups, pd.DataFrame)
    assert int(tables.message_groups["rows"].sum()) == tables.message_counts.rows == ROWS
