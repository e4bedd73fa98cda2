"""Judges a run in order: facts about messages, the tables of results, measurements, suites, and one verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

from brokerproof.errors import RunError
from brokerproof.experiment.verdict import Verdict, merge_verdicts
from brokerproof.run.directory import Run
from brokerproof.run.judgement import Counts, Judgement, SuiteJudgement
from brokerproof.run.seals import WRITERS, SealCheck, check_seals
from brokerproof.run.table_rows import check_files
from brokerproof.systems.registry import use_own_names
from pyspark.sql import SparkSession

from brokerproof_judging import table_io
from brokerproof_judging.client_counts import find_count_problems
from brokerproof_judging.evidence import Evidence
from brokerproof_judging.instrument import WHOLE, Instrument, examine_instrument, withhold_claims
from brokerproof_judging.measurements.measured_values import make_measurements
from brokerproof_judging.measurements.run_measurements import group_by_fault, measure_run, read_recorded_events
from brokerproof_judging.messages.message_judging import MessageJudging, start_judging_workers
from brokerproof_judging.messages.publish_record import find_least_delay, find_problems, list_logs
from brokerproof_judging.run_database import open_run_database
from brokerproof_judging.wall_clock import read_wall_clocks


def conclude(
    counts: Counts, problems: Sequence[str], suites: Mapping[str, SuiteJudgement], instrument: Instrument = WHOLE
) -> tuple[Verdict, str]:
    """Return the verdict on the whole run, and a sentence with the reason.

    `problems` are sentences about missing evidence, and about errors of the instrument (Brokerproof itself). The
    verdict is `no_data` if no message was published and the instrument had no error.
    """
    if not counts.publishes and instrument.is_whole:
        return Verdict.NO_DATA, "No message was published."
    verdicts = [suite.verdict for suite in suites.values()]
    verdict = merge_verdicts([*verdicts, *([Verdict.UNKNOWN] if problems or not instrument.is_whole else [])])
    if verdict is Verdict.PASSED:
        total = f"{counts.messages} messages, {counts.acked} of them acknowledged"
        return verdict, f"All that was promised held for {total}."
    reasons = [f"{name}: {suite.why}" for name, suite in suites.items() if suite.verdict is verdict]
    if verdict is Verdict.UNKNOWN:
        # If the instrument is broken, its problems are the reason. The judgement lists the gaps that they caused.
        reasons = [*problems, *reasons] if instrument.is_whole else list(instrument.problems or problems) or reasons
        reasons.append(f"what is proven nevertheless: {_describe_proven(counts, suites, instrument)}")
    elif verdict is Verdict.FAILED and problems:
        reasons.append(f"also not known: {'; '.join(_strip(problem) for problem in problems)}")
    if not reasons:
        return verdict, "No suite gave a reason."
    return verdict, "; ".join(_strip(reason) for reason in reasons) + "."


def _describe_proven(counts: Counts, suites: Mapping[str, SuiteJudgement], instrument: Instrument) -> str:
    if not instrument.publishes_are_whole or not counts.acked:
        return "nothing"
    held = [str(name) for name, suite in suites.items() if suite.verdict is Verdict.PASSED]
    acked = f"{counts.acked:,} messages were acknowledged"
    return f"{acked}, and {' and '.join(held)} held" if held else acked


def _strip(sentence: str) -> str:
    return sentence.rstrip(".")


WITHOUT_SEALS = "This run was recorded before tables had seals, so nothing proves that its tables are whole."

EvaluateSuites = Callable[[SparkSession, Run, Sequence[str]], Mapping[str, SuiteJudgement]]

_Takes = ParamSpec("_Takes")
_Gives = TypeVar("_Gives")


def judge_run(spark: SparkSession, run: Run, evaluate: EvaluateSuites, expectations: Sequence[str]) -> Judgement:
    """Write the tables `messages`, `anomalies` and `measurements` of a run, and return the judgement.

    `evaluate` runs the suites of the directories `expectations` on these tables. If judging fails and recorded tables
    differ from their seals (lists of checksums), the raised RunError names these differences.
    """
    seals = check_seals(run)
    try:
        return _judge(spark, run, seals, evaluate, expectations)
    except Exception as error:
        if seals.problems:
            raise RunError(f"{' '.join(seals.problems)} ({error!r})") from error
        raise


def _judge(
    spark: SparkSession, run: Run, seals: SealCheck, evaluate: EvaluateSuites, expectations: Sequence[str]
) -> Judgement:
    watch = Stopwatch()
    # Spark reads tables without limits, so a file that is a bomb must not get so far.
    check_files(run, WRITERS)
    wall_clocks = read_wall_clocks(run)
    # The clock error that judging uses is 0 if all processes ran on one host.
    run = use_own_names(run.with_facts(clock_error_us=wall_clocks.clock_error_us))
    replacement = table_io.Replacement(run)
    jobs = BackgroundJobs()
    try:
        workers = jobs.begin(start_judging_workers, spark)
        recorded = jobs.begin(read_recorded_events, run)
        evidence = Evidence.from_run(run)
        with watch.time_step("facts"):
            messages = MessageJudging(spark, run, evidence, replacement)
            summaries = messages.work_out_facts()
            workers.result()
        with watch.time_step("tables"):
            counts = messages.write_tables()
        with watch.time_step("measurements"):
            record_problems = find_count_problems(run, summaries)
            record_problems["publishes"] += find_problems(summaries)
            doubt = wall_clocks.doubt_hosts(find_least_delay(summaries))
            instrument = examine_instrument(run, seals, record_problems, doubt)
            problems = [*instrument.problems, *evidence.list_problems(run, list_logs(summaries))]
            places = {"messages": replacement.locate_beside("messages")}
            with open_run_database(run, tuple(places), places) as judged:
                measurements = make_measurements(run, measure_run(run, recorded.result(), judged, counts))
            rows = [measurement.model_dump(mode="json") for measurement in measurements]
            replacement.write("measurements", rows)
        replacement.take_place()
    finally:
        jobs.end()
        replacement.discard()
    with watch.time_step("suites"):
        evaluated = evaluate(spark, run, expectations)
        suites = withhold_claims(evaluated, instrument, problems, faults_undone=evidence.undone.given)
    verdict, why = conclude(counts, problems, suites, instrument)
    return Judgement(
        verdict=verdict,
        why=why,
        problems=tuple(problems),
        notes=(*(() if run.facts.sealed else (WITHOUT_SEALS,)), *wall_clocks.list_notes()),
        suites=dict(suites),
        counts=counts,
        recovery=group_by_fault(measurements),
        measurements=tuple(measurements),
        seconds=watch.seconds,
    )


class BackgroundJobs:
    """Starts Spark jobs in threads, because a single job leaves cores idle while it is planned and when it ends."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(thread_name_prefix="judging")

    def begin(self, job: Callable[_Takes, _Gives], *args: _Takes.args, **kwargs: _Takes.kwargs) -> Future[_Gives]:
        """Start `job(*args, **kwargs)` in a thread. If the job raises an error, the future's `result()` raises it."""
        return self._pool.submit(job, *args, **kwargs)

    def end(self) -> None:
        """Cancel the jobs that have not started, and wait for the others, so that no job writes after this call."""
        self._pool.shutdown(cancel_futures=True)


@dataclass
class Stopwatch:
    """Measures the wall time of each step of judging: `seconds` by the step's name."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def time_step(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = round(time.monotonic() - started, 3)
