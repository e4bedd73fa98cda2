"""The runs of one scenario in groups: each with its verdicts and medians, and noise is told from a difference."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from brokerproof.cli import main
from brokerproof.results.regressions import ENOUGH, ENOUGH_TO_SUSPECT
from brokerproof.results.run_groups import GroupBy, GroupedMeasurement, group_runs

RTO = ("rto_s", "kill_us")
PAIRS = 1000


@pytest.mark.parametrize(
    ("by", "names"),
    [
        (GroupBy.VERSION, ["pulsar 4.0.8", "pulsar 4.1.0"]),
        (GroupBy.SETTINGS, ["1", "2"]),
        (GroupBy.SYSTEM, ["pulsar"]),
        (GroupBy.RUNTIME, ["process", "docker"]),
    ],
)
def test_runs_are_grouped_by_what_they_have_in_common(record, by, names):
    runs = [record(measured={RTO: value}) for value in (50.0, 52.0, 60.0)]
    runs.append(record("unknown", measured={RTO: 500.0}))
    runs.append(record(measured={RTO: 30.0}, changes={"version": "4.1.0", "runtime": "docker"}))

    groups = group_runs(runs, by)

    assert [group.name for group in groups] == names
    if len(groups) == 2:
        first, second = groups
        assert (first.run_ids, first.verdicts) == (("r0", "r1", "r2", "r3"), {"passed": 3, "unknown": 1})
        [rto] = first.measurements
        # The run that nobody could judge does not count.
        assert (rto.metric, rto.subject, rto.unit) == (*RTO, "s")
        assert (rto.n, rto.median, rto.least, rto.greatest) == (3, 52.0, 50.0, 60.0)
        [rto] = second.measurements
        assert (rto.n, rto.median) == (1, 30.0)
        assert second.differences == (("scenario.runtime process → docker",) if by is GroupBy.SETTINGS else ())


def test_groups_by_settings_of_several_scenarios_are_compared_with_the_first_scenario(sqlite_history, record):
    tuned = {"settings": {"broker": {"session_ms": 8000}}}
    record(measured={RTO: 50.0})
    for number in range(3):
        record(measured={RTO: 14.0}, changes={"name": "kill_region_tuned", **(tuned if number else {})})

    groups = sqlite_history.group(["kill_region", "kill_region_tuned"], GroupBy.SETTINGS)

    assert [group.run_ids for group in groups] == [("r0",), ("r3", "r2"), ("r1",)]
    assert [group.differences for group in groups] == [
        (),
        ("scenario.name kill_region → kill_region_tuned", "scenario.settings.broker.session_ms not set → 8000"),
        ("scenario.name kill_region → kill_region_tuned",),
    ]
    assert [group.measurements[0].median for group in groups] == [50.0, 14.0, 14.0]


def test_a_group_is_compared_with_the_largest(record):
    runs = [record(measured={RTO: value}) for value in (50.0, 51.0, 50.5, 50.0, 51.0, 52.0)]
    runs += [record(measured={RTO: value}, changes={"version": "4.1.0"}) for value in (75.0, 76.0, 74.0, 75.0, 75.5)]
    runs += [record(measured={RTO: 90.0}, changes={"version": "4.2.0"})]

    largest, newer, newest = (group.measurements[0] for group in group_runs(runs, GroupBy.VERSION))

    assert (largest.difference, largest.larger_than_noise) == (None, None)
    assert (newer.difference, newer.larger_than_noise, newer.worse) == (24.25, True, True)
    assert newer.why.startswith("with 6 and 5 judged runs, ")
    # One run is no group.
    assert (newest.larger_than_noise, newest.worse) == (None, True)
    assert newest.why == f"the noise is not known: 1 judged runs in one group, {ENOUGH_TO_SUSPECT} needed"


def test_a_group_has_what_the_largest_lacks(record):
    runs = [record() for _ in range(3)] + [record(measured={RTO: 50.0}, changes={"version": "4.1.0"})]
    [rto] = group_runs(runs, GroupBy.VERSION)[1].measurements
    assert (rto.difference, rto.why) == (None, "the first group has no value")


def test_the_tolerance_of_the_scenario_counts(record):
    def find(tolerance: float) -> GroupedMeasurement:
        changes = {"regression": {"tolerance": tolerance}}
        runs = [record(measured={RTO: 50.0}, changes=changes) for _ in range(6)]
        runs += [record(measured={RTO: 60.0}, changes={**changes, "version": "4.1.0"}) for _ in range(5)]
        return group_runs(runs, GroupBy.VERSION)[1].measurements[0]

    assert find(0.1).larger_than_noise is True
    assert find(0.5).larger_than_noise is False


def test_the_history_groups_the_last_runs_of_a_scenario(sqlite_history, record):
    for version in ("4.0.8", "4.0.8", "4.1.0"):
        record(changes={"version": version})
    record(changes={"name": "kill_bookie"})

    assert [len(group.run_ids) for group in sqlite_history.group(["kill_region"], GroupBy.VERSION)] == [2, 1]
    assert sqlite_history.group(["unknown_scenario"], GroupBy.VERSION) == []


def draw_runs(rng: random.Random, sizes: tuple[int, int], spread: float, step: float) -> list[Any]:
    """Runs of two versions whose RTO has nothing but noise, and a step between the versions."""
    values = [
        50.0 * (1 + step * version) * rng.lognormvariate(0, spread) for version in (0, 1) for _ in range(sizes[version])
    ]
    return [
        SimpleNamespace(
            run_id=f"r{number}",
            scenario="kill_region",
            system="pulsar",
            system_version=f"4.{int(number >= sizes[0])}.0",
            verdict="passed",
            started_at=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number),
            parameters={"scenario": {}},
            measurements=[SimpleNamespace(metric="rto_s", subject="", unit="s", value=value)],
        )
        for number, value in enumerate(values)
    ]


def share_told(sizes: tuple[int, int], spread: float, step: float) -> float:
    """Of PAIRS of groups, the share whose second is told from the first."""
    rng = random.Random(f"{sizes} {spread} {step}")
    told = 0
    for _ in range(PAIRS):
        groups = group_runs(draw_runs(rng, sizes, spread, step), GroupBy.VERSION)
        told += groups[1].measurements[0].larger_than_noise is True
    return told / PAIRS


@pytest.mark.parametrize("spread", [0.03, 0.06, 0.12, 0.25])
@pytest.mark.parametrize(("sizes", "most"), [((6, 5), 0.02), ((ENOUGH, 5), 0.015), ((30, ENOUGH), 0.01)])
def test_noise_is_not_told_as_a_difference(sizes, spread, most):
    assert share_told(sizes, spread, 0.0) <= most


@pytest.mark.parametrize(
    ("sizes", "spread", "least"), [((6, 5), 0.03, 0.99), ((ENOUGH, 5), 0.06, 0.95), ((30, ENOUGH), 0.12, 0.85)]
)
def test_a_step_of_30_percent_is_told(sizes, spread, least):
    assert share_told(sizes, spread, 0.3) >= least


def test_groups_are_printed_and_read_by_programs(sqlite_history, record, monkeypatch, tmp_path, capsys):
    for version, value in [("4.0.8", 50.0)] * 6 + [("4.1.0", 75.0)] * 5:
        record(measured={RTO: value}, changes={"version": version})
    monkeypatch.setenv("BROKERPROOF_DATABASE_URL", sqlite_history.database)

    assert main(["history", "kill_region", "--by", "version"]) == 0
    printed = capsys.readouterr().out
    assert "pulsar 4.1.0" in printed
    assert "75 s, 5 worse" in printed
    assert main(["history", "kill_region", "--by", "version", "--json"]) == 0
    assert [group["name"] for group in json.loads(capsys.readouterr().out)] == ["pulsar 4.0.8", "pulsar 4.1.0"]
    for by in GroupBy:
        assert main(["history", "kill_region", "--by", by]) == 0


def test_groups_by_settings_are_printed_with_their_differences(sqlite_history, record, monkeypatch, capsys):
    for number in range(8):
        changes = {"workload": {"namespace": "shop/orders", "rate": 1000 + number}} if number else {}
        record(measured={RTO: 50.0}, changes=changes)
    monkeypatch.setenv("BROKERPROOF_DATABASE_URL", sqlite_history.database)

    assert main(["history", "kill_region", "--by", "settings"]) == 0

    printed = capsys.readouterr().out.splitlines()
    assert "2 is 1 with scenario.workload.rate 1007 → 1006" in printed
    assert printed[-1] == "without a column: 7, 8"
    assert sum("is not known" in line for line in printed) == 1


@pytest.mark.parametrize("scenarios", [[], ["a", "b"], ["--compare", "r0", "r1"]])
def test_groups_of_no_one_scenario_are_refused_with_a_sentence(scenarios, capsys):
    assert main(["history", *scenarios, "--by", "version"]) == 3
    refusal = " ".join(capsys.readouterr().err.split())
    assert "--by" in refusal
    assert "name a scenario" in refusal or "name one scenario" in refusal
