"""The overview: what it says first, what it leaves out, and what its charts hold."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import unescape

import plotly.graph_objects as go
from brokerproof.reports.overview_page import render_overview
from brokerproof.reports.pages import Page
from brokerproof.results.regressions import RULE
from brokerproof.results.trends import TREND_VALUES, ScenarioTrend, TrendRun

NIGHT = datetime(2026, 1, 1, tzinfo=UTC)


def trend(name: str, *verdicts: str, topology: str = "two", tags: tuple[str, ...] = ()) -> ScenarioTrend:
    runs = [
        TrendRun(
            run_id=f"{name}-{number}",
            started_at=NIGHT + timedelta(days=number),
            verdict=verdict,
            met=verdict == "passed",
            values={"rto_s": float(number), "duplicates": None},
        )
        for number, verdict in enumerate(verdicts)
    ]
    return ScenarioTrend(
        scenario=name,
        topology=topology,
        system="pulsar",
        system_version="4",
        runtime="process",
        tags=tags,
        title=f"<b>{name}</b>",
        runs=tuple(runs),
    )


def render(*trends: ScenarioTrend, **chosen: str) -> str:
    return render_overview(trends, Page(), chosen)


def test_the_first_sentence_is_about_the_last_run_of_each_scenario() -> None:
    assert "The last runs of all 2 scenarios were as expected." in render(
        trend("a", "failed", "passed"), trend("b", "passed")
    )
    said = render(trend("a", "passed"), trend("b", "passed", "unknown"))
    assert "The last runs of 1 of 2 scenarios were not as expected." in said
    assert said.index('aria-label="b"') < said.index('aria-label="a"')
    assert "The last run was not as expected." in render(trend("a", "passed", "failed"))
    assert "No run is recorded yet." in render()


def test_a_filter_shows_what_has_all_that_is_chosen() -> None:
    trends = [trend("a", "passed", tags=("nightly",)), trend("b", "passed", topology="three")]
    shown = render(*trends, tag="nightly")
    assert 'aria-label="a"' in shown
    assert 'aria-label="b"' not in shown
    assert "No scenario has all of these." in render(*trends, tag="nightly", topology="three")
    assert "Show all 2" in shown


def test_a_trend_is_a_figure_with_a_line_for_each_value_that_leads_to_the_runs() -> None:
    html = render(trend("a", "passed", "passed"))
    (text,) = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', html, re.DOTALL)
    figure = json.loads(text)
    go.Figure({"data": figure["data"], "layout": figure["layout"]})
    assert len(figure["data"]) == len(TREND_VALUES)
    assert figure["data"][0]["y"] == [0.0, 1.0]
    assert figure["data"][0]["customdata"] == ["runs/a-0", "runs/a-1"]
    # Nobody measured it: no point is drawn.
    assert figure["data"][3]["y"] == [None, None]


def test_titles_are_text() -> None:
    assert "<b>a</b>" not in render(trend("a", "passed"))


def test_what_is_worse_than_before_is_said_drawn_and_shown_before_what_is_well() -> None:
    slower = trend("b", "passed", "passed")
    last = replace(slower.runs[-1], worse={("rto_s", ""): "rto_s is 60 s, usually 50 ± 1 s"})
    said = render(trend("a", "passed"), replace(slower, runs=(*slower.runs[:-1], last)))
    assert "The last runs of all 2 scenarios were as expected. 1 of them got worse in some measurement." in said
    assert "usually 50 ± 1 s" in said
    assert said.index('aria-label="b"') < said.index('aria-label="a"')
    text = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', said, re.DOTALL)[0]
    assert json.loads(text)["data"][0]["marker"]["symbol"] == ["circle", "triangle-up"]
    assert RULE in unescape(said)


def test_the_usual_range_is_a_band_behind_its_line() -> None:
    html = render(trend("a", *["passed"] * 6))
    (text,) = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', html, re.DOTALL)
    (band,) = json.loads(text)["layout"]["shapes"]
    assert (band["xref"], band["yref"], band["y0"]) == ("x domain", "y", 0.0)
    # The values are 0 to 5.
    assert band["y1"] > 2.5
