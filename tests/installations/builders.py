"""The one builder of a run and the one of a judgement for tests, and where the repository keeps its files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from brokerproof.checks import load_scenario
from brokerproof.experiment.guarantees import Anomaly, Suite
from brokerproof.experiment.metrics import METRICS
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.experiment.verdict import Verdict
from brokerproof.run.directory import Run
from brokerproof.run.judgement import TOTALS, Check, Counts, Judgement, SuiteJudgement
from brokerproof.run.measurement import Measurement
from brokerproof.suites.suite_file import make_entry

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = ROOT / "dags" / "scenarios"
TOPOLOGIES = ROOT / "topologies"
EXPECTATIONS = ROOT / "expectations"
# The systems for tests, with their scenarios and topologies.
SYSTEMS = ROOT / "tests" / "systems"
# The subject of a planted measurement.
FAULT = "planted_fault"


def load_shipped(scenario: str, overrides: Mapping[str, Any] | None = None) -> tuple[Scenario, Topology]:
    """Return a scenario of the repository and its topology."""
    return load_scenario(SCENARIOS / f"{scenario}.yaml", TOPOLOGIES, overrides)


def make_run(
    directory: Path | str,
    scenario: Path | str = "sync_nominal",
    overrides: Mapping[str, Any] | None = None,
    *,
    topologies: Path = TOPOLOGIES,
    run_id: str = "r",
    **facts: Any,
) -> Run:
    """Make a run of a scenario, in which nothing happened yet.

    `scenario` is a name in the repository or a file.
    """
    file = SCENARIOS / f"{scenario}.yaml" if isinstance(scenario, str) else scenario
    resolved, topology = load_scenario(file, topologies, overrides)
    return Run.create(str(directory), run_id=run_id, scenario=resolved, topology=topology, **facts)


def make_check(
    name: str, verdict: str = Verdict.PASSED, *, samples: Iterable[dict[str, Any]] = (), **values: Any
) -> Check:
    """Make one expectation with its result. That of an anomaly or a metric has the description of the shipped suite."""
    is_shipped = name in METRICS or name in set(Anomaly)
    description = make_entry(name)["description"] if is_shipped else f"The demand of {name}."
    counts = {"rows": 1000, "unexpected": 0, "undecided": 0, "legal": 0}
    given = {"description": description, "samples": tuple(samples), **counts, **values}
    return Check(name=name, verdict=Verdict(verdict), **given)


def make_suite(verdict: str = Verdict.PASSED, *checks: Check, why: str = "so") -> SuiteJudgement:
    """Make the result of a suite with these expectations, which were all evaluated."""
    count = len(checks)
    return SuiteJudgement(verdict=Verdict(verdict), why=why, evaluated=count, written=count, expectations=checks)


def make_measurement(
    run_id: str, metric: str, value: float | None, *, subject: str = FAULT, **bounds: Any
) -> Measurement:
    """Make one measurement."""
    facts = METRICS[metric]
    given = {"minimum": None, "maximum": None, "evidence": "", **bounds}
    return Measurement(
        run_id=run_id, suite=facts.suite, metric=metric, subject=subject, value=value, unit=facts.unit, **given
    )


def make_counts(
    every: int = 0,
    *,
    legal: Mapping[Any, int] | None = None,
    illegal: Mapping[Any, int] | None = None,
    **totals: int | None,
) -> Counts:
    """Make counts: each total is `every` unless it is named."""
    found = [{Anomaly(kind): count for kind, count in (kinds or {}).items()} for kinds in (legal, illegal)]
    return Counts.model_validate({**dict.fromkeys(TOTALS, every), **totals, "legal": found[0], "illegal": found[1]})


def make_judgement(
    verdict: str = Verdict.PASSED,
    *,
    problems: Iterable[str] = (),
    measurements: Iterable[Measurement] = (),
    **fields: Any,
) -> Judgement:
    """Make a judgement of a run without messages, whose five suites passed. `fields` replaces parts of it."""
    given = {
        "why": "that is why",
        "suites": dict.fromkeys(Suite, make_suite()),
        "counts": make_counts(),
        "recovery": {},
        "seconds": {},
        **fields,
    }
    return Judgement(verdict=Verdict(verdict), problems=tuple(problems), measurements=tuple(measurements), **given)


def dump_judgement(judgement: Judgement) -> dict[str, Any]:
    """Return the content of the judgement's record, which a test may spoil before it leaves it."""
    content = {"version": Judgement.VERSION, **judgement.model_dump(mode="json")}
    # The run that the judgement is left in gives them its own id.
    return content | {"measurements": [{**row, "run_id": ""} for row in content["measurements"]]}


def leave_judgement(run: Run, content: Mapping[str, Any]) -> None:
    """Leave the content of a judgement, whole or spoiled, in the run's directory, with the run's id in its rows."""
    measured = [{**row, "run_id": row.get("run_id") or run.run_id} for row in content.get("measurements", [])]
    run.write_text("state/judgement.json", json.dumps({**content, "measurements": measured} if measured else content))
