"""The log server as a system that has to be fetched, and whose nodes leave a file with what they learned."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from brokerproof.errors import MachineError
from brokerproof.machine.java import locate_cache
from brokerproof.systems.registry import make_observation
from testlog_system.provisioning import TestlogProvisioning
from testlog_system.system import Testlog


def locate_learned() -> Path:
    """The nodes that ran, and where the log ended."""
    return locate_cache() / "learned.json"


class LearningProvisioning(TestlogProvisioning):
    """Its nodes leave what they learned."""

    def learn(self, pids: Mapping[str, int]) -> None:
        """Keep the nodes' names and the end of the log, which only nodes that still serve can name."""
        (log,) = make_observation(self._run).find_logs()
        assert log.end is not None
        locate_learned().parent.mkdir(parents=True, exist_ok=True)
        locate_learned().write_text(json.dumps({"nodes": sorted(pids), "end": log.end.offset}))


class Learning(Testlog):
    """No network leads to its distribution."""

    provisioning = LearningProvisioning

    def fetch(self, version: str, say: Callable[[str], None]) -> None:
        """It says so, and fails."""
        say(f"fetching testlog {version}")
        raise MachineError("the distribution cannot be fetched: no network")


LEARNING = Learning()
