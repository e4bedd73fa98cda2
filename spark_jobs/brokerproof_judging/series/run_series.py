"""Makes all series of a run."""

from __future__ import annotations

from brokerproof.run.directory import Run
from brokerproof.run.series import RunSeries
from pyspark.sql import SparkSession

from brokerproof_judging.series.message_series import make_message_series
from brokerproof_judging.series.sample_series import make_sample_series
from brokerproof_judging.series.time_steps import choose_time_steps


def make_run_series(spark: SparkSession, run: Run) -> RunSeries:
    """Return the series of a judged run, or only a `problem` if no time of the jobs load and consume is recorded.

    The series need the table `messages`.
    """
    steps = choose_time_steps(run)
    if steps is None:
        return RunSeries(problem="Nothing was published, so there is nothing to draw.")
    publishes, deliveries = make_message_series(spark, run, steps)
    samples, owners = make_sample_series(run, steps)
    return RunSeries(
        start=steps.start_us,
        step_s=float(steps.step_s),
        steps=steps.count,
        publishes=publishes,
        deliveries=deliveries,
        samples=samples,
        owners=owners,
    )
