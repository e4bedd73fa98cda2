"""The outcome says which nodes ended by themselves, and which of them were started again."""

from __future__ import annotations

from pathlib import Path

import pytest
from brokerproof.experiment.topology import Topology
from brokerproof.results.restarts import collect_restarts
from brokerproof.results.run_outcome import compose_outcome
from brokerproof.run.directory import Run
from brokerproof.run.outcome import NodeRestarts

# 2026-01-01T00:31:07Z
AT = 1_767_227_467_000_000
EVENTS = [
    ("bk-us", "ended", 20),
    ("bk-eu", "ended", 0),
    ("bk-eu", "restarted", 10),
    ("bk-eu", "ended", 40),
    ("bk-eu", "restarted", 50.2),
]
FOUND = (
    NodeRestarts(node="bk-eu", ended=2, restarted=2, first_ended_at=AT, first_restarted_at=AT + 10_000_000),
    NodeRestarts(node="bk-us", ended=1, restarted=0, first_ended_at=AT + 20_000_000, first_restarted_at=None),
)


@pytest.fixture
def run(tmp_path: Path, scenario, topology: Topology) -> Run:
    """A run whose bookies have service managers."""
    content = topology.model_dump(mode="json") | {"restart": {"bookie": {"after_s": 10}}}
    return Run.create(str(tmp_path / "run"), run_id="r", scenario=scenario(), topology=Topology.model_validate(content))


def plant_events(run: Run) -> None:
    rows = [
        {"run_id": "r", "at": AT + int(after_s * 1e6), "source": f"service_manager:{node}", "metric": metric}
        for node, metric, after_s in EVENTS
    ]
    # Another kind of source may use the same word.
    run.append("observations", [*rows, {"run_id": "r", "at": AT, "source": "node:bk-eu", "metric": "ended"}])


def test_each_node_that_ended_is_counted_in_the_order_of_time(run: Run) -> None:
    plant_events(run)
    assert collect_restarts(run) == FOUND
    assert compose_outcome(run).restarts == FOUND


def test_a_run_without_events_has_none(run: Run) -> None:
    assert collect_restarts(run) == ()


def test_a_table_that_is_damaged_hides_no_outcome(run: Run) -> None:
    plant_events(run)
    for file in Path(run.table("observations")).iterdir():
        file.write_text("no Parquet")
    assert compose_outcome(run).restarts == ()
