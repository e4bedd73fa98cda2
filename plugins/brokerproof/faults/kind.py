"""What a kind of fault is: what it does to its targets, how its effect is seen, how it is undone."""

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
    from brokerproof.network import Network
    from brokerproof.runtimes.protocols import NodeSpec, Runtime
    from brokerproof.systems.protocols import Administration, Observation, Provisioning, RoleTraits


log = logging.getLogger(__name__)

Answer = TypeVar("Answer")
# How many targets are asked about at the same time; each takes a thread, which mostly waits.
_ASKED_AT_ONCE = 64


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What a fault acts on, and what the scenario says of it."""

    provisioning: Provisioning
    administration: Administration
    observation: Observation
    runtime: Runtime
    specs: Mapping[str, NodeSpec]
    # What the system's roles do, by their names.
    roles: Mapping[str, RoleTraits]
    # None where the topology has no links.
    link: Network | None
    fault: Fault
    # Nodes that other faults keep down.
    kept_down: frozenset[str] = frozenset()
    # Nodes that have a service manager.
    managed: frozenset[str] = frozenset()
    started_again: list[str] = field(default_factory=list)

    def act_on_each(self, names: Sequence[str], act: Callable[[str], None]) -> None:
        """Do something to all targets at once; a datacenter does not die node by node."""
        with ThreadPoolExecutor(max_workers=max(1, len(names))) as pool:
            list(pool.map(act, names))

    def ask_each(self, names: Sequence[str], ask: Callable[[str], Answer]) -> dict[str, Answer]:
        """The answers about all targets, by name, asked side by side because each may take as long as its time-out.

        Raises what the first question that fails raises, in the order of the names.
        """
        with ThreadPoolExecutor(max_workers=max(1, min(_ASKED_AT_ONCE, len(names)))) as pool:
            return dict(zip(names, pool.map(ask, names), strict=True))

    def start(self, name: str) -> None:
        """Start a node unless it runs. Raises NodeError where it cannot be started."""
        try:
            if not self.runtime.is_alive(name):
                self.runtime.start(self.specs[name])
        except NodeError:
            # Its service manager may have started it in between.
            if name not in self.managed or not self.runtime.is_alive(name):
                raise

    def supervise(self, names: Collection[str]) -> None:
        """Start nodes again that ended by themselves and have no service manager, as one does in production.

        A node may end because it takes its session with the metadata store for lost (seen: 45 s after a cut).
        """
        for name in names:
            if name not in self.kept_down | self.managed and not self.runtime.is_alive(name):
                log.info("%s ended by itself and is started again", name)
                self.started_again.append(name)
                self.runtime.start(self.specs[name])


class FaultKind(ABC):
    """One kind of fault."""

    name: ClassVar[str]
    # What it does to its targets, as in "eu was destroyed"; reports tell it in a sentence.
    done: ClassVar[str]
    # Whether it helps the cluster to recover from an earlier fault, whose recovery it is then a part of.
    helps: ClassVar[bool] = False
    # Whether its nodes do not run any more, and whether it takes what they had stored.
    ends_nodes: ClassVar[bool] = False
    destroys: ClassVar[bool] = False
    # Whether it slows clients down; then the latency while it lasts is measured separately.
    slows: ClassVar[bool] = False
    # Whether its nodes are away, frozen or cut off as long as it lasts, so that no other fault's healing starts them.
    keeps_down: ClassVar[bool] = True
    # Whether its nodes answer no question as long as it lasts.
    silences: ClassVar[bool] = False
    # Whether its nodes go on serving, so that the cluster has no failure to notice.
    leaves_nodes: ClassVar[bool] = False
    # Whether nodes that fall silent by it stay the same nodes to the cluster if it ends soon enough.
    keeps_sessions: ClassVar[bool] = False
    # What the messaging system and the runtime have to be able to do for it; a runtime's ability is a protocol.
    needs: ClassVar[Ability | None] = None
    needs_of_runtime: ClassVar[type | None] = None

    def check(self, fault: Fault, topology: Topology) -> None:
        """Raises InputError, its field inside the fault, where a scenario asks for what this kind cannot do."""
        if fault.link is not None:
            raise InputError(
                f"`{self.name}` is done to nodes, not to the link between them", field="link", remedy="leave it out"
            )

    def list_silenced(self, fault: Fault, targets: Collection[str], topology: Topology) -> list[str]:
        """The nodes that fall silent without a last word, so that the cluster learns of it by a time-out only."""
        return []

    @abstractmethod
    def inject(self, around: Surroundings, targets: Sequence[str]) -> None:
        """Do it. Returns when it was done to every target."""

    @abstractmethod
    def find_evidence(self, around: Surroundings, targets: Sequence[str]) -> str | None:
        """What shows that it has taken effect on every target, None while it does not show."""

    @abstractmethod
    def heal(self, around: Surroundings, targets: Sequence[str]) -> None:
        """Undo it, without waiting for the nodes' health."""

    def find_recovery(self, around: Surroundings, targets: Sequence[str]) -> str | None:
        """What shows that every target is healthy, None while it is not. One that another fault keeps down may be."""
        mine = [around.specs[name] for name in targets if name not in around.kept_down]
        if not all(around.provisioning.is_healthy(spec) for spec in mine):
            return None
        more = {"started_again": around.started_again, "kept_down": sorted(around.kept_down.intersection(targets))}
        return json.dumps(
            {
                "healthy": [around.provisioning.describe_health(spec) for spec in mine],
                **{what: names for what, names in more.items() if names},
            }
        )


FAULT_KINDS: dict[str, FaultKind] = {}


def register(kind: type[FaultKind]) -> type[FaultKind]:
    """Make a kind known under its name."""
    FAULT_KINDS[kind.name] = kind()
    return kind
