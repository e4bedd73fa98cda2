"""What the link itself added: from its samples, by way and time."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from brokerproof_judging.measurements.link import find_weighted_quantile, measure_link
from brokerproof_judging.measurements.run_times import EffectiveFault, RunTimes, Span
from brokerproof_judging.measurements.samples import Samples

RUN = SimpleNamespace(topology=SimpleNamespace(links=[SimpleNamespace(between=["eu", "us"])]))
# (at, timed, p50, p99) of the way there; nothing was timed before the second sample, and only the last is of `slow`.
SAMPLES = [(5, 0, None, None), (10, 90, 0.1, 2.0), (11, 10, 9.0, 40.0), (25, 5, 1.0, 3.0)]


def measured(phases=None, samples=SAMPLES, without_count=None):
    series = {("link:eu>us", "timed"): [(at, str(timed)) for at, timed, *_ in samples if at != without_count]}
    for place, name in ((2, "added_p50_ms"), (3, "added_p99_ms")):
        values = [(each[0], str(each[place])) for each in samples if each[place] is not None]
        series["link:eu>us", name] = values
    phases = (
        {"steady": Span(start_us=0, end_us=20), "impact": Span(start_us=20, end_us=30)} if phases is None else phases
    )
    span = Span(start_us=20, end_us=30)
    slow = EffectiveFault(name="slow", targets=(), span=span, client_span=span, slowed=span)
    times = RunTimes(
        phases=phases, effective=(slow, EffectiveFault(name="kill", targets=(), span=span, client_span=span))
    )
    values = measure_link(RUN, times, Samples(series=series))
    return {(value.metric, value.subject): value.estimate for value in values}


def test_each_passage_counts_with_the_quantile_of_its_sample():
    found = measured()
    assert found["link_added_p50_ms", "eu>us/steady"].value == 0.1
    assert found["link_added_p99_ms", "eu>us/steady"].value == 40.0
    assert found["link_added_p50_ms", "eu>us/steady"].evidence == "100 passages timed, in 2 samples"
    assert found["link_added_p50_ms", "eu>us/impact"].value == found["link_added_p50_ms", "eu>us/slow"].value == 1.0


def test_a_way_that_nothing_was_timed_on_is_not_measured_rather_than_0():
    found = measured()
    assert found["link_added_p99_ms", "us>eu/steady"].value is None
    assert found["link_added_p99_ms", "us>eu/steady"].evidence == "nothing was timed"
    assert measured(samples=[(5, 0, None, None)])["link_added_p50_ms", "eu>us/steady"].value is None


def test_a_sample_without_a_number_of_passages_has_no_weight():
    found = measured(without_count=11)
    assert found["link_added_p99_ms", "eu>us/steady"].value == 2.0
    assert found["link_added_p99_ms", "eu>us/steady"].evidence == "90 passages timed, in 2 samples"


def test_there_is_nothing_to_measure_without_a_link_and_no_phase_without_steadiness():
    without = SimpleNamespace(topology=SimpleNamespace(links=[]))
    assert list(measure_link(without, RunTimes(), Samples())) == []
    assert {subject for _, subject in measured(phases={})} == {"eu>us/slow", "us>eu/slow"}


@pytest.mark.parametrize(
    ("weighted", "quantile", "value"),
    [
        ([(1, 1)], 0.5, 1),
        ([(1, 1), (2, 3)], 0.5, 2),
        ([(1, 3), (2, 1)], 0.75, 1),
        ([(1, 1), (2, 1)], 0.5, 1),
        ([(2, 1), (1, 1)], 0.51, 2),
        ([(0, 0), (7, 3)], 0.0, 7),
    ],
)
def test_a_quantile_by_weight(weighted, quantile, value):
    assert find_weighted_quantile(weighted, quantile) == value
