"""Anomalies and metrics that do not apply to a run, because its system or its scenario lacks what they need."""

from __future__ import annotations

from brokerproof.experiment.abilities import Ability
from brokerproof.experiment.guarantees import Anomaly
from brokerproof.experiment.metrics import METRICS
from brokerproof.run.directory import Run
from brokerproof.systems.registry import list_abilities


def find_lacking(name: str, abilities: frozenset[Ability]) -> Ability | None:
    """Return the ability that the anomaly or metric `name` needs and `abilities` lacks; None if nothing is missing."""
    needs = METRICS[name].needs if name in METRICS else Anomaly(name).facts.needs
    return needs if needs not in abilities else None


def explain_inapplicable(run: Run, name: str) -> str:
    """Return why the anomaly or metric `name` does not apply to the run; empty if it does."""
    lacking = find_lacking(name, list_abilities(run))
    if lacking is not None:
        return f"{run.topology.system} cannot {lacking.meaning}"
    is_of_outputs = name not in METRICS and Anomaly(name).facts.of_outputs
    return "no consumer writes outputs" if is_of_outputs and not run.scenario.workload.writes_outputs else ""


def list_applicable_anomalies(run: Run) -> list[Anomaly]:
    """Return the anomalies that the run can show: its messaging system and its scenario have what they need."""
    return [anomaly for anomaly in Anomaly if not explain_inapplicable(run, anomaly)]
