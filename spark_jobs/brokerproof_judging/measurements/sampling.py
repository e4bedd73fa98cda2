"""The longest gap between samples: the platform's own error in everything that is measured from samples."""

from __future__ import annotations

from itertools import pairwise

from brokerproof.run.directory import Run
from brokerproof.run.observations import Source
from brokerproof.run.records import SubscriptionDrains, read_record

from brokerproof_judging.measurements.measured_values import RUN, MeasuredValue, make_measured_value
from brokerproof_judging.measurements.run_times import NEVER_STEADY, RunTimes
from brokerproof_judging.measurements.samples import Samples

# Kinds of source that are sampled all the time. The others have samples only when something happens.
_SAMPLED = {Source.CLUSTER, Source.TOPIC, Source.NODE}


def measure_sampling_gap(run: Run, times: RunTimes, samples: Samples) -> MeasuredValue:
    """The longest time between two samples of a kind of source, from steady to the end of consuming."""
    if not times.phases:
        return make_measured_value("sampling_gap_s", RUN, None, NEVER_STEADY)
    # Where nobody consumes, that step ends before the load began.
    consumed = read_record(run, SubscriptionDrains)
    start = times.phases["steady"].start_us
    end = max(consumed.at if consumed else 0, times.phases["recovery"].end_us)
    gaps = {}
    for kind in sorted(_SAMPLED & samples.times.keys()):
        edges = [start, *(at for at in samples.times[kind] if start < at < end), end]
        gaps[kind] = max(later - earlier for earlier, later in pairwise(edges)) / 1e6
    if not gaps:
        return make_measured_value("sampling_gap_s", RUN, None, "nothing was sampled")
    evidence = ", ".join(f"{kind} {gap:g} s" for kind, gap in gaps.items())
    return make_measured_value("sampling_gap_s", RUN, max(gaps.values()), evidence)
