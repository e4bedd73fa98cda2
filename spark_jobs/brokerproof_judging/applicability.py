"""Anomalies and metrics that do not apply to a run, because its system or its scenario lacks what they need."""

from __future__ import annotations

from brokerproof.experiment.abilities import Ability
from brokerproof.experiment.guarantees import Anomaly
from brokerproof.experiment.metrics import METRICS
from brokerproof.run.directory import Run
from brokerproof.systems.abilities import explain_lack
from brokerproof.systems.registry import find_system, list_abilities


def find_lacking(name: str, abilities: frozenset[Ability]) -> Ability | None:
    """Return the ability that the anomaly or metric `name` needs and `abilities` lacks; None if nothing is missing."""
    needs = METRICS[name].needs if name in METRICS else Anomaly(name).facts.needs
    return needs if needs not in abilities else None


def explain_inapplicable(run: Run, name: str) -> str:
    """Return why the anomaly or metric `name` does not apply to the run; empty if it does."""
    lacking = find_lacking(name, list_abilities(run))
    if lacking is not None:
        return explain_lack(find_system(run.topology), run.scenario.workload, lacking)
    if name in METRICS:
        return ""
    facts, workload = Anomaly(name).facts, run.scenario.workload
    if facts.of_outputs and not workload.writes_outputs:
        return "no consumer writes outputs"
    if facts.only_at is not None and not any(each.type in facts.only_at for each in workload.subscriptions):
        return f"no subscription is {' or '.join(sorted(facts.only_at))}"
    return ""


def list_applicable_anomalies(run: Run) -> list[Anomaly]:
    """Return the anomalies that the run can show: its messaging system and its scenario have what they need."""
    return [anomaly for anomaly in Anomaly if not explain_inapplicable(run, anomaly)]
