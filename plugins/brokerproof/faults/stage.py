"""What the modules of the fault timeline share: run, nodes, network between regions, clock, and the problems so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from brokerproof.clock import Clock
from brokerproof.experiment.topology import Topology
from brokerproof.faults.courses import CourseWaits
from brokerproof.network import LinkClient
from brokerproof.run.directory import Run
from brokerproof.runtimes.protocols import NodeSpec, Runtime
from brokerproof.systems.protocols import Administration, Observation, Provisioning, System
from brokerproof.systems.registry import find_system


@dataclass(kw_only=True)
class Stage:
    """The run, and what the timeline of faults needs to act on it.

    `link` is the network between the run's regions; None if the topology has no links. `problems` are sentences for the
    record `FaultsUndone`. `show` writes the live status.
    """

    run: Run
    provisioning: Provisioning
    administration: Administration
    observation: Observation
    runtime: Runtime
    link: LinkClient | None
    show: Callable[..., None]
    clock: Clock
    waits: CourseWaits
    problems: list[str] = field(default_factory=list)

    @property
    def topology(self) -> Topology:
        return self.run.topology

    @cached_property
    def system(self) -> System:
        return find_system(self.run.topology)

    @cached_property
    def specs(self) -> dict[str, NodeSpec]:
        """The specification of every node, by name."""
        return dict(self.provisioning.specs())

    def warm_up(self) -> None:
        """Do once what takes seconds on a busy machine the first time, so that no fault waits for it."""
        # pyarrow imports pandas when it converts the first value for a table.
        pa.array([])
        _ = self.specs
