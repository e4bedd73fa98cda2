"""Anomalies and metrics that do not apply to a run, because its messaging system lacks an ability that they need."""

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


def list_applicable_anomalies(run: Run) -> list[Anomaly]:
    """Return the anomalies that need no ability, or an ability that the run's messaging system has."""
    abilities = list_abilities(run)
    return [anomaly for anomaly in Anomaly if find_lacking(anomaly, abilities) is None]
