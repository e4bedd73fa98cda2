"""The embedded Airflow on a real PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import pytest
from brokerproof.errors import MachineError
from brokerproof.orchestration.embedded.environment import DATABASE_URL
from installation import lay_out_log_server
from sqlalchemy import make_url


def test_an_airflow_whose_database_refuses_it_says_so_without_the_password(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = lay_out_log_server(tmp_path)
    for name, value in {**made.environment, DATABASE_URL: f"{database_url}_of_nobody"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(MachineError, match="`airflow db migrate` ended with status 1, see ") as error:
        made.airflow.start()
    log = (made.airflow.home / "logs" / "migration.log").read_text()
    assert '_of_nobody" does not exist' in log
    password = make_url(database_url).password
    assert password is not None
    assert password not in str(error.value) + log
