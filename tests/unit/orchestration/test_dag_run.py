from __future__ import annotations

from datetime import UTC, datetime

import pytest
from brokerproof.orchestration.dag_run import belongs_to, derive_run_id, make_run_id


@pytest.mark.parametrize(
    ("dag_run_id", "try_number", "run_id"),
    [
        ("s-20261121T013439Z-84af", 1, "s-20261121T013439Z-84af"),
        ("s-20261121T013439Z-84af", 2, "s-20261121T013439Z-84af-2"),
        ("manual__2026-11-21T01:34:39.5+00:00", 1, "s-manual__2026-11-21T01343950000"),
        ("../../etc", 1, "s-etc"),
    ],
)
def test_a_run_id_is_valid_as_a_directory_name(dag_run_id: str, try_number: int, run_id: str) -> None:
    assert derive_run_id("s", dag_run_id, try_number) == run_id


def test_a_made_run_id_is_derived_unchanged() -> None:
    made = make_run_id("s", datetime(2026, 11, 21, 1, 34, 39, tzinfo=UTC), "84af")
    assert made == "s-20261121T013439Z-84af" == derive_run_id("s", made)


@pytest.mark.parametrize(
    ("run_id", "belongs"),
    [("s-x", True), ("s-x-2", True), ("s-x-10", True), ("s-x-1", False), ("s-x2", False), ("s-y", False), ("x", False)],
)
def test_every_try_belongs_to_its_dag_run(run_id: str, belongs: bool) -> None:
    assert belongs_to(run_id, "s", "x") is belongs
