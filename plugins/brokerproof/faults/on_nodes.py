"""The kinds of fault that act on nodes, and on clients if `is_for_clients` says so.

A new kind is one class with `@register_fault`, here, in on_clients.py or in on_network.py. Scenarios use it by its
`name`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from brokerproof.clock import wait_until
from brokerproof.errors import AdminError, DeadlineError, InputError, RunError
from brokerproof.experiment.abilities import Ability
from brokerproof.experiment.fault import GROW
from brokerproof.faults.kind import FaultKind, Surroundings, register_fault
from brokerproof.runtimes.protocols import MEANINGS, PausesNodes
from brokerproof.systems.abilities import GrowsTopics, ReassignsTopics, SplitsGroups, require

if TYPE_CHECKING:
    from brokerproof.experiment.fault import Fault
    from brokerproof.experiment.topology import Topology

# An owner that was just started may take this many seconds until it answers.
_OWNER_ANSWERS_S = 30.0


class _NodeEndingKind(FaultKind):
    """The base of the kinds of fault that end nodes and are healed by starting them."""

    ends_nodes = silences = True

    def find_evidence(self, around: Surroundings, targets: Sequence[str]) -> str | None:
        evidence = around.ask_each(targets, lambda name: around.target_runtime.evidence_of_death(around.specs[name]))
        return json.dumps(evidence) if all(evidence.values()) else None

    def heal(self, around: Surroundings, targets: Sequence[str]) -> None:
        """Start the targets that do not run and that no other fault keeps down."""
        around.act_on_each([name for name in targets if name not in around.kept_down], around.start)


@register_fault
class Stop(_NodeEndingKind):
    """Ends nodes or clients gracefully, and by force after 30 s. With `heal_after_s: 0` it is a restart."""

    name, done = "stop", "stopped"
    is_for_clients = True
    grace_s = 30.0

    def inject(self, around: Surroundings, targets: Sequence[str]) -> None:
        around.act_on_each(targets, lambda name: around.target_runtime.stop(name, grace_s=self.grace_s))


@register_fault
class Kill(_NodeEndingKind):
    """Ends nodes or clients at once, without a graceful shutdown. The disks of nodes keep their data."""

    name, done = "kill", "killed"
    is_for_clients = True

    def inject(self, around: Surroundings, targets: Sequence[str]) -> None:
        around.act_on_each(targets, around.target_runtime.kill)


@register_fault
class Destroy(_NodeEndingKind):
    """Ends nodes at once and wipes their disks, as the loss of a datacenter would."""

    name, done = "destroy", "destroyed"
    destroys = True

    def inject(self, around: Surroundings, targets: Sequence[str]) -> None:
        around.act_on_each(targets, around.target_runtime.kill)
        around.act_on_each(targets, lambda name: around.runtime.wipe(around.specs[name]))

    def heal(self, around: Surroundings, targets: Sequence[str]) -> None:
        # Nodes that coordinate the others start first, because a `reset` program may need more than half of them.
        for group in around.provisioning.start_order():
            here = [name for name in targets if name in group]
            # A node that another fault keeps down is reset too, because that fault only starts it.
            around.act_on_each(
                [name for name in here if not around.target_runtime.is_alive(name)],
                lambda name: around.runtime.reset(around.specs[name]),
            )
            super().heal(around, here)


@register_fault
class Start(FaultKind):
    """Starts nodes or clients that an earlier fault ended, or nodes that are on standby."""

    name, done = "start", "started"
    is_for_clients = True
    helps = True
    harms = False

    def inject(self, around: Surroundings, targets: Sequence[str]) -> None:
        around.act_on_each(targets, around.start)

    def find_evidence(self, around: Surroundings, targets: Sequence[str]) -> str | None:
        return self.find_recovery(around, targets)

    def heal(self, around: Surroundings, targets: Sequence[str]) -> None:
        """Do nothing, because a started node needs no healing."""


@register_fault
class Pause(FaultKind):
    """Freezes nodes or clients: they keep their connections and their memory, but do nothing until they are healed."""

    name, done = "pause", "frozen"
    is_for_clients = True
    needs_of_runtime = PausesNodes
    silences = True

    def inject(self, around: Surroundings, targets: Sequence[str]) -> None:
        around.act_on_each(targets, _require_pausing(around).pause)

    def find_evidence(self, around: Surroundings, targets: Sequence[str]) -> str | None:
        frozen = _require_pausing(around)
        if not all(frozen.is_paused(name) for name in targets):
            return None
        return json.dumps(dict.fromkeys(targets, "every thread stopped"))

    def heal(self, around: Surroundings, targets: Sequence[str]) -> None:
        around.act_on_each(targets, _require_pausing(around).resume)

    def find_recovery(self, around: Surroundings, targets: Sequence[str]) -> str | None:
        around.supervise(targets)
        return super().find_recovery(around, targets)


class _OwnerKind(FaultKind):
    """The base of the kinds of fault that are done to the topic at its owner and need no healing."""

    leaves_nodes = True

    def check(self, fault: Fault, topology: Topology) -> None:
        super().check(fault, topology)
        if fault.targets.now != "topic_owner":
            raise InputError(
                f"`{self.name}` is done to the topic's owner",
                field="targets.now",
                remedy="give `targets: {now: topic_owner}`",
            )

    def heal(self, around: Surroundings, targets: Sequence[str]) -> None:
        """Do nothing, because the topic has an owner."""


@register_fault
class Unload(_OwnerKind):
    """Takes the topic from its owner. The cluster then chooses an owner again, which may be the same node.

    Operators do this to move a topic back to its region, because it does not return by itself.
    """

    name, done = "unload", "relieved of the topic"
    needs = Ability.REASSIGNMENT

    def inject(self, around: Surroundings, targets: Sequence[str]) -> None:
        """Take the topic from its owner, which may just be starting and is then asked again.

        Raises AdminError if the messaging system does not confirm within `_OWNER_ANSWERS_S` seconds that the owner
        closed the topic.
        """
        administration = require(around.administration, ReassignsTopics)
        refusals: list[AdminError] = []

        def reassign() -> bool:
            try:
                administration.reassign()
            except AdminError as error:
                refusals.append(error)
                return False
            return True

        try:
            wait_until(reassign, timeout_s=_OWNER_ANSWERS_S, what="the topic to be closed", every_s=0.25)
        except DeadlineError:
            raise refusals[-1] from None

    def find_evidence(self, around: Surroundings, targets: Sequence[str]) -> str | None:
        try:
            owner = around.observation.find_owner()
        except AdminError:
            return None
        return None if owner is None else json.dumps({"owner": owner})


@register_fault
class Split(_OwnerKind):
    """Splits each group of topics that holds a partition of the topic, and takes the parts from their owner.

    The cluster then chooses an owner of each part. Clusters split groups by themselves if the load of one grows.
    """

    name, done = "split", "relieved of the topic, whose group was split"
    needs = Ability.SPLITS

    def inject(self, around: Surroundings, targets: Sequence[str]) -> None:
        """Split the groups. Raises AdminError if the messaging system does not confirm it."""
        administration = require(around.administration, SplitsGroups)
        around.groups_before.extend(administration.find_groups())
        administration.split()

    def find_evidence(self, around: Surroundings, targets: Sequence[str]) -> str | None:
        try:
            groups = require(around.administration, SplitsGroups).find_groups()
        except AdminError:
            return None
        if not groups or set(groups) & set(around.groups_before):
            return None
        return json.dumps({"before": around.groups_before, "after": groups})


@register_fault
class Grow(_OwnerKind):
    """Gives the topic more partitions: as many as `workload.grows_to` says.

    The stored messages stay where they are. A key may belong to another partition from then on. Clients look for new
    partitions now and then, so they learn of them late.
    """

    name, done = GROW, "given more partitions of the topic"
    needs = Ability.GROWTH

    def inject(self, around: Surroundings, targets: Sequence[str]) -> None:
        """Raises AdminError if the messaging system does not take the new number."""
        require(around.administration, GrowsTopics).grow()

    def find_evidence(self, around: Surroundings, targets: Sequence[str]) -> str | None:
        try:
            has_grown = require(around.administration, GrowsTopics).has_grown()
        except AdminError:
            return None
        return json.dumps({"has_grown": has_grown}) if has_grown else None


def _require_pausing(around: Surroundings) -> PausesNodes:
    runtime = around.target_runtime
    if not isinstance(runtime, PausesNodes):
        raise RunError(f"the runtime {type(runtime).__name__} cannot {MEANINGS[PausesNodes]}; use another one")
    return runtime
