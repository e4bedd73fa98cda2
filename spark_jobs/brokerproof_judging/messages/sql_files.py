"""Reads the queries on messages, which are one file each below `sql/`."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from brokerproof_judging.database import DuckDB


@cache
def read_query(name: str) -> str:
    """Return the text of `sql/NAME.sql`."""
    return files("brokerproof_judging.messages").joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")


def define_macros(connection: DuckDB) -> None:
    """Define the macros of `sql/macros.sql`, which several queries share."""
    connection.execute(read_query("macros"))
