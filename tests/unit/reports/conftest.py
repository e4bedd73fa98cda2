"""The planted runs and the history of the tests of results, and checks planted in a judgement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from builders import make_check

from ..results.conftest import (  # noqa: F401
    _judgement,
    _no_database_of_the_machine,
    judgement,
    migrated,
    plant,
    sqlite_history,
)

PlantCheck = Callable[..., dict[str, Any]]


@pytest.fixture
def plant_check() -> PlantCheck:
    """Makes a judgement with one check in a suite: `plant_check("completeness", "lost", "failed", unexpected=3)`."""

    def make(suite: str, name: str, verdict: str, **fields: Any) -> dict[str, Any]:
        check = make_check(name, verdict, **fields).model_dump(mode="json")
        judged = judgement()
        judged["suites"][suite] |= {"verdict": verdict, "why": f"why of {suite}", "expectations": [check]}
        return judged | {"verdict": verdict if verdict != "not_applicable" else "passed"}

    return make
