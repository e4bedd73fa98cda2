"""The outcome says which nodes ended by themselves, and which of them were started again."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from brokerproof.experiment.topology import Topology
from brokerproof.reports.outcome_view import print_outcome
from brokerproof.results.restarts import collect_restarts, describe_restarts
from brokerproof.results.run_outcome import compose_outcome
from brokerproof.run.directory import Run
from brokerproof.run.outcome import NodeRestarts
from rich.console import Console

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


@pytest.mark.parametrize(
    ("restarts", "sentence"),
    [
        (
            FOUND[0].model_copy(update={"ended": 1, "restarted": 1}),
            "bk-eu ended by itself at 00:31:07 UTC and was started again after 10 s",
        ),
        (
            FOUND[0],
            "bk-eu ended by itself at 00:31:07 UTC and was started again after 10 s; "
            "in all it ended 2 times and was started 2 times",
        ),
        (FOUND[1], "bk-us ended by itself at 00:31:27 UTC and was not started again by its service manager"),
    ],
)
def test_one_sentence_says_what_happened_to_a_node(restarts: NodeRestarts, sentence: str) -> None:
    assert describe_restarts(restarts) == sentence


def test_the_terminal_shows_a_line_for_each_node(run: Run) -> None:
    plant_events(run)
    console = Console(record=True, width=120, file=io.StringIO())
    print_outcome(compose_outcome(run).model_dump(mode="json"), {}, console)
    said = console.export_text()
    assert "bk-eu ended by itself at 00:31:07 UTC and was started again after 10 s" in said
    assert said.index("bk-eu ended") < said.index("bk-us ended")
