"""The installation that the tests of this directory share, and its Airflow.

A test that leaves this Airflow stopped comes before one that stops it first, so that it starts less often.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from installation import Installation, lay_out_log_server


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
