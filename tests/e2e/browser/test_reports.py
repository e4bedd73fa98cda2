"""The reports as people open them: behind the log-in, whole without any other host, with data in every chart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from brokerproof.experiment.verdict import Verdict
from brokerproof.orchestration.airflow_pages.report_app import make_report_app
from brokerproof.results.history import open_history
from installation import SYSTEMS, Installation
from own_browser import PATIENCE_MS
from planted_runs import plant_run
from playwright.sync_api import Locator, Page, Request, Route, expect

NIGHT = datetime(2026, 1, 20, 2, 0, tzinfo=UTC)
STAMP = f"{NIGHT:%Y%m%dT%H%M%SZ}"
NIGHTS = 8
# As many as a mark needs: 12 to know what is usual, and 5 slow ones of the last 6.
NIGHTS_WITH_A_MARK, SLOW_NIGHTS = 18, 5
REASON = "Nobody knows whether the log was read to its end."


@pytest.fixture(scope="module")
def recorded(installation: Installation) -> dict[str, str]:
    """By verdict, the newest run of a history that holds a passed, a failed, an unknown and a regressed run.

    The runs of a night are those of one campaign.
    """
    cases = {
        "passed": ("nominal", {}),
        "failed": ("losing", {"verdict": Verdict.FAILED, "lost": 12}),
        "unknown": ("refusing", {"verdict": Verdict.UNKNOWN, "rto_s": None, "problems": [REASON]}),
        "regressed": ("repeating", {"rto_s": 60.0}),
    }
    newest: dict[str, str] = {}
    # Apart from the runs that took place, which other tests look for.
    planted = installation.home / "planted"
    with open_history() as history:
        for name, (scenario, came_to) in cases.items():
            nights, slow = (NIGHTS_WITH_A_MARK, SLOW_NIGHTS) if name == "regressed" else (NIGHTS, 1)
            for night in range(-nights + 1, 1):
                at = NIGHT + timedelta(days=night)
                run = plant_run(
                    planted / f"{scenario}-{at:%Y%m%dT%H%M%SZ}-campaign",
                    SYSTEMS / "scenarios" / f"{scenario}.yaml",
                    SYSTEMS / "topologies",
                    at=at,
                    **(came_to if night > -slow else {}),
                )
                history.record(run)
                newest[name] = run.run_id
        # The same with another setting, weeks before.
        for night in range(5):
            at = NIGHT - timedelta(days=60 + night)
            file = SYSTEMS / "scenarios" / "nominal.yaml"
            run = plant_run(
                planted / f"nominal-{at:%Y%m%dT%H%M%SZ}-manual", file, SYSTEMS / "topologies", at=at, rto_s=9.0,
                overrides={"workload.rate": 100},
            )  # fmt: skip
            history.record(run)
    return newest


@pytest.fixture
def strict(page: Page, running: Installation) -> Iterator[Page]:
    """The page, for which there is no host but Airflow's; it must not complain in its console."""
    host = urlsplit(running.airflow.read_status().url).netloc
    elsewhere: list[str] = []
    complaints: list[str] = []

    def guard(route: Route, request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme in ("http", "https") and address.netloc != host:
            elsewhere.append(request.url)
            route.abort()
        else:
            route.continue_()

    page.context.route("**/*", guard)
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    assert elsewhere == []
    assert complaints == []


def keep_screenshot(page: Page, name: str) -> None:
    """A picture of the page, where people find it afterwards."""
    directory = Path("var") / "screenshots"
    directory.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=directory / f"{name}.png", full_page=True)


def test_without_a_session_every_route_is_refused(running: Installation, recorded: dict[str, str]) -> None:
    client = running.client()
    client.wait_for_dag("nominal")
    values = {
        "producer": "p0",
        "seq": "3",
        "name": "plotly.min.js",
        "table": "publishes",
        "scenario": "nominal",
        "run_id": recorded["passed"],
        "dag_id": "nominal",
        "dag_run_id": "manual",
        "stamp": STAMP,
    }
    routes = [re.sub(r"{(\w+)}", lambda field: values[field[1]], route.path) for route in make_report_app().routes]  # type: ignore[attr-defined]
    assert len(routes) >= 6
    with httpx.Client(base_url=running.airflow.read_status().url, timeout=60) as stranger:
        for route in [*routes, "/docs", "/openapi.json", "/nothing"]:
            answer = stranger.get(f"/brokerproof{route}")
            assert answer.status_code in (401, 404), route
            assert answer.status_code == 401 or route in ("/docs", "/openapi.json", "/nothing"), route
        stranger.cookies.set("_token", "e30.e30.e30")
        assert stranger.get("/brokerproof/").status_code in (401, 403)


def test_the_overview_shows_in_a_glance_what_was_not_as_expected(strict: Page, recorded: dict[str, str]) -> None:
    strict.goto("/brokerproof/")
    expect(strict.get_by_role("heading", level=1)).to_contain_text("not as expected")
    losing = strict.get_by_role("region", name="refusing", exact=True)
    expect(losing.locator(".cell")).to_have_count(NIGHTS)
    expect(losing.locator(".cell").last).to_have_attribute("title", re.compile("unknown"))
    expect(losing.locator(".cell").first).to_have_attribute("title", re.compile("passed"))
    slower = strict.get_by_role("region", name="repeating", exact=True)
    expect(slower.locator(".problem").first).to_contain_text("rto_s of planted_fault is 60 s, usually 5 ± 0 s")
    expect(nominal_problems(strict)).to_have_count(0)
    nominal = strict.get_by_role("region", name="nominal", exact=True)
    # A chart is drawn when it comes into sight.
    nominal.scroll_into_view_if_needed()
    chart = nominal.locator("[data-drawn]")
    expect(chart).to_have_attribute("data-drawn", "6", timeout=PATIENCE_MS)
    keep_screenshot(strict, "overview")


def nominal_problems(page: Page) -> Locator:
    """What is worse in a scenario in which nothing is."""
    return page.get_by_role("region", name="nominal", exact=True).locator(".problem")


def test_a_filter_leaves_only_what_it_names(strict: Page, recorded: dict[str, str]) -> None:
    strict.goto("/brokerproof/?tag=nobody-has-it")
    expect(strict.get_by_text("No scenario has all of these.")).to_be_visible()
    strict.goto("/brokerproof/")
    strict.get_by_label("topology").select_option(index=1)
    strict.get_by_role("button", name="Show").click()
    strict.wait_for_url(re.compile(r"topology=[^&]+"))
    expect(strict.locator("section.scenario").first).to_be_visible()


def test_the_page_of_a_failed_run_tells_what_was_lost(strict: Page, recorded: dict[str, str]) -> None:
    strict.goto(f"/brokerproof/runs/{recorded['failed']}")
    expect(strict.locator(".story")).to_contain_text("60,000 messages acked, 12 lost")
    # Airflow does not know this run: nothing links to pages that there are not.
    expect(strict.get_by_text("Logs of the tasks")).to_have_count(0)
    expect(strict.locator("#anomaly-samples tbody tr:visible")).to_have_count(15)
    strict.get_by_role("button", name=re.compile("^lost")).click()
    expect(strict.locator("#anomaly-samples tbody tr:visible")).to_have_count(3)
    drawn = strict.locator("#chart-timeline[data-drawn]")
    expect(drawn).to_be_visible(timeout=PATIENCE_MS)
    assert int(drawn.get_attribute("data-drawn") or 0) >= 8
    keep_screenshot(strict, "run-failed")
    strict.get_by_role("button", name=re.compile("^lost")).click()
    strict.get_by_role("link", name="p0 3", exact=True).click()
    strict.wait_for_url("**/messages/p0/3")
    life = strict.locator("table.life tbody tr")
    expect(life.first).to_contain_text("sent")
    expect(strict.locator(".story")).to_contain_text("p0/3")
    keep_screenshot(strict, "message")


def test_the_page_of_an_unknown_run_says_why(strict: Page, recorded: dict[str, str]) -> None:
    strict.goto(f"/brokerproof/runs/{recorded['unknown']}")
    expect(strict.locator(".why")).to_contain_text(REASON.rstrip("."))
    expect(strict.locator(".story")).to_contain_text("the longest time without an ack is not known")
    keep_screenshot(strict, "run-unknown")


def test_a_run_that_nobody_recorded_is_said_to_be_none(strict: Page, recorded: dict[str, str]) -> None:
    answer = strict.context.request.get("/brokerproof/runs/nobody")
    assert answer.status == 404
    assert "No run nobody is recorded" in answer.text()


def test_the_files_of_a_run_and_the_metrics_are_there_after_the_log_in(strict: Page, recorded: dict[str, str]) -> None:
    request = strict.context.request
    # That of a control that failed as it had to is green.
    junit = request.get(f"/brokerproof/runs/{recorded['unknown']}/files/junit.xml")
    assert "<error" in junit.text()
    file = request.get(f"/brokerproof/runs/{recorded['failed']}/files/report.html")
    assert "attachment" in file.headers["content-disposition"]
    assert request.get(f"/brokerproof/runs/{recorded['failed']}/files/run.json").status == 404
    metrics = request.get("/brokerproof/metrics").text()
    assert re.search(r'brokerproof_last_run_as_expected{[^}]*scenario="refusing"[^}]*} 0', metrics)


def test_a_raw_table_is_looked_at_and_taken_away(strict: Page, recorded: dict[str, str]) -> None:
    strict.goto(f"/brokerproof/runs/{recorded['failed']}")
    strict.get_by_role("link", name="publishes", exact=True).click()
    expect(strict.locator("tbody tr")).to_have_count(12)
    with strict.expect_download() as download:
        strict.get_by_role("link", name=re.compile(r"^part-.*\.parquet$")).click()
    assert download.value.path().read_bytes()[:4] == b"PAR1"


def test_two_runs_are_chosen_and_compared(strict: Page, recorded: dict[str, str]) -> None:
    strict.goto(f"/brokerproof/compare?a={recorded['passed']}")
    strict.get_by_label("B", exact=True).select_option(value=recorded["regressed"])
    strict.get_by_role("button", name="Compare").click()
    strict.wait_for_url(re.compile(r"b=repeating"))
    row = strict.get_by_role("row", name=re.compile("rto_s"))
    expect(row).to_contain_text("60 s")
    keep_screenshot(strict, "compare")


def test_a_campaign_has_one_verdict_and_one_line_a_scenario(strict: Page, recorded: dict[str, str]) -> None:
    strict.goto("/brokerproof/campaigns")
    strict.get_by_role("link", name=re.compile(STAMP)).click()
    expect(strict.get_by_role("heading", level=1)).to_contain_text(
        "2 of 4 runs were not as expected: refusing, repeating."
    )
    expect(strict.locator("tbody tr")).to_have_count(4)
    expect(strict.get_by_role("row", name=re.compile("losing"))).to_contain_text("failed")
    keep_screenshot(strict, "campaign")


def test_a_scenario_is_compared_over_its_versions_and_settings(strict: Page, recorded: dict[str, str]) -> None:
    strict.goto("/brokerproof/scenarios/repeating")
    strict.get_by_role("link", name="version", exact=True).click()
    strict.wait_for_url(re.compile(r"/groups\?by=version"))
    expect(strict.get_by_role("heading", level=1)).to_contain_text("All runs are of one version: testlog")
    expect(strict.get_by_role("row", name=re.compile("rto_s"))).to_contain_text(f"{NIGHTS_WITH_A_MARK} runs")
    strict.goto("/brokerproof/scenarios/nominal/groups?by=settings")
    expect(strict.get_by_role("heading", level=1)).to_contain_text("settings 2 is worse in rto_s, longest_ack_gap_s")
    expect(strict.locator("td.bad").first).to_contain_text("9 s")
    expect(strict.get_by_text(re.compile("scenario.workload.rate .* → 100"))).to_be_visible()
    keep_screenshot(strict, "groups")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_screen_reader_finds_nothing_wrong(strict: Page, recorded: dict[str, str], scheme: Any) -> None:
    strict.emulate_media(color_scheme=scheme)
    run, other = recorded["failed"], recorded["regressed"]
    for path in (
        "",
        "campaigns",
        f"campaigns/{STAMP}",
        f"runs/{run}",
        f"runs/{run}/messages/p0/3",
        f"runs/{run}/tables/publishes",
        f"compare?a={run}",
        f"compare?a={run}&b={other}",
        "scenarios/repeating",
        "scenarios/repeating/groups?by=version",
        "track-record",
    ):
        strict.goto(f"/brokerproof/{path}")
        found = Axe().run(strict).response["violations"]
        assert [(one["id"], [node["html"] for node in one["nodes"][:3]]) for one in found] == [], path


def test_a_page_without_a_name_is_found_wrong(strict: Page) -> None:
    strict.goto("/brokerproof/campaigns")
    strict.evaluate("document.title = ''; document.querySelector('main').innerHTML = '<img src=\"data:,\">'")
    assert {"document-title", "image-alt"} <= {one["id"] for one in Axe().run(strict).response["violations"]}


def test_a_phone_needs_no_scrolling_sideways(strict: Page, recorded: dict[str, str]) -> None:
    strict.set_viewport_size({"width": 390, "height": 844})
    for path in ("", f"runs/{recorded['failed']}", "scenarios/repeating/groups?by=version"):
        strict.goto(f"/brokerproof/{path}")
        width = strict.evaluate("document.documentElement.scrollWidth")
        assert width <= 390, path
    keep_screenshot(strict, "phone")


def test_airflow_has_an_entry_and_a_tab(strict: Page, running: Installation, recorded: dict[str, str]) -> None:
    running.client().wait_for_dag("nominal")
    strict.goto("/plugin/brokerproof")
    expect(strict.frame_locator("iframe").get_by_role("heading", level=1)).to_be_visible(timeout=PATIENCE_MS)
    strict.goto("/dags/nominal")
    strict.get_by_role("link", name="Results").click()
    inside = strict.frame_locator("iframe")
    expect(inside.get_by_role("region", name="nominal", exact=True)).to_be_visible(timeout=PATIENCE_MS)
    inside.locator(".cell").last.click()
    expect(inside.locator(".story")).to_be_visible(timeout=PATIENCE_MS)
