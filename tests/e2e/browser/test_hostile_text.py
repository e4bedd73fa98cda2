"""A real browser opens pages of a run from elsewhere: no script of its texts runs, and the pages' own scripts do."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import uvicorn
from airflow.api_fastapi.common.db.common import _get_session
from airflow.api_fastapi.core_api.security import get_user
from brokerproof.clock import wait_until
from brokerproof.orchestration.airflow_pages import report_app
from brokerproof.reports.exports import write_run_file
from brokerproof.results.history import open_history
from brokerproof.run.directory import Run
from builders import SCENARIOS
from hostile_text import HOSTILE, build_hostile_data_docs, make_hostile
from own_browser import PATIENCE_MS, open_page
from planted_runs import plant_run
from playwright.sync_api import Browser, Page, expect

NIGHT = datetime(2026, 1, 20, 2, 0, tzinfo=UTC)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    directory = tmp_path_factory.mktemp("runs") / "sync_datacenter_loss-20260120T020000Z-campaign"
    planted = plant_run(directory, SCENARIOS / "sync_datacenter_loss.yaml", at=NIGHT, lost=3)
    make_hostile(planted)
    return Run(planted.directory)


@pytest.fixture(scope="module")
def server(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The plugin's pages without Airflow, for a user who may read each scenario."""
    database = tmp_path_factory.mktemp("history") / "history.db"
    # By its URL, because a path counts only if no variable names a history.
    with (
        open_history(f"sqlite:///{database}") as history,
        pytest.MonkeyPatch.context() as patched,
        socket.socket() as listener,
    ):
        history.record(run)
        patched.setenv("BROKERPROOF_DATABASE_URL", f"sqlite:///{database}")
        patched.setattr(report_app, "_authorize", lambda scenario, user: None)
        patched.setattr(report_app, "_list_readable_scenarios", lambda user: {"sync_datacenter_loss"})
        patched.setattr(report_app, "_link_to_airflow", lambda session, place, page: ([], []))
        app = report_app.make_report_app()
        app.dependency_overrides = {get_user: lambda: None, _get_session: lambda: None}
        listener.bind(("127.0.0.1", 0))
        serving = uvicorn.Server(uvicorn.Config(app, log_level="error"))
        thread = threading.Thread(target=serving.run, kwargs={"sockets": [listener]})
        thread.start()
        wait_until(lambda: serving.started, timeout_s=60, what="the pages' server to start")
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        serving.should_exit = True
        thread.join()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that must not complain in its console, or be asked for another host."""
    complaints: list[str] = []
    with open_page(browser, "http://127.0.0.1") as opened:
        opened.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
        opened.on("pageerror", lambda error: complaints.append(str(error)))
        yield opened
        opened.wait_for_timeout(500)
        title = opened.title()
    assert title not in ("run", "")
    assert complaints == []


def check_run_page(page: Page) -> None:
    """The chart is drawn, the samples are filtered, and texts are texts."""
    drawn = page.locator("#chart-timeline[data-drawn]")
    expect(drawn).to_be_visible(timeout=PATIENCE_MS)
    assert page.locator("#chart-timeline img, #chart-timeline a").count() == 0
    assert "<img src=x" in (drawn.text_content() or "")
    shown = page.locator("#anomaly-samples tbody tr:visible")
    before = shown.count()
    page.locator("button[data-kind]").first.click()
    assert shown.count() != before
    expect(page.locator("img")).to_have_count(0)


def test_the_file_of_a_run_draws_its_charts_and_runs_no_script_of_the_run(run: Run, page: Page) -> None:
    page.goto(Path(write_run_file(run)).as_uri())
    check_run_page(page)


def test_a_script_that_got_into_a_file_would_not_run(
    run: Run, browser: Browser, tmp_path: Path, check_violation: Callable[[Page, str], None]
) -> None:
    text = Path(write_run_file(run)).read_text()
    (tmp_path / "report.html").write_text(text.replace('<main id="content"', f'{HOSTILE}<main id="content"', 1))
    with open_page(browser, "http://127.0.0.1") as page:
        check_violation(page, (tmp_path / "report.html").as_uri())


@pytest.fixture
def check_violation() -> Callable[[Page, str], None]:
    """Opens a page with a script in it, which the page's policy must stop."""

    def check(page: Page, address: str) -> None:
        complaints: list[str] = []
        page.on("console", lambda said: complaints.append(said.text))
        page.goto(address)
        page.wait_for_timeout(1000)
        assert page.title() != "run"
        assert any("Content Security Policy" in said for said in complaints)

    return check


def test_data_docs_show_their_tables_and_run_no_script_of_a_cell(page: Page, tmp_path: Path) -> None:
    for file in build_hostile_data_docs(tmp_path / "site"):
        page.goto(file.as_uri())
        expect(page.locator("img")).to_have_count(0)
        assert "<img src=x" in (page.locator("body").text_content() or "")
        assert page.title() == HOSTILE
    expect(page.locator("td", has_text="cell").first).to_be_visible()


def test_a_script_that_got_into_data_docs_would_not_run(
    browser: Browser, tmp_path: Path, check_violation: Callable[[Page, str], None]
) -> None:
    file = build_hostile_data_docs(tmp_path / "site")[-1]
    file.write_text(file.read_text().replace("<body>", f"<body>{HOSTILE}", 1))
    with open_page(browser, "http://127.0.0.1") as page:
        check_violation(page, file.as_uri())


@pytest.mark.parametrize(
    "path", ["", "runs/{}", "runs/{}/messages/p0/1", "runs/{}/tables/publishes", "compare?a={}&b={}", "campaigns"]
)
def test_the_pages_in_airflow_run_no_script_of_a_run(server: str, run: Run, page: Page, path: str) -> None:
    page.goto(f"{server}/{path.format(run.run_id, run.run_id)}")
    expect(page.locator("img")).to_have_count(0)
    if path == "runs/{}":
        check_run_page(page)


@pytest.mark.parametrize("name", ["report.html", "badge.svg"])
def test_a_file_about_a_run_is_saved_under_its_name_and_not_shown(server: str, run: Run, page: Page, name: str) -> None:
    page.goto(f"{server}/campaigns")
    with page.expect_download() as download:
        page.evaluate("address => { location.href = address }", f"{server}/runs/{run.run_id}/files/{name}")
    assert download.value.suggested_filename == f"{run.run_id}-{name}"


def test_a_frame_of_airflow_shows_a_page_and_one_of_another_host_does_not(
    server: str, run: Run, browser: Browser
) -> None:
    address = f"{server}/runs/{run.run_id}"
    for host, is_shown in ((server, True), (server.replace("127.0.0.1", "localhost"), False)):
        with open_page(browser, host) as page:
            # Airflow's own sandbox of a plugin's page. The frame is made by a script, as in Airflow.
            page.route("**/outside", lambda route: route.fulfill(body="<p>outside</p>", content_type="text/html"))
            page.goto(f"{host}/outside")
            page.evaluate(
                """address => {
                    const frame = document.createElement("iframe");
                    frame.sandbox = "allow-scripts allow-same-origin allow-forms allow-downloads";
                    frame.src = address;
                    document.body.append(frame);
                }""",
                address,
            )
            story = page.frame_locator("iframe").locator(".story")
            if is_shown:
                expect(story).to_be_attached(timeout=PATIENCE_MS)
            else:
                page.wait_for_timeout(2000)
                expect(story).to_have_count(0)
