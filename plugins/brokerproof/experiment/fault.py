"""A fault on the timeline of a scenario: its kind, its targets and its times."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, Self

from pydantic import Field, model_validator

from brokerproof.errors import InputError
from brokerproof.experiment.workload import ClientRole
from brokerproof.experiment.yaml_models import IDENTIFIER, FrozenModel


class ClientMoment(StrEnum):
    """What a client does at a moment for which a fault may wait."""

    HOLDS_UNACKNOWLEDGED = "holds_unacknowledged"
    IN_BATCH = "in_batch"


_MOMENTS = frozenset(ClientMoment)
# The kind of fault that makes a client's Spark task fail. Only a run with such a fault lets Spark repeat tasks.
TASK_RETRY = "task_retry"
# The kind of fault that gives the topic more partitions. Only then, `workload.grows_to` applies.
GROW = "grow"
# The kind of fault in which producers have nothing to send. Only in a run with such a fault, a found rate may change.
QUIET = "quiet"


class Targets(FrozenModel):
    """Selects the targets of a fault: nodes or clients, by name, by where they are, or by what they do at injection."""

    nodes: list[str] = Field(default_factory=list)
    client: ClientRole | None = Field(None, description="clients of this role instead of nodes")
    names: list[str] = Field(
        default_factory=list, description="with `client`: their names, such as `audit-c0`; by default all"
    )
    subscription: str | None = Field(None, description="with `client: consumer`: only consumers of this subscription")
    cluster: str | None = None
    region: str | None = None
    role: str | None = None
    now: (
        Literal["topic_owner", "topic_holders", "coordination_leader", "coordination_followers"] | ClientMoment | None
    ) = Field(
        None,
        description="the owner of the topic or of its first partition, the nodes that hold its newest messages, or, of "
        "several nodes that coordinate the cluster, the one that leads or those that follow it, when the fault is "
        "injected; with `client`, the fault waits until each client has sent or received messages that are not "
        "acknowledged, or has handled only a part of the messages that it sent or received together",
    )
    count: int | None = Field(None, ge=1, description="the largest number of nodes or clients")

    @property
    def asks_who_leads(self) -> bool:
        """Whether the targets depend on which node leads the coordination of the cluster when the fault is injected."""
        return self.now in ("coordination_leader", "coordination_followers")

    @property
    def moment(self) -> ClientMoment | None:
        """What each client has to do when the fault is injected; None if it may do anything."""
        return ClientMoment(self.now) if self.now in _MOMENTS else None

    @model_validator(mode="after")
    def _check_selection(self) -> Self:
        if self.client is None:
            if self.names or self.subscription or self.moment:
                field = "names" if self.names else "subscription" if self.subscription else "now"
                raise InputError(
                    "is about clients", field=field, remedy="give `client: producer` or `client: consumer`"
                )
            if not (self.nodes or self.cluster or self.region or self.role or self.now):
                raise InputError("select no node", remedy="give nodes, client, cluster, region, role or now")
            if self.nodes and (self.cluster or self.region or self.role or self.now):
                raise InputError(
                    "both name nodes and select them", remedy="give either `nodes` or cluster, region, role and now"
                )
            return self
        for field in ("nodes", "region", "role"):
            if getattr(self, field):
                raise InputError("is about nodes, and the targets are clients", field=field, remedy="leave it out")
        if self.now is not None and self.moment is None:
            known = " or ".join(f"`{moment}`" for moment in ClientMoment)
            raise InputError("is about nodes, and the targets are clients", field="now", remedy=f"give {known}")
        if self.subscription and self.client is ClientRole.PRODUCER:
            raise InputError("a producer has no subscription", field="subscription", remedy="give `client: consumer`")
        return self


class Direction(StrEnum):
    """The directions of traffic that a fault of the link between regions can change."""

    BOTH = "both"
    FROM_TARGETS = "from_targets"
    TO_TARGETS = "to_targets"


class LinkChange(FrozenModel):
    """What a fault of the link does: which traffic between the targets and other regions changes, and by how much."""

    regions: list[str] = Field(default_factory=list, description="the other regions; all of them by default")
    direction: Direction = Direction.BOTH
    delay_ms: float | None = Field(None, gt=0, le=60_000, description="one way, in addition to the link's own")
    jitter_ms: float | None = Field(None, ge=0, description="the delay varies by at most this value")
    bandwidth_mbit: float | None = Field(
        None,
        gt=0,
        description="Mbit/s of all changed connections between two regions together, in each direction; "
        "the link's own limit still applies",
    )

    @model_validator(mode="after")
    def _check_jitter(self) -> Self:
        if (self.jitter_ms or 0) > (self.delay_ms or 0):
            raise InputError(
                f"a jitter of {self.jitter_ms:g} ms around a delay of {self.delay_ms or 0:g} ms",
                field="jitter_ms",
                remedy="choose a jitter that is no greater than the delay",
            )
        return self


class When(FrozenModel):
    """A condition that a fault waits for before it is injected, or before it is healed."""

    rereplicated: str | None = Field(
        None, description="name of an earlier fault; all data that its nodes held is replicated again"
    )
    unhealthy: str | None = Field(
        None, description="name of an earlier fault; none of its nodes passes its health check"
    )
    healthy: str | None = Field(
        None, description="name of an earlier fault that is healed under load; all its nodes pass their health checks"
    )
    for_s: float | None = Field(None, gt=0, description="with `healthy` and `unhealthy`: seconds without interruption")
    within_s: float = Field(
        90, gt=0, description="longest wait, during which the load goes on; after it, the run is `unknown`"
    )

    @model_validator(mode="after")
    def _check_condition(self) -> Self:
        if len(self._conditions) != 1:
            problem = "has more than one condition" if self._conditions else "has no condition"
            raise InputError(problem, remedy="give one of `rereplicated`, `unhealthy` and `healthy`")
        if (self.for_s is None) != (self.rereplicated is not None):
            raise InputError(
                "belongs to `healthy` and `unhealthy`, and only to them",
                field="for_s",
                remedy="leave it out" if self.rereplicated else "add it, as in `for_s: 20`",
            )
        return self

    @property
    def _conditions(self) -> dict[str, str]:
        names = {"rereplicated": self.rereplicated, "unhealthy": self.unhealthy, "healthy": self.healthy}
        return {field: name for field, name in names.items() if name is not None}

    @property
    def earlier_fault(self) -> tuple[str, str]:
        """The condition's field, such as `healthy`, and its value, the name of the earlier fault."""
        return next(iter(self._conditions.items()))


# Within this many seconds, a fault that is due finds its targets, takes effect, and recovers after it is healed.
_COURSE_S = 240.0


class Fault(FrozenModel):
    """One fault on the timeline, done to nodes, to clients, or to the link between regions."""

    name: str = Field(pattern=IDENTIFIER)
    kind: str
    targets: Targets
    link: LinkChange | None = Field(None, description="for faults of the link: which traffic they change, and how much")
    at_s: float = Field(0, ge=0, description="seconds after the impact phase began")
    when: When | None = Field(None, description="a condition that it also waits for")
    heal_at_s: float | None = Field(
        None, description="seconds after the impact phase began; by default it is healed when the load has ended"
    )
    heal_after_s: float | None = Field(
        None, ge=0, description="instead of `heal_at_s`: seconds after it took effect; 0 makes `stop` a restart"
    )
    heal_when: When | None = Field(
        None, description="instead of `heal_at_s`: a condition on an earlier fault, after which it is healed"
    )
    permanent: bool = Field(False, description="it is never healed, as with a datacenter that is destroyed")

    @property
    def earliest_heal_s(self) -> float | None:
        """The earliest time of its healing, in seconds after the impact phase began; None if the load has ended then.

        A fault with `heal_after_s` or `heal_when` may be healed later, because it waits for a condition or its effect.
        """
        if self.heal_when is not None:
            return self.at_s
        return self.heal_at_s if self.heal_after_s is None else self.at_s + self.heal_after_s

    @property
    def conditions(self) -> dict[str, When]:
        """The conditions that it waits for, by field."""
        both = {"when": self.when, "heal_when": self.heal_when}
        return {field: condition for field, condition in both.items() if condition is not None}

    @property
    def lengthens_s(self) -> float:
        """By how many seconds the load may go on for it at most, because it waits for conditions."""
        waits_s = sum(condition.within_s + _COURSE_S for condition in self.conditions.values())
        return waits_s + (self.heal_after_s or 0) if waits_s else 0.0
