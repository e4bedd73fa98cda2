"""The kinds of fault that act only on clients. Those in on_nodes.py act on clients too if `is_for_clients` says so."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from brokerproof.errors import InputError, RunError
from brokerproof.experiment.fault import QUIET, TASK_RETRY
from brokerproof.experiment.workload import ClientRole
from brokerproof.faults.kind import FaultKind, Surroundings, register_fault

if TYPE_CHECKING:
    from brokerproof.experiment.fault import Fault
    from brokerproof.experiment.topology import Topology
    from brokerproof.faults.client_runtime import ClientRuntime


@register_fault
class Fence(FaultKind):
    """Starts a second producer of the same name while the first one runs. The cluster refuses one of them.

    If it refuses the second one, the first one goes on. Else the second one goes on behind the first one's messages.
    """

    name, done = "fence", "challenged by a second producer of its name"
    is_for_nodes, is_for_clients = False, True
    leaves_nodes = True

    def check(self, fault: Fault, topology: Topology) -> None:
        super().check(fault, topology)
        _require_producers(fault)

    def inject(self, around: Surroundings, targets: Sequence[str]) -> None:
        around.act_on_each(targets, _require_clients(around).fence)

    def find_evidence(self, around: Surroundings, targets: Sequence[str]) -> str | None:
        evidence = {name: _require_clients(around).evidence_of_fencing(name) for name in targets}
        return json.dumps(evidence) if all(evidence.values()) else None

    def heal(self, around: Surroundings, targets: Sequence[str]) -> None:
        """Do nothing, because one of the two producers is left."""


@register_fault
class TaskRetry(FaultKind):
    """Kills a client and makes its Spark task fail once. Spark then repeats the tasks of all clients of its role."""

    name, done = TASK_RETRY, "repeated with its Spark task"
    is_for_nodes, is_for_clients = False, True
    leaves_nodes = True

    def check(self, fault: Fault, topology: Topology) -> None:
        super().check(fault, topology)
        targets = fault.targets
        if len(targets.names) != 1 and targets.count != 1:
            raise InputError(
                "`task_retry` is done to one client, and Spark repeats all clients of its role",
                field="targets",
                remedy="give one name in `names`, or `count: 1`",
            )

    def inject(self, around: Surroundings, targets: Sequence[str]) -> None:
        around.act_on_each(targets, _require_clients(around).fail_task)

    def find_evidence(self, around: Surroundings, targets: Sequence[str]) -> str | None:
        evidence = {name: _require_clients(around).evidence_of_repetition(name) for name in targets}
        return json.dumps(evidence) if all(evidence.values()) else None

    def heal(self, around: Surroundings, targets: Sequence[str]) -> None:
        """Do nothing, because Spark has repeated the task."""


@register_fault
class Quiet(FaultKind):
    """Leaves producers without messages to send until it is healed. They stay connected, and nothing is broken."""

    name, done = QUIET, "without messages to send"
    is_for_nodes, is_for_clients = False, True
    harms = False
    leaves_nodes = True

    def check(self, fault: Fault, topology: Topology) -> None:
        super().check(fault, topology)
        _require_producers(fault)

    def inject(self, around: Surroundings, targets: Sequence[str]) -> None:
        _require_clients(around).set_rate(targets, is_quiet=True)

    def find_evidence(self, around: Surroundings, targets: Sequence[str]) -> str | None:
        return _require_clients(around).evidence_of_rate(targets, is_quiet=True)

    def heal(self, around: Surroundings, targets: Sequence[str]) -> None:
        _require_clients(around).set_rate(targets, is_quiet=False)

    def find_recovery(self, around: Surroundings, targets: Sequence[str]) -> str | None:
        return _require_clients(around).evidence_of_rate(targets, is_quiet=False)


def _require_producers(fault: Fault) -> None:
    if fault.targets.client is not ClientRole.PRODUCER:
        raise InputError(
            f"`{fault.kind}` is done to producers", field="targets.client", remedy="give `targets: {client: producer}`"
        )


def _require_clients(around: Surroundings) -> ClientRuntime:
    if around.clients is None:
        raise RunError(f"{around.fault.name} is done to clients, and its targets are nodes")
    return around.clients
