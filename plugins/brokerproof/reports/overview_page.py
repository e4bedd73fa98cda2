"""The pages about several scenarios: the overview, one campaign, all campaigns, and the track record of known bugs.

The overview has the last verdicts of each scenario and a chart of its trends. A campaign is a series of scenarios that
run one after the other. Its page has a headline and a row for each run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from brokerproof.experiment.numbers import format_seconds
from brokerproof.reports.pages import Page, render
from brokerproof.reports.timeline_chart import COLOURS
from brokerproof.results.campaigns import Campaign
from brokerproof.results.regressions import RULE
from brokerproof.results.run_groups import GroupBy
from brokerproof.results.track_record import TRACK_RULE, TrackRow
from brokerproof.results.trends import TREND_VALUES, ScenarioTrend, TrendRun, find_usual_range

# The filters: a field of `ScenarioTrend`, or `tag`, and its title.
FILTERS = {"topology": "topology", "system": "system", "system_version": "version", "runtime": "runtime", "tag": "tag"}
_TREND_PX = 110
# The colour of a point that is worse than usual.
_WORSE = "#d55e00"
# What the lines of a chart have in common. Plotly's script adds it to each of them.
_TEMPLATE = {
    "data": {"scatter": [{"mode": "lines+markers"}]},
    "layout": {
        "xaxis": {"showticklabels": False, "fixedrange": True, "showgrid": False, "zeroline": False},
        "yaxis": {"rangemode": "tozero", "nticks": 3, "fixedrange": True, "tickfont": {"size": 10}},
        "shapedefaults": {"fillcolor": COLOURS[0], "opacity": 0.12, "line": {"width": 0}, "layer": "below"},
        "annotationdefaults": {
            "yref": "paper",
            "y": 1,
            "xanchor": "left",
            "yanchor": "bottom",
            "showarrow": False,
            "font": {"size": 11},
        },
    },
}


def render_overview(
    trends: Sequence[ScenarioTrend], page: Page, chosen: Mapping[str, str], *, scenario: str = ""
) -> str:
    """Return the overview of scenarios as HTML.

    `chosen` is {name of an active filter in FILTERS: its value}. `scenario` is given if the page is about only one
    scenario.
    """
    shown = [trend for trend in trends if _is_chosen(trend, chosen)]
    last = [trend.runs[-1] for trend in shown if trend.runs]
    return render(
        "overview.html.j2",
        page,
        {
            "rows": [_make_row(number, trend) for number, trend in enumerate(sorted(shown, key=_rank))],
            "wrong": [trend for trend in shown if trend.runs and not trend.runs[-1].met],
            "filters": list(_list_filters(trends, chosen)),
            "chosen": dict(chosen),
            "headline": _write_headline(last),
            "rule": RULE,
            "total": len(trends),
            "scenario": scenario,
            "group_choices": [str(choice) for choice in GroupBy],
        },
    )


def _write_headline(last: Sequence[TrendRun]) -> str:
    """Return one or two sentences: how many last runs were not as expected, and how many are worse than before."""
    if not last:
        return "No run is recorded yet."
    wrong, worse = sum(not run.met for run in last), sum(bool(run.worse) for run in last)
    slower = f" {worse} of them got worse in some measurement." if worse else ""
    if len(last) == 1:
        return f"The last run was {'not ' if wrong else ''}as expected.{slower}"
    if not wrong:
        return f"The last runs of all {len(last)} scenarios were as expected.{slower}"
    return f"The last runs of {wrong} of {len(last)} scenarios were not as expected.{slower}"


def _rank(trend: ScenarioTrend) -> tuple[int, str]:
    """Return a sort key: first scenarios whose last run was not as expected, then scenarios with a regression."""
    if not trend.runs:
        return 2, trend.scenario
    last = trend.runs[-1]
    return (1 if last.worse else 2) if last.met else 0, trend.scenario


def _is_chosen(trend: ScenarioTrend, chosen: Mapping[str, str]) -> bool:
    return all(
        value in trend.tags if name == "tag" else getattr(trend, name) == value
        for name, value in chosen.items()
        if value
    )


def _list_filters(trends: Sequence[ScenarioTrend], chosen: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    for name, title in FILTERS.items():
        values: set[str] = set()
        for trend in trends:
            values |= set(trend.tags) if name == "tag" else {getattr(trend, name)}
        yield {"name": name, "title": title, "values": sorted(values), "chosen": chosen.get(name, "")}


def _make_row(number: int, trend: ScenarioTrend) -> dict[str, Any]:
    return {
        "trend": trend,
        "chart": f"trend-{number}",
        "figure": draw_trend(trend),
        "height": _TREND_PX,
        "description": f"Trends of {trend.scenario}: {', '.join(value.title for value in TREND_VALUES)}.",
    }


def draw_trend(trend: ScenarioTrend) -> dict[str, Any]:
    """Return a Plotly figure with a small line for each value of TREND_VALUES. A click on a point opens its run."""
    layout: dict[str, Any] = {
        "height": _TREND_PX,
        "margin": {"l": 40, "r": 8, "t": 20, "b": 18},
        "showlegend": False,
        "hovermode": "closest",
        "grid": {"rows": 1, "columns": len(TREND_VALUES), "pattern": "independent", "xgap": 0.2},
        "template": _TEMPLATE,
        "annotations": [],
        "shapes": [],
    }
    data = []
    for number, value in enumerate(TREND_VALUES, start=1):
        suffix = "" if number == 1 else str(number)
        x, y = f"x{suffix}", f"y{suffix}"
        # The script of the page colours the axes that the layout names.
        layout |= {f"xaxis{suffix}": {}, f"yaxis{suffix}": {}}
        layout["annotations"].append({"text": f"{value.title}, {value.unit}", "xref": f"{x} domain", "x": 0})
        if (usual := find_usual_range(trend.runs, value)) is not None:
            span = {"x0": 0, "x1": 1, "y0": usual[0], "y1": usual[1]}
            layout["shapes"].append({"type": "rect", "xref": f"{x} domain", "yref": y, **span})
        worse = [run.is_worse(value) for run in trend.runs]
        data.append(
            {
                "x": list(range(len(trend.runs))),
                "y": [run.values.get(value.name) for run in trend.runs],
                "xaxis": x,
                "yaxis": y,
                "customdata": [f"runs/{run.run_id}" for run in trend.runs],
                "text": [f"{run.started_at:%Y-%m-%d %H:%M}" for run in trend.runs],
                "line": {"width": 1.5, "color": COLOURS[0]},
                "hovertemplate": f"%{{text}}: %{{y:,.4~g}} {value.unit}<extra></extra>",
                # A point that is worse than usual is larger and has another colour and shape.
                "marker": {
                    "size": [9 if is_worse else 4 for is_worse in worse],
                    "color": [_WORSE if is_worse else COLOURS[0] for is_worse in worse],
                    "symbol": ["triangle-up" if is_worse else "circle" for is_worse in worse],
                },
            }
        )
    return {"data": data, "layout": layout, "link_clicks": True}


def render_campaign(campaign: Campaign, page: Page) -> str:
    return render(
        "campaign.html.j2",
        page,
        {"campaign": campaign, "headline": write_headline(campaign), "format_seconds": format_seconds},
    )


def render_campaigns(campaigns: Sequence[Campaign], page: Page) -> str:
    return render(
        "campaigns.html.j2", page, {"campaigns": [(campaign, write_headline(campaign)) for campaign in campaigns]}
    )


def render_track_record(rows: Sequence[TrackRow], page: Page) -> str:
    """Return the page about known bugs as HTML: for each bug its cases, and what their runs came to."""
    bugs: dict[str, list[TrackRow]] = {}
    for row in rows:
        bugs.setdefault(row.bug.issue, []).append(row)
    return render("track_record.html.j2", page, {"bugs": list(bugs.values()), "rule": TRACK_RULE})


def write_headline(campaign: Campaign) -> str:
    """Return a sentence: either that all runs of the campaign were as expected, or which scenarios were not."""
    wrong = [run.scenario for run in campaign.runs if not run.met]
    if not wrong:
        return f"All {len(campaign.runs)} runs were as expected."
    return f"{len(wrong)} of {len(campaign.runs)} runs were not as expected: {', '.join(wrong)}."
