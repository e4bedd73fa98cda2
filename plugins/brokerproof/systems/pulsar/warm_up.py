"""The smallest cluster from which Java learns the classes of every role, so that later nodes start faster."""

from __future__ import annotations

from typing import Any

from brokerproof.systems.jvm.software import LocalSoftware
from brokerproof.systems.pulsar.roles import TRAITS, Role
from brokerproof.systems.pulsar.software import find_distribution

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
    distribution = find_distribution(version)
    return distribution.home.is_dir() and all(
        LocalSoftware(distribution).find_archive(role, traits.heap_mb or 0).exists() for role, traits in TRAITS.items()
    )
