"""Grafana's dashboards are what their tool writes, and Grafana can read them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from grafana_dashboards import DIRECTORY, STARTED, VALUE_AS_TIME, make_dashboards
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard


def read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((DIRECTORY / name).read_text())
    return content


def test_the_files_are_what_the_tool_writes() -> None:
    assert {file.name: file.read_text() for file in DIRECTORY.glob("*.json")} == make_dashboards()


@pytest.mark.parametrize("name", ["nodes.json", "results.json"])
def test_grafanas_own_model_of_a_dashboard_reads_all_of_it(name: str) -> None:
    content = read(name)
    for annotation in content["annotations"]["list"]:
        annotation.pop(VALUE_AS_TIME, None)
    model = Dashboard.from_json(content)
    assert json.loads(JSONEncoder().encode(model)) == content
    assert model.panels


def test_what_the_model_does_not_know_is_found() -> None:
    content = read("nodes.json")
    model = Dashboard.from_json({**content, "titel": "misspelt"})
    assert json.loads(JSONEncoder().encode(model)) != {**content, "titel": "misspelt"}


def test_a_run_is_marked_at_its_start_and_not_when_its_metrics_change() -> None:
    """A change within a minute is not seen of a scenario's first run, nor where a query steps over that minute."""
    [annotation] = read("results.json")["annotations"]["list"]
    assert (annotation["expr"], annotation[VALUE_AS_TIME]) == (STARTED, True)


def test_a_span_with_nodes_is_marked_at_the_times_of_its_samples() -> None:
    [annotation] = read("nodes.json")["annotations"]["list"]
    assert VALUE_AS_TIME not in annotation
