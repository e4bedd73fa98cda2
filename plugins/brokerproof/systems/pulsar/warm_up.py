"""The smallest cluster from which Java learns the classes of every role, so that later nodes start faster."""

from __future__ import annotations

from typing import Any

from brokerproof.machine.java import find_java_home
from brokerproof.systems.pulsar import class_data_archive
from brokerproof.systems.pulsar.distribution import is_cached
from brokerproof.systems.pulsar.roles import TRAITS, Role

TOPOLOGY: dict[str, Any] = {
    "title": "Rehearsal",
    "description": "One node of each role.",
    "settings": {
        # The broker's own topics are outside the namespace below, so its policies do not apply to them.
        Role.BROKER: {f"managedLedgerDefault{name}": 1 for name in ("EnsembleSize", "WriteQuorum", "AckQuorum")},
    },
    "clusters": {
        "warm-up": {
            "nodes": {f"{role}-here": {"role": str(role), "region": "here"} for role in Role},
            "namespaces": {
                "warm-up/here": {
                    "persistence": {"ensemble": 1, "write_quorum": 1, "ack_quorum": 1},
                    "isolation": {"primary": "here"},
                }
            },
        }
    },
}
NAMESPACE = "warm-up/here"


def is_warm(version: str) -> bool:
    """Return whether the cache holds the version and, for each role with its default heap, a class data archive."""
    java = find_java_home() / "bin" / "java"
    return is_cached(version) and all(
        class_data_archive.archive(role, java=java, version=version, heap_mb=traits.heap_mb or 0).exists()
        for role, traits in TRAITS.items()
    )
