"""What Brokerproof asks of a messaging system's driver: the one seam between the core and each system."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from brokerproof.drivers.clients import Position
from brokerproof.link.routes import Route
from brokerproof.run import Run
from brokerproof.runtimes.base import NodeSpec


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One observation: what the cluster said about `source` at `at` (microseconds, when the answer arrived)."""

    at: int
    source: str
    metric: str
    value: str


class Driver(Protocol):
    """All that is particular to one messaging system."""

    def specs(self) -> Mapping[str, NodeSpec]:
        """Every node of the topology, by name."""

    def routes(self) -> list[Route]:
        """Every way from one region to another that the system's nodes and clients take; none without links."""

    def start_order(self) -> list[list[str]]:
        """Nodes in groups: each group starts, in parallel, when the one before is healthy."""

    def initialize(self) -> tuple[str, ...] | None:
        """The program that has to run once between the first group and the second, if any."""

    def healthy(self, spec: NodeSpec) -> bool:
        """Whether the node itself says that it is healthy."""

    def ready(self, spec: NodeSpec) -> bool:
        """Whether the node serves; what is waited for until the cluster is configured."""

    def learn(self, pids: Mapping[str, int]) -> None:
        """Keep what makes the next start of such nodes faster, from nodes that run (name: pid)."""

    def configure(self) -> list[str]:
        """Set everything that the topology asks for. Returns the nodes that have to restart for it.

        Raises AdminError where the cluster refuses something.
        """

    def check_configuration(self) -> None:
        """Read everything back that `configure` set. Raises AdminError naming what did not take."""

    def owner(self) -> str | None:
        """The node that owns the topic now (the first partition of a partitioned one)."""

    def holders(self) -> list[str]:
        """The nodes that the newest entries of the topic go to now."""

    def alive(self) -> dict[str, list[str]]:
        """Nodes that the cluster itself lists as alive, by role."""

    def samplers(self) -> Mapping[str, Callable[[], list[Sample]]]:
        """Functions that each take one observation; asked side by side, so that none waits for another.

        They raise where nobody answers, which is recorded as such.
        """

    def under_replicated(self) -> int | None:
        """Ledgers waiting for another copy, None where nobody could be asked."""

    def ledgers(self, moment: str) -> list[dict[str, Any]]:
        """Rows of the `ledgers` table: where every segment of the topic is now."""

    def published(self) -> int:
        """Messages that the topic's owner took in since it owns it (a counter that starts again with each owner)."""

    def drained(self) -> list[dict[str, Any]]:
        """For each partition and subscription: cluster, topic, partition, subscription, drained, backlog, why."""

    def acknowledged(self, cluster: str, subscription: str) -> dict[int, Position]:
        """For each partition, the position up to which the cluster holds everything acknowledged."""

    def logs(self) -> list[dict[str, Any]]:
        """For each log that has to be read back: cluster, partition, last_confirmed ([ledger, entry] or None)."""

    def reassign(self) -> None:
        """Take the topic from its owner, so that one is chosen anew."""

    def unload(self) -> None:
        """Close the topic, so that it is read from disks next and not from a cache."""


def _pulsar_versions() -> list[str]:
    from brokerproof.drivers.pulsar.distribution import CHECKSUMS

    return list(CHECKSUMS)


# The systems that have a driver, with the versions that are pinned.
SYSTEMS: Mapping[str, Callable[[], list[str]]] = {"pulsar": _pulsar_versions}


def driver_for(run: Run, *, patience_s: float = 10.0) -> Driver:
    """The driver of the run's system; it waits `patience_s` seconds for a node's answer before it asks the next one."""
    if run.topology.system == "pulsar":
        from brokerproof.drivers.pulsar.driver import PulsarDriver

        return PulsarDriver(run, patience_s=patience_s)
    raise ValueError(f"no driver for {run.topology.system}")
