"""What needs an ability does not apply to a system without it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from brokerproof.experiment.abilities import Ability
from brokerproof.experiment.guarantees import Anomaly
from brokerproof.experiment.metrics import METRICS
from brokerproof_judging.applicability import find_lacking

NEEDS: Mapping[str, Ability | None] = {
    **{str(anomaly): anomaly.facts.needs for anomaly in Anomaly},
    **{name: metric.needs for name, metric in METRICS.items()},
}


@pytest.mark.parametrize("name", NEEDS)
def test_only_the_needed_ability_is_lacking(name: str) -> None:
    needs = NEEDS[name]
    assert find_lacking(name, frozenset()) is needs
    assert find_lacking(name, frozenset(Ability) - {needs}) is needs
    assert find_lacking(name, frozenset(Ability)) is None


def test_some_anomalies_and_some_metrics_need_an_ability() -> None:
    assert [bool(NEEDS[name]) for name in ("not_replicated", "phantom", "rto_s")] == [True, False, False]
    assert any(metric.needs for metric in METRICS.values())
