"""Makes all series of a run, of messages and of samples, and lists the changes of topic owners."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from brokerproof.run.directory import Run
from brokerproof.run.observations import CURVES, SampledMetric, SeriesKind, Source, parse_names, split_name
from brokerproof.run.series import OwnerChange, RunSeries, SampleSeries
from brokerproof.run.table_rows import iterate_rows

from brokerproof_judging.series.message_series import TimeSteps, choose_time_steps, make_message_series

Sample = tuple[int, str]


def make_sample_series(run: Run, steps: TimeSteps) -> tuple[tuple[SampleSeries, ...], tuple[OwnerChange, ...]]:
    """Return the series of the metrics in `CURVES`, and the changes of topic owners."""
    # By source and metric, the last sample of each step. Earlier samples of the step are dropped.
    last: dict[tuple[str, str], dict[int, Sample]] = defaultdict(dict)
    owners: dict[str, list[tuple[int, str | None]]] = defaultdict(list)
    columns = ("at", "source", "metric", "value")
    for row in iterate_rows(run, "observations", columns, filled=columns[:3]):
        source, metric = row["source"], row["metric"]
        name, step = split_name(metric)[0], steps.find(row["at"])
        if step is None:
            continue
        if name == SampledMetric.OWNER and split_name(source)[0] == Source.TOPIC:
            topic, partition = split_name(source)[1], split_name(metric)[1]
            owners[f"{topic}-partition-{partition}" if partition else topic].append((row["at"], row["value"]))
        elif row["value"] is not None and name in CURVES:
            before = last[source, metric].get(step)
            if before is None or before[0] <= row["at"]:
                last[source, metric][step] = (row["at"], row["value"])
    return (
        tuple(
            SampleSeries(source=source, metric=metric, values=tuple(_list_values(metric, samples, steps)))
            for (source, metric), samples in sorted(last.items())
        ),
        tuple(
            OwnerChange(topic=topic, at=at, owner=owner)
            for topic, samples in sorted(owners.items())
            for at, owner in _keep_changes(sorted(samples, key=lambda sample: sample[0]))
        ),
    )


def _list_values(metric: str, samples: dict[int, Sample], steps: TimeSteps) -> Iterator[float | None]:
    kind = CURVES[SampledMetric(split_name(metric)[0])].kind
    if kind is SeriesKind.RATE:
        yield from _list_rates(samples, steps)
        return
    for step in range(steps.count):
        if step not in samples:
            yield None
        elif kind is SeriesKind.COUNT:
            yield float(len(parse_names(samples[step][1])))
        else:
            yield float(samples[step][1])


def _list_rates(samples: dict[int, Sample], steps: TimeSteps) -> Iterator[float | None]:
    """Yield the increase of a counter per second. A counter that fell was reset to 0 when its node restarted."""
    before: tuple[int, float] | None = None
    for step in range(steps.count):
        if step not in samples:
            # The node may have restarted in this step, so the earlier value does not compare.
            before = None
            yield None
            continue
        at, value = samples[step][0], float(samples[step][1])
        if before is None or at <= before[0]:
            yield None
        else:
            gained = value - before[1] if value >= before[1] else value
            yield round(gained / ((at - before[0]) / 1e6), 1)
        before = (at, value)


def _keep_changes(samples: Sequence[tuple[int, str | None]]) -> Iterable[tuple[int, str | None]]:
    """Return each sample whose owner differs from that of the sample before it."""
    return [next(group) for _, group in groupby(samples, key=lambda sample: sample[1])]


def make_run_series(run: Run) -> RunSeries:
    """Return a judged run's series, or only a `problem` if `choose_time_steps` finds no time steps."""
    steps = choose_time_steps(run)
    if steps is None:
        return RunSeries(problem="Nothing was published, so there is nothing to draw.")
    publishes, deliveries = make_message_series(run, steps)
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
