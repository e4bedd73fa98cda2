"""The messaging systems that there are, and what makes their parts for a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from brokerproof.run.directory import Run
from brokerproof.systems.clients import Clients
from brokerproof.systems.protocols import Driver


def _pulsar_versions() -> list[str]:
    from brokerproof.systems.pulsar.distribution import CHECKSUMS

    return list(CHECKSUMS)


# The systems that have a driver, with the versions that are pinned.
SYSTEMS: Mapping[str, Callable[[], list[str]]] = {"pulsar": _pulsar_versions}


@dataclass(frozen=True, kw_only=True)
class WarmUp:
    """What has to be done once for a system's version, before the first run: see warm_up.py.

    `fetch` brings the version here; `done` says whether a run of `topology` would teach nothing more.
    """

    fetch: Callable[[], object]
    done: Callable[[], bool]
    topology: Mapping[str, Any]
    namespace: str


def warm_up_for(system: str, version: str) -> WarmUp:
    """The warm-up of a system's version. Raises InputError for a version that is not pinned."""
    if system == "pulsar":
        from brokerproof.systems.pulsar import warm_up
        from brokerproof.systems.pulsar.distribution import distribution

        return WarmUp(
            fetch=lambda: distribution(version),
            done=lambda: warm_up.is_warm(version),
            topology=warm_up.TOPOLOGY,
            namespace=warm_up.NAMESPACE,
        )
    raise ValueError(f"no driver for {system}")


def driver_for(run: Run, *, patience_s: float = 10.0) -> Driver:
    """The driver of the run's system; it waits `patience_s` seconds for a node's answer before it asks the next one."""
    if run.topology.system == "pulsar":
        from brokerproof.systems.pulsar.driver import PulsarDriver

        return PulsarDriver(run, patience_s=patience_s)
    raise ValueError(f"no driver for {run.topology.system}")


def clients_for(run: Run, cluster: str, region: str | None = None) -> Clients:
    """Connections to a cluster of the run, from a region or, without one, from beside the cluster."""
    if run.topology.system == "pulsar":
        from brokerproof.systems.pulsar.client import PulsarClients

        return PulsarClients(run, cluster, region)
    raise ValueError(f"no client for {run.topology.system}")
