"""Makes PostgreSQL's databases and users what the settings say, before the services of docker-compose.yaml start.

The environment names the server and its superuser as libpq does (PGHOST, PGUSER, PGPASSWORD). The URLs of Airflow's
database, of the history and of the history's reader name the users, their passwords and their databases. The program
runs at each start, so that a changed password takes effect and a platform of an earlier version gets what is new.
"""

from __future__ import annotations

import os

import psycopg
from brokerproof.settings import from_environment
from psycopg.sql import SQL, Identifier, Literal
from sqlalchemy import URL, make_url


def connect(database: str) -> psycopg.Connection:
    return psycopg.connect(dbname=database, autocommit=True)


def set_user(server: psycopg.Connection, url: URL) -> None:
    """Make the user of a URL unless it exists, and set its password."""
    assert url.username, "the URL has no user"
    assert url.password, "the URL has no password"
    name = Identifier(url.username)
    if not server.execute("SELECT FROM pg_roles WHERE rolname = %s", [url.username]).rowcount:
        server.execute(SQL("CREATE ROLE {} LOGIN").format(name))
    # Hashed here, because the server writes a statement that fails into its log.
    password = server.pgconn.encrypt_password(url.password.encode(), url.username.encode(), b"scram-sha-256")
    server.execute(SQL("ALTER ROLE {} PASSWORD {}").format(name, Literal(password.decode())))


def set_database(server: psycopg.Connection, url: URL) -> None:
    """Make the database of a URL unless it exists. Only its owner, the URL's user, may connect to it."""
    database, owner = Identifier(str(url.database)), Identifier(str(url.username))
    if not server.execute("SELECT FROM pg_database WHERE datname = %s", [url.database]).rowcount:
        make = SQL("CREATE DATABASE {} OWNER {} ENCODING 'UTF8' TEMPLATE template0")
        server.execute(make.format(database, owner))
    server.execute(SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(database))


def let_read(database: psycopg.Connection, reader: URL, owner: URL) -> None:
    """Let a user read all tables that the owner of a database has made or will make, and do nothing else."""
    names = {"owner": owner.username, "reader": reader.username, "database": owner.database}
    for statement in (
        "GRANT CONNECT ON DATABASE {database} TO {reader}",
        "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
        "GRANT ALL ON SCHEMA public TO {owner}",
        "GRANT USAGE ON SCHEMA public TO {reader}",
        "GRANT SELECT ON ALL TABLES IN SCHEMA public TO {reader}",
        "ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA public GRANT SELECT ON TABLES TO {reader}",
    ):
        database.execute(SQL(statement).format(**{name: Identifier(str(value)) for name, value in names.items()}))


def main() -> None:
    settings = from_environment()
    airflow = make_url(os.environ["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"])
    history, reader = make_url(settings.database_url or ""), make_url(settings.history_reader_url or "")
    with connect("postgres") as server:
        for url in (airflow, history, reader):
            set_user(server, url)
        for url in (airflow, history):
            set_database(server, url)
        # By default every user may connect to these two, and make temporary tables there.
        server.execute("REVOKE ALL ON DATABASE postgres, template1 FROM PUBLIC")
    with connect(str(history.database)) as database:
        let_read(database, reader, history)


if __name__ == "__main__":
    main()
