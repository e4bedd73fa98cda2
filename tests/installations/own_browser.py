"""The machine's Chromium, for tests that look at pages as people do."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, Response, StorageState, expect, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# On two cores, which the tasks of a run and another target of CI share with the browser, a page may take over a minute.
PATIENCE_MS = 180_000


@contextmanager
def open_browser() -> Iterator[Browser]:
    """`BROKERPROOF_BROWSER`, which has to exist then, or the first that is found by name; without one, a skip."""
    executable = os.environ.get("BROKERPROOF_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
    if executable is None:
        pytest.skip(f"no browser: install one of {', '.join(NAMES)}, or name one in BROKERPROOF_BROWSER")
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=executable,
            # Chromium's sandbox refuses to run as root.
            chromium_sandbox=os.geteuid() != 0,
            args=["--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
        )
        yield started
        started.close()


@contextmanager
def open_page(browser: Browser, url: str, kept: StorageState | None = None) -> Iterator[Page]:
    """An empty page of a browser that has what it `kept` of earlier visits. Its addresses begin with `url`."""
    context = browser.new_context(base_url=url, storage_state=kept)
    context.set_default_timeout(PATIENCE_MS)
    yield context.new_page()
    context.close()


def log_in(page: Page, password: str, user: str = "admin") -> None:
    """Fill in and send the form, which looks alike in Airflow's simple auth manager and in FAB."""
    page.get_by_label("Username").fill(user)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()


def send_trigger_form(page: Page, dag_id: str) -> Response:
    """Send the form that triggers a DAG. Return Airflow's answer.

    Airflow's page opens the run only when everything that it showed before is loaded again. By then the run uses both
    cores, so nothing here waits for that page.
    """

    def is_answer(response: Response) -> bool:
        return response.request.method == "POST" and response.url.endswith(f"/dags/{dag_id}/dagRuns")

    with page.expect_response(is_answer) as answered:
        page.get_by_test_id("trigger-dag-submit").click()
    return answered.value
