"""A real PostgreSQL server for the tests in this directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from own_postgresql import Postgresql, run_postgresql

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def server() -> Iterator[Postgresql]:
    """The server."""
    with run_postgresql() as running:
        yield running


@pytest.fixture
def database_url(server: Postgresql) -> Iterator[str]:
    """The URL of a new, empty database."""
    url = server.create_database()
    yield url
    server.drop_database(url)
