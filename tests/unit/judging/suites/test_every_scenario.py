"""Each scenario of the project can turn red: whatever it bounds fails it where the bound is broken."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from brokerproof.checks import load_scenario
from brokerproof.experiment.guarantees import Suite
from brokerproof.experiment.metrics import METRICS
from brokerproof.experiment.scenario import Bound, Scenario
from brokerproof.faults.registry import list_harmful_faults
from brokerproof.run.directory import Run
from brokerproof.systems.registry import find_system
from brokerproof_judging.measurements.measured_values import make_measured_value, make_measurements
from brokerproof_judging.measurements.run_measurements import FAULT_METRICS

from ...measured_scenarios import list_measured_scenarios
from .conftest import PROJECT, RUN_ID, Judge, about, message

SCENARIOS = sorted(path.stem for path in (PROJECT / "dags" / "scenarios").glob("*.yaml"))
SUITES = (Suite.PLACEMENT, Suite.RECOVERY)


def bounded(scenario: Scenario) -> Iterator[tuple[str, str, Bound]]:
    """(metric, subject, bound) of everything that a scenario bounds, with what it bounds without a line of its own."""
    faults = list_harmful_faults(scenario)
    for key, bound in scenario.bounds.items():
        metric, _, subject = key.partition("/")
        everything = faults if METRICS[metric].is_per_fault else ["steady"]
        for each in [subject] if subject else everything:
            yield metric, each, bound
    for phase in ("steady", "recovery"):
        if getattr(scenario.owner, phase):
            yield "owner_in_region", phase, Bound(min=1)
    if scenario.destroyed:
        yield "lost_later_messages", faults[0], Bound(max=0)


def planted(directory: Path, name: str, *, broken: bool) -> tuple[Run, dict[Suite, set[str]]]:
    """A run whose measurements are all just within the scenario's bounds, or all just outside; the metrics bounded."""
    scenario, topology = load_scenario(PROJECT / f"dags/scenarios/{name}.yaml", PROJECT / "topologies")
    run = Run.create(str(directory / "run"), run_id=RUN_ID, scenario=scenario, topology=topology)
    # What has to be measured without a bound too.
    found = {
        ("segments_not_spanning", "steady"): 0.0,
        ("under_replicated_segments", "end"): 0.0,
        ("sampling_gap_s", "run"): 0.5,
        **{(metric, fault): 0.0 for metric in FAULT_METRICS for fault in list_harmful_faults(scenario)},
    }
    metrics: dict[Suite, set[str]] = {suite: set() for suite in SUITES}
    for metric, subject, bound in bounded(scenario):
        edge = bound.max if bound.max is not None else bound.min
        assert edge is not None
        outside = edge + 1 if bound.max is not None else edge - 0.01
        found[metric, subject] = outside if broken else edge
        metrics[METRICS[metric].suite].add(metric)
    home, topic = scenario.workload.list_homes(topology)[0], find_system(topology).topic(scenario.workload)
    place = {"cluster": home, "home": home, "topic": topic}
    tables = {
        "messages": [message(seq, None) | place for seq in range(5)],
        "anomalies": [],
        "measurements": [
            row.model_dump(mode="json")
            for row in make_measurements(
                run,
                [make_measured_value(metric, subject, value, "planted") for (metric, subject), value in found.items()],
            )
        ],
    }
    for table, content in tables.items():
        Path(run.table(table)).mkdir(parents=True)
        run.append(table, content)
    return run, metrics


@pytest.mark.parametrize("name", SCENARIOS)
def test_whatever_it_bounds_turns_it_red(tmp_path: Path, judge: Judge, name: str) -> None:
    run, metrics = planted(tmp_path / "broken", name, broken=True)
    for suite, judgement in judge(run, only=[suite for suite in SUITES if metrics[suite]]).items():
        # A run that shows less than a scenario is about proves nothing.
        with_maximum = {metric for metric, _, bound in bounded(run.scenario) if bound.max is not None}
        found = {each: METRICS[each].minimum_is_to_show and each not in with_maximum for each in metrics[Suite(suite)]}
        assert judgement["verdict"] == ("unknown" if all(found.values()) else "failed"), judgement["why"]
        for metric, is_to_show in found.items():
            assert about(judgement, metric)["undecided" if is_to_show else "unexpected"]


@pytest.mark.parametrize("name", SCENARIOS)
def test_nothing_within_its_bounds_does(tmp_path: Path, judge: Judge, name: str) -> None:
    run, _ = planted(tmp_path / "kept", name, broken=False)
    verdicts = {suite: judgement["verdict"] for suite, judgement in judge(run, only=SUITES).items()}
    assert verdicts == dict.fromkeys(SUITES, "passed")


@pytest.mark.parametrize("name", [name for name in list_measured_scenarios() if not name.startswith("control_")])
def test_one_whose_figures_are_shown_bounds_something(name: str) -> None:
    scenario, _ = load_scenario(PROJECT / f"dags/scenarios/{name}.yaml", PROJECT / "topologies")
    assert list(bounded(scenario))
