"""The database of the embedded Airflow: a file of its own, or the one that the user names.

It imports nothing of Airflow or of this package, so that the supervisor stays small.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

DATABASE_URL = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"
ASYNC_DATABASE_URL = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC"


def build_database_environment(home: Path, given: Mapping[str, str]) -> dict[str, str]:
    """The variables that name the database, where `given` holds the user's own. An empty one is as good as none.

    A PostgreSQL whose URL names no driver is reached through psycopg, in both ways in which Airflow connects. By itself
    Airflow would need a second driver, asyncpg.
    """
    url = given.get(DATABASE_URL)
    if not url:
        return {DATABASE_URL: f"sqlite:///{_get_file(home)}"}
    scheme, _, rest = url.partition("://")
    # The first is what Heroku and others write, and SQLAlchemy does not accept it.
    if scheme in ("postgres", "postgresql"):
        url = f"postgresql+psycopg://{rest}"
    second = given.get(ASYNC_DATABASE_URL) or (url if url.startswith("postgresql+psycopg://") else "")
    return {DATABASE_URL: url} | ({ASYNC_DATABASE_URL: second} if second else {})


def find_own_file(home: Path, environment: Mapping[str, str]) -> Path | None:
    """The file of the embedded Airflow's own database; None where the environment names another database."""
    file = _get_file(home)
    return file if environment.get(DATABASE_URL) == f"sqlite:///{file}" else None


def _get_file(home: Path) -> Path:
    return home / "airflow.db"
