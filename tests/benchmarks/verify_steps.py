"""How long each step of judging a run takes: `python tests/benchmarks/verify_steps.py RUN_DIR [--rounds 3]`.

The run is judged several times in one warm Spark session, with its suites and its page's series. The table has, for
each step and in the median of the rounds, seconds, processor seconds of this process with Spark and its workers, and
the number of Spark jobs. The run's directory must be a copy, because judging writes into it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

import psutil

sys.path.insert(0, str(Path(__file__).parent))


def main() -> None:
    """Judge a run several times, and print a table of its steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run_dir", help="a copy of a run")
    parser.add_argument("--rounds", type=int, default=3, help="how often the run is judged after the first time")
    options = parser.parse_args()
    import verify_scale

    spark = verify_scale.start_session("local[2]", messages=1)
    spark.range(10).count()
    rounds = [_judge(spark, options.run_dir) for _ in range(options.rounds + 1)]
    print(f"{'step':<16}{'first s':>10}{'s':>10}{'cpu s':>10}{'jobs':>8}")
    for step in rounds[0]:
        seconds, used, jobs = (statistics.median(each[step][number] for each in rounds[1:]) for number in range(3))
        print(f"{step:<16}{rounds[0][step][0]:>10.2f}{seconds:>10.2f}{used:>10.2f}{jobs:>8g}")


def _judge(spark: Any, directory: str) -> Mapping[str, tuple[float, float, int]]:
    import verify
    from brokerproof.run.directory import Run
    from brokerproof_judging import run_judging
    from brokerproof_judging.suites import evaluation

    steps: dict[str, tuple[float, float, int]] = {}

    @contextmanager
    def time_step(_: Any, name: str) -> Iterator[None]:
        started, used, jobs = time.monotonic(), _read_cpu(), _count_jobs(spark)
        try:
            yield
        finally:
            steps[name] = (time.monotonic() - started, _read_cpu() - used, _count_jobs(spark) - jobs)

    run = Run(directory)
    publish = evaluation.publish_data_docs

    def publish_timed(*arguments: Any) -> Any:
        with time_step(None, "(data docs)"):
            return publish(*arguments)

    # As `verify` does it.
    importing = threading.Thread(target=import_module, args=("great_expectations",), daemon=True)
    importing.start()
    with (
        mock.patch.object(run_judging.Stopwatch, "time_step", time_step),
        mock.patch.object(evaluation, "publish_data_docs", publish_timed),
        time_step(None, "whole"),
    ):
        with time_step(None, "(judge_run)"):
            judgement = run_judging.judge_run(spark, run, evaluation.evaluate, [str(verify.EXPECTATIONS)])
        with time_step(None, "series"):
            series = verify._make_series(run)
    assert not series.problem, series.problem
    found = {name: str(suite.verdict) for name, suite in judgement.suites.items()}
    print(json.dumps({"verdict": str(judgement.verdict), "suites": found, "seconds": steps}), file=sys.stderr)
    return steps


def _count_jobs(spark: Any) -> int:
    return int(spark.sparkContext._jsc.sc().dagScheduler().nextJobId())


def _read_cpu() -> float:
    root = psutil.Process()
    used = 0.0
    for process in (root, *root.children(recursive=True)):
        try:
            used += sum(process.cpu_times()[:2])
        except psutil.NoSuchProcess:
            continue
    return used


if __name__ == "__main__":
    main()
