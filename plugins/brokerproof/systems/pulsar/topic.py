"""The name of the workload's topic, as Pulsar's clients and admin REST write it."""

from __future__ import annotations

from brokerproof.experiment.scenario import Workload


def full_name(workload: Workload) -> str:
    """A persistent topic of the workload's namespace."""
    return f"persistent://{workload.namespace}/{workload.topic}"
