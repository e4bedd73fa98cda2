"""How long a publish took, distance by distance: as numbers and as a picture."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from brokerproof.experiment.scenario import Scenario
from brokerproof.faults.registry import FAULT_KINDS

# By time, then by cluster (one called `all` where nothing is told apart), then by quantile: milliseconds.
Latencies = Mapping[str, Mapping[str, Mapping[str, float | None]]]

# In the run's directory.
PICTURE = "publish_latency.svg"

_QUANTILES = {"publish_latency_p50_ms": "p50_ms", "publish_latency_p99_ms": "p99_ms"}
_ADDED = {"link_added_p50_ms": "p50_ms", "link_added_p99_ms": "p99_ms"}


class _Measurement(Protocol):
    @property
    def metric(self) -> str: ...
    @property
    def subject(self) -> str | None: ...
    @property
    def value(self) -> float | None: ...


def publish_latencies(scenario: Scenario, measurements: Iterable[_Measurement]) -> dict[str, dict[str, dict[str, Any]]]:
    """Of every fault that slows things down, and of the phases before and after; empty without such a fault."""
    slowing = [fault.name for fault in scenario.faults if FAULT_KINDS[fault.kind].slows]
    if not slowing:
        return {}
    found: dict[str, dict[str, dict[str, Any]]] = {when: {} for when in ("steady", *slowing, "recovery")}
    for each in measurements:
        when, _, cluster = (each.subject or "").partition("/")
        if each.metric in _QUANTILES and when in found:
            found[when].setdefault(cluster or "all", {})[_QUANTILES[each.metric]] = each.value
    for by_cluster in found.values():
        if len(by_cluster) > 1:
            by_cluster.pop("all", None)
    return found


def added_by_link(scenario: Scenario, measurements: Iterable[_Measurement]) -> dict[str, dict[str, dict[str, Any]]]:
    """What the emulated link added beyond its delay, at the same times, by way (`REGION>OTHER`)."""
    times = publish_latencies(scenario, ())
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for each in measurements:
        way, _, when = (each.subject or "").partition("/")
        if each.metric in _ADDED and when in times:
            found.setdefault(when, {}).setdefault(way, {})[_ADDED[each.metric]] = each.value
    return {when: found[when] for when in times if when in found}


def draw(latencies: Latencies, title: str) -> str:
    """An SVG: a group of bars a time, a bar a cluster up to its median, a line from there to the 99th percentile.

    What was not measured has no bar. It is the same file for the same numbers.
    """
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    clusters = list(dict.fromkeys(cluster for by_cluster in latencies.values() for cluster in by_cluster))
    width = 0.8 / max(1, len(clusters))
    with matplotlib.rc_context({"svg.hashsalt": "brokerproof", "svg.fonttype": "none", "font.size": 11}):
        figure, axes = pyplot.subplots(figsize=(9, 4.5), layout="constrained")
        for number, cluster in enumerate(clusters):
            points = [
                (place + (number - (len(clusters) - 1) / 2) * width, by_cluster[cluster])
                for place, by_cluster in enumerate(latencies.values())
                if by_cluster.get(cluster, {}).get("p50_ms") is not None
            ]
            at = [place for place, _ in points]
            medians = [float(each["p50_ms"] or 0) for _, each in points]
            above = [
                max(0.0, float(each.get("p99_ms") or 0) - median)
                for (_, each), median in zip(points, medians, strict=True)
            ]
            none = [0.0] * len(at)
            bars = axes.bar(at, medians, width * 0.9, label=cluster, yerr=[none, above], capsize=3, ecolor="#555555")
            axes.bar_label(bars, [f"{median:.1f}" for median in medians], label_type="center", fontsize=9)
        axes.set_xticks(range(len(latencies)), [when.replace("_", " ") for when in latencies])
        # A way of 50 ms takes twenty times as long as none, and both have to be read.
        axes.set_yscale("log")
        axes.set_ylim(bottom=1)
        axes.yaxis.set_major_formatter("{x:g}")
        axes.set_ylabel("publish latency, ms")
        axes.set_title(title, fontsize=12)
        axes.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside right upper", frameon=False, title="median, up to p99")
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None})
        pyplot.close(figure)
    return drawn.getvalue()
