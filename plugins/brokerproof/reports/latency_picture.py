"""The picture of a run's publish latencies."""

from __future__ import annotations

import io

from brokerproof.run.outcome import LatenciesByTime

# A file in the run's directory.
PICTURE = "publish_latency.svg"


def draw_picture(latencies: LatenciesByTime, title: str) -> str:
    """Return a bar chart as SVG: a group of bars for each fault or phase, with one bar for each cluster.

    A bar ends at the median latency, and a line goes from there to the 99th percentile. A cluster without a measured
    median has no bar. Equal arguments give an equal file.
    """
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    clusters = list(dict.fromkeys(cluster for by_cluster in latencies.values() for cluster in by_cluster))
    width = 0.8 / max(1, len(clusters))
    # A title or a name with `$` is text, not a formula.
    with matplotlib.rc_context(
        {"svg.hashsalt": "brokerproof", "svg.fonttype": "none", "font.size": 11, "text.parse_math": False}
    ):
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
            below = [0.0] * len(at)
            bars = axes.bar(at, medians, width * 0.9, label=cluster, yerr=[below, above], capsize=3, ecolor="#555555")
            axes.bar_label(bars, [f"{median:.1f}" for median in medians], label_type="center", fontsize=9)
        axes.set_xticks(range(len(latencies)), [when.replace("_", " ") for when in latencies])
        # A publish over a link of 50 ms takes twenty times as long as a local one, and both bars must be readable.
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
