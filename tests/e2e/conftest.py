"""The installation that the tests of this directory share, and its Airflow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from installation import Installation, lay_out_log_server
from xdist.scheduler import LoadScopeScheduling


class _TwoGroups(LoadScopeScheduling):
    """Lets one process have a newcomer's test, and another one all tests of the installation below.

    Two installations of that kind would take slots with the same addresses. A newcomer has the machine's own slots.
    """

    def _split_scope(self, nodeid: str) -> str:
        return "newcomer" if "/test_first_hour.py" in nodeid else "installation"


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    return _TwoGroups(config, log)


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
