"""A real browser that looks at the installation of the end-to-end tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from installation import Installation
from own_browser import log_in, open_browser, open_page
from playwright.sync_api import Browser, Page, StorageState


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """The machine's Chromium."""
    with open_browser() as browser:
        yield browser


@pytest.fixture
def stranger(running: Installation, browser: Browser) -> Iterator[Page]:
    """The first page that somebody sees who has not logged in."""
    with open_page(browser, running.airflow.read_status().url) as page:
        page.goto("/")
        yield page


@pytest.fixture(scope="package")
def logged_in(installation: Installation, browser: Browser) -> StorageState:
    """What a browser keeps of a log-in."""
    installation.airflow.start()
    with open_page(browser, installation.airflow.read_status().url) as page:
        page.goto("/")
        log_in(page, installation.airflow.read_password())
        page.get_by_text("Stats").first.wait_for()
        return page.context.storage_state()


@pytest.fixture
def page(running: Installation, browser: Browser, logged_in: StorageState) -> Iterator[Page]:
    """A page of somebody who has logged in."""
    with open_page(browser, running.airflow.read_status().url, logged_in) as page:
        yield page
