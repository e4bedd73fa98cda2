"""Requests to each node of a metadata store, over ZooKeeper's AdminServer.

A running node that knows no leader answers every command with an error, although other nodes may serve.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from pydantic import TypeAdapter

from brokerproof.errors import AdminError
from brokerproof.systems.protocols import Coordinators
from brokerproof.systems.pulsar import answers
from brokerproof.systems.pulsar.admin import Admin

_Answer = TypeVar("_Answer")


class MetadataAdmin:
    """The AdminServers of a metadata store's nodes."""

    def __init__(self, urls: Mapping[str, str], *, timeout_s: float) -> None:
        """`urls` is {node: URL of its AdminServer}."""
        self._nodes = {name: Admin([url], timeout_s=timeout_s) for name, url in urls.items()}

    def get(self, path: str, expected: TypeAdapter[_Answer]) -> _Answer:
        """Return the answer of the first node that serves. Raises AdminError if no node serves."""
        problems: list[str] = []
        for admin in self._nodes.values():
            try:
                return admin.get(path, expected)
            except AdminError as error:
                problems.append(str(error))
        raise AdminError(f"no node of the metadata store serves: {'; '.join(problems)}")

    def find_coordinators(self) -> Coordinators:
        """Return the leader of the metadata store and the leader's followers.

        Raises AdminError unless exactly one node answers that it leads.
        """
        leads: dict[str, bool] = {}
        problems: list[str] = []
        for name, admin in self._nodes.items():
            try:
                leads[name] = admin.get("/commands/leader", answers.LEADERSHIP).is_leader
            except AdminError as error:
                problems.append(str(error))
        leaders = [name for name, leading in leads.items() if leading]
        if len(leaders) > 1:
            # All but one of them have not noticed yet that they lost their followers.
            raise AdminError(f"several nodes of the metadata store answer that they lead: {', '.join(leaders)}")
        if not leaders:
            raise AdminError("; ".join(["no node of the metadata store says that it leads", *problems]))
        return Coordinators(leader=leaders[0], followers=[name for name, leading in leads.items() if not leading])
