"""Samples of the ends and restarts that service managers recorded: one sample for each event, with its time."""

from __future__ import annotations

from brokerproof.run.observations import Sample, SampledMetric, Source
from brokerproof.runtimes.protocols import SupervisesNodes
from brokerproof.runtimes.restarts import RestartStep

_METRICS = {RestartStep.ENDED: SampledMetric.ENDED, RestartStep.RESTARTED: SampledMetric.RESTARTED}


class RestartSampler:
    """Takes one sample of each restart event of a run."""

    def __init__(self, runtime: SupervisesNodes) -> None:
        self._runtime = runtime
        self._taken = 0

    def sample(self) -> list[Sample]:
        """Return samples of the events since the last call."""
        events = self._runtime.list_restart_events()[self._taken :]
        self._taken += len(events)
        return [
            Sample(
                at=event.at,
                source=Source.SERVICE_MANAGER.join_name(event.node),
                metric=str(_METRICS[event.step]),
                value=str(event.times),
            )
            for event in events
        ]
