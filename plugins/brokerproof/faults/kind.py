"""The base class of the kinds of fault. A kind injects and heals faults, and finds evidence of effect and recovery."""

from __future__ import annotations

import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, TypeVar

from brokerproof.errors import InputError, NodeError
from brokerproof.experiment.abilities import Ability

if TYPE_CHECKING:
    from brokerproof.experiment.fault import Fault
    from brokerproof.experiment.topology import Topology
    from brokerproof.faults.client_runtime import ClientRuntime
    from brokerproof.network import LinkClient
    from brokerproof.runtimes.protocols import NodeSpec, RunsTargets, Runtime
    from brokerproof.systems.protocols import Administration, Observation, Provisioning, RoleTraits


log = logging.getLogger(__name__)

Answer = TypeVar("Answer")
# The largest number of targets that are asked at the same time. Each needs a thread, which mostly waits.
_ASKED_AT_ONCE = 64


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """One fault of a scenario, and everything that its kind needs to act on the targets."""

    provisioning: Provisioning
    administration: Administration
    observation: Observation
    runtime: Runtime
    # {target: its specification}, for all nodes, or for the clients that are the targets.
    specs: Mapping[str, NodeSpec]
    # {role of the system: its traits}
    roles: Mapping[str, RoleTraits]
    # The network between the regions; None if the topology has no links.
    link: LinkClient | None
    fault: Fault
    # Acts on the targets if they are clients; None if they are nodes.
    clients: ClientRuntime | None = None
    # Nodes that other faults keep down.
    kept_down: frozenset[str] = frozenset()
    # Nodes with a service manager, which restarts them if they end by themselves.
    managed: frozenset[str] = frozenset()
    started_again: list[str] = field(default_factory=list)
    # The groups of topics that held the topic before a fault changed them.
    groups_before: list[str] = field(default_factory=list)

    @property
    def target_runtime(self) -> RunsTargets:
        """What ends and starts the targets."""
        return self.clients or self.runtime

    def is_healthy(self, spec: NodeSpec) -> bool:
        return (self.clients or self.provisioning).is_healthy(spec)

    def act_on_each(self, names: Sequence[str], act: Callable[[str], None]) -> None:
        """Call `act` for all targets at the same time, because a datacenter does not die node by node."""
        with ThreadPoolExecutor(max_workers=max(1, len(names))) as pool:
            list(pool.map(act, names))

    def ask_each(self, names: Sequence[str], ask: Callable[[str], Answer]) -> dict[str, Answer]:
        """Return {target: answer of `ask`}. Targets are asked in parallel, because one answer may take a whole timeout.

        If `ask` raises for several targets, the exception of the first one in the order of `names` is raised.
        """
        with ThreadPoolExecutor(max_workers=max(1, min(_ASKED_AT_ONCE, len(names)))) as pool:
            return dict(zip(names, pool.map(ask, names), strict=True))

    def start(self, name: str) -> None:
        """Start a node unless it runs. Raises NodeError if it cannot be started."""
        try:
            if not self.target_runtime.is_alive(name):
                self.target_runtime.start(self.specs[name])
        except NodeError:
            # The node's service manager may have started it in between.
            if name not in self.managed or not self.target_runtime.is_alive(name):
                raise

    def supervise(self, names: Collection[str]) -> None:
        """Restart each of the named nodes that ended by itself, as an operator would do.

        Nodes with a service manager and nodes that other faults keep down are left alone. A node may end by itself when
        it considers its session with its cluster lost, for example 45 s after its network was cut.
        """
        if self.fault.targets.client is not None:
            # A client that ends by itself is an error of the instrument.
            return
        for name in names:
            if name not in self.kept_down | self.managed and not self.target_runtime.is_alive(name):
                log.info("%s ended by itself and is started again", name)
                self.started_again.append(name)
                self.target_runtime.start(self.specs[name])


class FaultKind(ABC):
    name: ClassVar[str]
    # The words for its targets in reports, as in "eu was destroyed".
    done: ClassVar[str]
    # Whether it helps the cluster to recover from an earlier fault. It is then a part of that fault's recovery.
    helps: ClassVar[bool] = False
    # Whether it does any harm that is measured. One that does not is a part of the experiment's course.
    harms: ClassVar[bool] = True
    # Whether its nodes do not run until it is healed.
    ends_nodes: ClassVar[bool] = False
    # Whether it wipes the data of its nodes.
    destroys: ClassVar[bool] = False
    # Whether it slows clients down. If so, the latency during the fault is measured separately.
    slows: ClassVar[bool] = False
    # Whether its nodes answer no request until it is healed.
    silences: ClassVar[bool] = False
    # Whether its nodes go on serving, so that the cluster has no failure to detect. The nodes of other kinds count as
    # down until they are healed: other faults neither start them nor wait for their health.
    leaves_nodes: ClassVar[bool] = False
    # Whether its targets may be nodes, and whether they may be clients.
    is_for_nodes: ClassVar[bool] = True
    is_for_clients: ClassVar[bool] = False
    # The ability that the messaging system must have for this kind.
    needs: ClassVar[Ability | None] = None
    # The protocol that the runtime must implement for this kind.
    needs_of_runtime: ClassVar[type | None] = None

    def check(self, fault: Fault, topology: Topology) -> None:
        """Raises InputError, which names the field, if this kind does not support the fault's settings."""
        if fault.link is not None:
            raise InputError(
                f"`{self.name}` is done to nodes, not to the link between them", field="link", remedy="leave it out"
            )
        if fault.targets.client is None and not self.is_for_nodes:
            raise InputError(
                f"`{self.name}` is done to clients",
                field="targets.client",
                remedy="give `client: producer` or `client: consumer`",
            )
        if fault.targets.client is not None and not self.is_for_clients:
            known = ", ".join(f"`{name}`" for name, kind in FAULT_KINDS.items() if kind.is_for_clients)
            raise InputError(f"`{self.name}` is not done to clients", field="kind", remedy=f"use one of {known}")

    @abstractmethod
    def inject(self, around: Surroundings, targets: Sequence[str]) -> None:
        """Inject the fault. Returns once it was injected into every target."""

    @abstractmethod
    def find_evidence(self, around: Surroundings, targets: Sequence[str]) -> str | None:
        """Return evidence that the fault has taken effect on every target; None until there is some."""

    @abstractmethod
    def heal(self, around: Surroundings, targets: Sequence[str]) -> None:
        """Begin to undo the fault. Does not wait until the nodes are healthy."""

    def find_recovery(self, around: Surroundings, targets: Sequence[str]) -> str | None:
        """Return evidence that the targets are healthy; None until they are.

        Targets that other faults keep down need not be healthy.
        """
        specs = [around.specs[name] for name in targets if name not in around.kept_down]
        if not all(around.is_healthy(spec) for spec in specs):
            return None
        more = {"started_again": around.started_again, "kept_down": sorted(around.kept_down.intersection(targets))}
        return json.dumps(
            {
                "healthy": [spec.health_source for spec in specs],
                **{what: names for what, names in more.items() if names},
            }
        )


FAULT_KINDS: dict[str, FaultKind] = {}


def register_fault(kind: type[FaultKind]) -> type[FaultKind]:
    """Register a kind of fault in `FAULT_KINDS` under its name; used as a class decorator."""
    FAULT_KINDS[kind.name] = kind()
    return kind
