"""The installation that the tests of this directory share, and its Airflow."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from installation import Installation, lay_out_log_server


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let two processes share the tests: one has those of a newcomer, the other one those of the installation below.

    Two installations of that kind would take slots with the same addresses. A newcomer has the machine's own slots. The
    marks must be there before those of the plugin that shares the tests.
    """
    for item in items:
        group = "newcomer" if item.path.name == "test_first_hour.py" else "installation"
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A Brokerproof whose clusters are those of the small log server in tests/systems."""
    home = tmp_path_factory.mktemp("installation")
    made = lay_out_log_server(home)
    made.add_scenario("reordering_unexpected", like="reordering", without=["expect"])
    with pytest.MonkeyPatch.context() as patch:
        for name, value in made.environment.items():
            patch.setenv(name, value)
        yield made
        made.airflow.stop()


@pytest.fixture
def running(installation: Installation) -> Installation:
    """The installation, its Airflow up."""
    installation.airflow.start()
    return installation
