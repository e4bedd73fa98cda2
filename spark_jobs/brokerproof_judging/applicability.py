"""What does not apply to a run, because its messaging system lacks an ability. It is neither measured nor judged."""

from __future__ import annotations

from brokerproof.experiment.abilities import Ability
from brokerproof.experiment.guarantees import Anomaly
from brokerproof.experiment.metrics import METRICS
from brokerproof.run.directory import Run
from brokerproof.systems.registry import list_abilities


def find_lacking(name: str, abilities: frozenset[Ability]) -> Ability | None:
    """The ability that an anomaly or a metric needs and that is not among `abilities`; None where it applies."""
    needs = METRICS[name].needs if name in METRICS else Anomaly(name).facts.needs
    return needs if needs not in abilities else None


def list_applicable_anomalies(run: Run) -> list[Anomaly]:
    """The anomalies that the run's system can show."""
    abilities = list_abilities(run)
    return [anomaly for anomaly in Anomaly if find_lacking(anomaly, abilities) is None]
