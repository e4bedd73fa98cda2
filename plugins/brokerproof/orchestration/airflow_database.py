"""The database of the embedded Airflow: a SQLite file of its own, or the database that the user names.

This module imports neither Airflow nor this package, so that the supervisor stays small.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

DATABASE_URL = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"
ASYNC_DATABASE_URL = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC"


def build_database_environment(home: Path, given: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that name the database. `given` holds the user's own; an empty one counts as unset.

    If a PostgreSQL URL names no driver, Airflow uses psycopg for its synchronous and its asynchronous connections. By
    itself Airflow would need a second driver, asyncpg.
    """
    url = given.get(DATABASE_URL)
    if not url:
        return {DATABASE_URL: f"sqlite:///{_get_file(home)}"}
    scheme, _, rest = url.partition("://")
    # Heroku and others write `postgres`, which SQLAlchemy does not accept.
    if scheme in ("postgres", "postgresql"):
        url = f"postgresql+psycopg://{rest}"
    second = given.get(ASYNC_DATABASE_URL) or (url if url.startswith("postgresql+psycopg://") else "")
    return {DATABASE_URL: url} | ({ASYNC_DATABASE_URL: second} if second else {})


def find_own_file(home: Path, environment: Mapping[str, str]) -> Path | None:
    """Return the file of the embedded Airflow's own database, or None if the environment names another database."""
    file = _get_file(home)
    return file if environment.get(DATABASE_URL) == f"sqlite:///{file}" else None


def _get_file(home: Path) -> Path:
    return home / "airflow.db"
