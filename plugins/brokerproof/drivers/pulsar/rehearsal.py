"""The smallest cluster from which Java learns the classes of every role, so that nodes start faster from then on."""

from __future__ import annotations

from typing import Any

from brokerproof.documents import parse
from brokerproof.drivers.pulsar import class_data
from brokerproof.drivers.pulsar.distribution import is_cached
from brokerproof.java import java_home
from brokerproof.topology import Role, Topology

TOPOLOGY: dict[str, Any] = {
    "title": "Rehearsal",
    "description": "One node of each role.",
    "settings": {
        # The broker's own topics have no namespace of ours that says so.
        Role.BROKER: {f"managedLedgerDefault{name}": 1 for name in ("EnsembleSize", "WriteQuorum", "AckQuorum")},
    },
    "clusters": {
        "rehearsal": {
            "nodes": {f"{role}-here": {"role": str(role), "region": "here"} for role in Role},
            "namespaces": {
                "rehearsal/here": {
                    "persistence": {"ensemble": 1, "write_quorum": 1, "ack_quorum": 1},
                    "isolation": {"primary": "here"},
                }
            },
        }
    },
}
NAMESPACE = "rehearsal/here"


def is_rehearsed(version: str) -> bool:
    """Whether the version is in the cache, and class data of every role with the heap that it has by default."""
    java = java_home() / "bin" / "java"
    topology = parse(Topology, TOPOLOGY, file="the rehearsal's topology")
    return is_cached(version) and all(
        class_data.archive(role, java=java, version=version, heap_mb=topology.heap_mb[role]).exists() for role in Role
    )
