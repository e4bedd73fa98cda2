"""A text of a run or a suite from elsewhere is text in every page, file and picture."""

from __future__ import annotations

import json
import re
import shutil
import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta

import pytest
from brokerproof.clock import to_microseconds
from brokerproof.orchestration.notify.rules import make_notification
from brokerproof.reports.badge import render_history_badge
from brokerproof.reports.compare_page import render_choice, render_comparison, render_groups
from brokerproof.reports.exports import EXPORTS
from brokerproof.reports.last_run_metrics import render_metrics
from brokerproof.reports.latency_picture import draw_picture
from brokerproof.reports.messages.message_life import read_message_life
from brokerproof.reports.messages.message_view import render_message_page
from brokerproof.reports.overview_page import render_campaign, render_campaigns, render_overview
from brokerproof.reports.pages import Page
from brokerproof.reports.run_page import read_raw_table, render_run_page, render_table
from brokerproof.reports.run_report import read_run_report
from brokerproof.results.history import History, open_history
from brokerproof.results.run_groups import GroupBy
from brokerproof.results.run_outcome import compose_outcome
from brokerproof.run.directory import Run
from brokerproof.run.tables import SCHEMAS
from builders import SCENARIOS
from hostile_text import HOSTILE, list_planted, make_hostile
from planted_runs import plant_run

NIGHT = datetime(2026, 1, 1, 2, tzinfo=UTC)
IDS = [f"sync_datacenter_loss-{NIGHT + timedelta(days=night):%Y%m%dT%H%M%SZ}-campaign" for night in range(3)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """The hostile run, and two later ones whose texts end in another way."""
    directory = tmp_path_factory.mktemp("runs")
    first = plant_run(directory / IDS[0], SCENARIOS / "sync_datacenter_loss.yaml", at=NIGHT, lost=3)
    assert make_hostile(first) > 100
    for number, run_id in enumerate(IDS[1:], start=1):
        for file in shutil.copytree(first.directory, directory / run_id).rglob("*.json"):
            text = file.read_text().replace(IDS[0], run_id).replace("%{x}", f"%{{{number}}}")
            start = json.dumps(to_microseconds(NIGHT))
            file.write_text(text.replace(start, json.dumps(to_microseconds(NIGHT + timedelta(days=number)))))
    return [Run(str(directory / run_id)) for run_id in IDS]


@pytest.fixture(scope="module")
def history(runs: list[Run], tmp_path_factory: pytest.TempPathFactory) -> History:
    opened = open_history(path=tmp_path_factory.mktemp("history") / "history.db")
    for run in runs:
        opened.record(run)
    return opened


def render_pages(run: Run, history: History) -> dict[str, str]:
    page = Page(root="../")
    links = [(HOSTILE, "../x")]
    first, second = (history.find_run(run_id) for run_id in IDS[:2])
    assert first is not None
    assert second is not None
    trends, campaigns = history.list_trends(), history.list_campaigns()
    groups = history.group(["sync_datacenter_loss"], GroupBy.SETTINGS)
    return {
        "run": render_run_page(read_run_report(run), page, links, links, worse=[HOSTILE], suspected=[HOSTILE]),
        "file": EXPORTS["report.html"](run),
        "message": render_message_page(read_message_life(run, "p0", 1), page),
        **{f"table {name}": render_table(read_raw_table(run, name), page) for name in SCHEMAS},
        "overview": render_overview(trends, page, {"tag": "", "topology": ""}),
        "scenario": render_overview(trends, page, {}, scenario=trends[0].scenario),
        "comparison": render_comparison(history.compare_two(first, second), page),
        "choice": render_choice(trends, page, IDS[0]),
        "groups": render_groups("sync_datacenter_loss", GroupBy.SETTINGS, groups, page),
        "campaigns": render_campaigns(campaigns, page),
        "campaign": render_campaign(campaigns[0], page),
    }


def test_no_page_has_an_element_an_attribute_or_a_script_of_a_runs_texts(runs: list[Run], history: History) -> None:
    pages = render_pages(runs[0], history)
    assert {name: found for name, page in pages.items() if (found := list_planted(page))} == {}
    for name in ("run", "file", "message", "table publishes", "table faults", "comparison", "overview"):
        assert "&lt;img src=x onerror=" in pages[name], name


def test_the_parser_finds_what_is_planted() -> None:
    assert list_planted(f"<p>{HOSTILE}</p>") == ["img", "img onerror", "script", "a href", "a onclick"]
    assert list_planted('<script type="application/json">{"a": ["<img src=x>"]}</script>') == ["chart <img src=x>"]


def test_files_and_pictures_for_other_programs_have_the_text_as_text(runs: list[Run], history: History) -> None:
    run = runs[0]
    junit = ET.fromstring(EXPORTS["junit.xml"](run))
    assert {element.tag for element in junit.iter()} <= {
        *("testsuites", "testsuite", "properties", "property", "testcase", "failure", "error", "skipped", "system-out")
    }
    assert any("<img src=x" in text for text in junit.itertext())
    assert json.loads(EXPORTS["report.json"](run))["facts"]["scenario"]["title"].endswith(HOSTILE)
    latency = {HOSTILE: {HOSTILE: {"p50_ms": 1.0, "p99_ms": 2.0}}}
    for svg in (EXPORTS["badge.svg"](run), render_history_badge(history), draw_picture(latency, HOSTILE)):  # type: ignore[arg-type]
        tags = {element.tag.rpartition("}")[2] for element in ET.fromstring(svg).iter()}
        assert not tags & {"script", "img", "a", "foreignObject"}
        assert not re.search(r"<[^>]*\son\w+=", svg)
    assert "<img" in "".join(ET.fromstring(draw_picture(latency, HOSTILE)).itertext())  # type: ignore[arg-type]
    for line in render_metrics(history).splitlines():
        assert re.fullmatch(r'# .*|\w+({(\w+="([^"\\]|\\.)*",?)*})? \S+', line), line
    notification = make_notification(compose_outcome(run), None)
    assert "\n" not in notification.sentence


def test_a_file_allows_its_own_scripts_and_no_other(runs: list[Run]) -> None:
    page = EXPORTS["report.html"](runs[0])
    head, policy, rest = re.split(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', page)
    assert not re.search("<script|<style|<link", head)
    assert re.search("script-src &#39;sha256-[^ ]+&#39; &#39;sha256-[^ ]+&#39;;", policy)
    for part in ("default-src &#39;none&#39;", "object-src &#39;none&#39;", "base-uri &#39;none&#39;"):
        assert part in policy
    assert "unsafe-inline" not in policy.partition("script-src")[2].partition(";")[0]
    assert len(re.findall(r"<script>", rest)) == 2
