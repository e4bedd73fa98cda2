"""The planted runs and the history of the tests of results."""

from __future__ import annotations

from ...results.conftest import (  # noqa: F401
    _judgement,
    _no_database_of_the_machine,
    judgement,
    migrated,
    plant,
    sqlite_history,
)
