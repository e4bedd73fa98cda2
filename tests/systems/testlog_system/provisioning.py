"""Starts the servers: Python processes whose configuration files hold the addresses of all servers."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import testlog
from brokerproof.errors import AdminError
from brokerproof.run.directory import Run
from brokerproof.runtimes.protocols import NodeSpec, Program
from testlog.client import LogAdmin

from testlog_system.administration import admin_errors
from testlog_system.cluster import PORT, cluster_of
from testlog_system.policies import parse_policies

_SERVER = Path(testlog.__file__).with_name("server.py")


class TestlogProvisioning:
    def __init__(self, run: Run) -> None:
        self._run = run
        self._admin = LogAdmin(cluster_of(run, answer_timeout_s=1.0))

    def specs(self) -> Mapping[str, NodeSpec]:
        addresses = self._run.facts.addresses
        peers = {name: f"{addresses[name]}:{PORT}" for name in self._run.topology.nodes}
        return {
            name: NodeSpec(
                name=name,
                role=node.role,
                region=node.region,
                address=addresses[name],
                command=(sys.executable, str(_SERVER), "{node}/configuration.json"),
                files={
                    "configuration.json": json.dumps(
                        {
                            "name": name,
                            "address": addresses[name],
                            "port": PORT,
                            "data": "{node}/data",
                            "peers": peers,
                            **parse_policies(cluster).model_dump(mode="json"),
                        }
                    )
                },
                ports=(PORT,),
                health_source=f"`status` asked of {addresses[name]}:{PORT}",
                start_timeout_s=30,
            )
            for cluster in self._run.topology.clusters.values()
            for name, node in cluster.nodes.items()
        }

    def start_order(self) -> list[list[str]]:
        """Return one group, because only a majority of the servers can elect a leader."""
        return [list(self._run.topology.nodes)]

    def initialize(self, execute: Callable[[Program], None]) -> None:
        """There is nothing to prepare: the servers elect a leader by themselves."""

    def is_healthy(self, spec: NodeSpec) -> bool:
        """Return whether the server answers and knows the leader."""
        try:
            with admin_errors("tell its health"):
                return self._admin.status(spec.name).leader in self._run.topology.nodes
        except AdminError:
            return False

    def is_ready(self, spec: NodeSpec) -> bool:
        clusters = self._run.topology.clusters.values()
        never = any(parse_policies(each).never_ready for each in clusters if spec.name in each.nodes)
        return not never and self.is_healthy(spec)
