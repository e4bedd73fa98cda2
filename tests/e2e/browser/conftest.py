"""A real browser that looks at the installation of the end-to-end tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from installation import Installation
from own_browser import log_in, open_browser, open_page
from playwright.sync_api import Browser, Page


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """The machine's Chromium."""
    with open_browser() as browser:
        yield browser


@pytest.fixture
def stranger(running: Installation, browser: Browser) -> Iterator[Page]:
    """The first page that somebody sees who has not logged in."""
    with open_page(browser, running.airflow.read_status().url) as page:
        yield page


@pytest.fixture
def page(running: Installation, stranger: Page) -> Page:
    """The same after the log-in."""
    log_in(stranger, running.airflow.read_password())
    stranger.get_by_text("Stats").first.wait_for()
    return stranger
