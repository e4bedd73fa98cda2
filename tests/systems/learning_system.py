"""The log server as a system whose nodes start faster after a warm-up, or would: a directory is what it learns in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from brokerproof.errors import MachineError
from brokerproof.machine.java import locate_cache
from brokerproof.systems.protocols import WarmUp
from brokerproof.systems.registry import make_observation
from testlog_system.provisioning import TestlogProvisioning
from testlog_system.system import Testlog


def distribution() -> Path:
    """What has to be there to be fetched."""
    return locate_cache() / "distribution"


def learned() -> Path:
    """The nodes that ran, and where the log ended."""
    return locate_cache() / "learned.json"


class LearningProvisioning(TestlogProvisioning):
    """Its nodes leave what they learned."""

    def learn(self, pids: Mapping[str, int]) -> None:
        """Keep the nodes' names and the end of the log."""
        (log,) = make_observation(self._run).find_logs()
        assert log.end is not None
        learned().write_text(json.dumps({"nodes": sorted(pids), "end": log.end.offset}))


class Learning(Testlog):
    """One of its nodes is enough to learn from."""

    provisioning = LearningProvisioning

    def warm_up(self, version: str) -> WarmUp:
        """One server and one topic."""
        return WarmUp(
            fetch=_fetch,
            done=lambda: learned().exists(),
            topology={
                "title": "One server",
                "description": "The smallest cluster.",
                "system": self.name,
                "clusters": {"log": {"nodes": {"server-1": {"role": "server", "region": "here"}}}},
            },
            workload={},
        )


def _fetch() -> None:
    if not distribution().exists():
        raise MachineError("the distribution cannot be fetched: no network")


LEARNING = Learning()
