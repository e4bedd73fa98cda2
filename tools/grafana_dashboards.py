"""Writes Grafana's dashboards, which deploy/grafana provisions: python tools/grafana_dashboards.py.

The dashboards are built with Grafana's own SDK, so that they contain only fields that Grafana knows. Only the field
VALUE_AS_TIME is not in the SDK.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from grafana_foundation_sdk.builders.common import VizLegendOptions
from grafana_foundation_sdk.builders.dashboard import AnnotationQuery, Dashboard, DatasourceVariable, QueryVariable, Row
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.builders.timeseries import Panel
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import LegendDisplayMode, LegendPlacement
from grafana_foundation_sdk.models.dashboard import AnnotationQuery as Annotation
from grafana_foundation_sdk.models.dashboard import DataSourceRef, VariableRefresh

DIRECTORY = Path(__file__).resolve().parents[1] / "deploy" / "grafana" / "dashboards"
_SOURCE = DataSourceRef(type_val="prometheus", uid="${source}")
# Selects the runs that the user chose at the top of the page.
_RUN = 'run=~"$run"'


@dataclass(frozen=True, kw_only=True)
class Chart:
    """One panel: a Prometheus query with its title, legend, unit and description."""

    title: str
    expr: str
    legend: str
    # Grafana's name of the unit: Bps, short, s, …
    unit: str
    description: str = ""


RUNNING = f"count by (run) (up{{{_RUN}}})"
# The start of the last run of each scenario, in milliseconds since the epoch.
STARTED = "brokerproof_last_run_start_timestamp_seconds * 1000"
# With this field of an annotation, Grafana's Prometheus data source uses the value of a series as the time, in
# milliseconds, instead of the sample's time (`processEvents` in packages/grafana-prometheus/src/annotations.ts).
VALUE_AS_TIME = "useValueForTime"

NODES: Mapping[str, Sequence[Chart]] = {
    "Bookies": (
        Chart(
            title="Written to each bookie",
            expr=f"sum by (node) (rate(bookie_WRITE_BYTES{{{_RUN}}}[$__rate_interval]))",
            legend="{{node}}",
            unit="Bps",
            description="After the loss of a bookie the others write its copies anew.",
        ),
        Chart(
            title="Read from each bookie",
            expr=f"sum by (node) (rate(bookie_READ_BYTES{{{_RUN}}}[$__rate_interval]))",
            legend="{{node}}",
            unit="Bps",
            description="Repair and consumers that lag behind read here; others read from the brokers' caches.",
        ),
    ),
    "Brokers": (
        Chart(
            title="Messages published to each broker",
            expr=f"sum by (node) (pulsar_rate_in{{{_RUN}}})",
            legend="{{node}}",
            unit="mps",
            description="The owner of the topic has them; another one after a failure.",
        ),
        Chart(
            title="Messages delivered by each broker",
            expr=f"sum by (node) (pulsar_rate_out{{{_RUN}}})",
            legend="{{node}}",
            unit="mps",
        ),
        Chart(title="Backlog", expr=f"sum by (node) (pulsar_msg_backlog{{{_RUN}}})", legend="{{node}}", unit="short"),
        Chart(
            title="Topics owned", expr=f"sum by (node) (pulsar_topics_count{{{_RUN}}})", legend="{{node}}", unit="short"
        ),
    ),
    "Every node": (
        Chart(
            title="Scraped",
            expr=f"up{{{_RUN}}}",
            legend="{{node}}",
            unit="bool",
            description="0 from the moment on at which a node does not answer.",
        ),
        Chart(
            title="Heap",
            expr=f'sum by (node) (jvm_memory_bytes_used{{{_RUN},area="heap"}})',
            legend="{{node}}",
            unit="bytes",
        ),
    ),
}

RESULTS: Mapping[str, Sequence[Chart]] = {
    "The last run of each scenario": (
        Chart(title="As expected", expr="brokerproof_last_run_as_expected", legend="{{scenario}}", unit="bool"),
        Chart(
            title="Messages lost that nothing allowed to lose",
            expr='sum by (scenario) (brokerproof_last_run_anomalies{anomaly="lost",legal="no"})',
            legend="{{scenario}}",
            unit="short",
        ),
        Chart(
            title="Longest time without an ack",
            expr="brokerproof_last_run_longest_ack_gap_seconds",
            legend="{{scenario}}",
            unit="s",
        ),
        Chart(
            title="Time until the last interruption was over (RTO)",
            expr="brokerproof_last_run_rto_seconds",
            legend="{{scenario}}",
            unit="s",
        ),
        Chart(
            title="Time in which some client was interrupted",
            expr="brokerproof_last_run_unavailable_seconds",
            legend="{{scenario}}",
            unit="s",
        ),
        Chart(
            title="Publish latency, 99th percentile",
            expr="max by (scenario) (brokerproof_last_run_publish_latency_p99_seconds)",
            legend="{{scenario}}",
            unit="s",
        ),
    )
}


class _MomentAnnotation(Annotation):
    def to_json(self) -> dict[str, object]:
        return {**super().to_json(), VALUE_AS_TIME: True}


class _MomentQuery(AnnotationQuery):
    """A query for annotations in a chart. Each value of the queried series is a time, and Grafana marks this time."""

    def __init__(self) -> None:
        super().__init__()
        self._internal = _MomentAnnotation()


def make_dashboards() -> dict[str, str]:
    """Return the text of each dashboard's file by file name."""
    nodes = _begin("Nodes of a run", "brokerproof-nodes").with_variable(
        QueryVariable("run")
        .label("run")
        .datasource(_SOURCE)
        .query('label_values(up{job="nodes"}, run)')
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .include_all(True)
        .multi(True)
    )
    # The annotation spans the time in which a run has nodes.
    nodes = nodes.annotation(
        AnnotationQuery().name("runs").datasource(_SOURCE).enable(True).icon_color("blue").expr(RUNNING)
    )
    results = _begin("Results of Brokerproof", "brokerproof-results").annotation(
        _MomentQuery().name("runs").datasource(_SOURCE).enable(True).icon_color("blue").expr(STARTED)
    )
    return {"nodes.json": _encode(_add_charts(nodes, NODES)), "results.json": _encode(_add_charts(results, RESULTS))}


def _begin(title: str, uid: str) -> Dashboard:
    return (
        Dashboard(title)
        .uid(uid)
        .tags(["brokerproof"])
        .refresh("5s")
        .time("now-15m", "now")
        .timezone("utc")
        .with_variable(DatasourceVariable("source").label("Prometheus").type("prometheus"))
    )


def _add_charts(dashboard: Dashboard, rows: Mapping[str, Sequence[Chart]]) -> Dashboard:
    for title, charts in rows.items():
        dashboard.with_row(Row(title))
        for chart in charts:
            dashboard.with_panel(_make_panel(chart))
    return dashboard


def _make_panel(chart: Chart) -> Panel:
    legend = (
        VizLegendOptions()
        .display_mode(LegendDisplayMode.TABLE)
        .placement(LegendPlacement.RIGHT)
        .show_legend(True)
        .calcs(["min", "max", "lastNotNull"])
    )
    return (
        Panel()
        .title(chart.title)
        .description(chart.description)
        .unit(chart.unit)
        .datasource(_SOURCE)
        .legend(legend)
        .span(12)
        .height(8)
        .with_target(Dataquery().expr(chart.expr).legend_format(chart.legend).ref_id("A"))
    )


def _encode(dashboard: Dashboard) -> str:
    return JSONEncoder(sort_keys=True, indent=2).encode(dashboard.build()) + "\n"


def main() -> None:
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    for name, content in make_dashboards().items():
        (DIRECTORY / name).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
