"""The addresses of a run's servers, and the numbers of the partitions of the workload's topic."""

from __future__ import annotations

from brokerproof.run.directory import Run
from testlog.client import LogCluster

# Every server has an address of its own.
PORT = 7400
ROLE = "server"


def cluster_of(run: Run, *, answer_timeout_s: float = 2.0) -> LogCluster:
    addresses = run.facts.addresses
    return LogCluster({name: (addresses[name], PORT) for name in run.topology.nodes}, answer_timeout_s=answer_timeout_s)


def cluster_name(run: Run) -> str:
    """Return the name of the run's only cluster."""
    return next(iter(run.topology.clusters))


def partition_numbers(run: Run) -> list[int]:
    """Return the numbers of the topic's partitions in the tables; [-1] for a topic without partitions."""
    count = run.scenario.workload.partitions
    return list(range(count)) if count else [-1]
