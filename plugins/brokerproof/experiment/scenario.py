"""A scenario: one experiment, with its topology, workload, timeline of faults, guarantee and bounds."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from brokerproof.errors import InputError
from brokerproof.experiment.guarantees import Anomaly, Guarantee, SubscriptionType, Suite
from brokerproof.experiment.metrics import METRICS
from brokerproof.experiment.topology import Topology
from brokerproof.experiment.verdict import Verdict
from brokerproof.experiment.yaml_models import FrozenModel, suggest_name

# The version that the messaging system itself prefers.
DEFAULT_VERSION = "default"

_NAME = r"^[a-z][a-z0-9_]*$"


class Client(FrozenModel):
    """Settings of the system's own client that decide how it behaves under failure."""

    send_timeout_s: float = Field(0, ge=0, description="an unanswered message is given up after this long; 0 is never")
    operation_timeout_s: int = Field(30, ge=1, description="lookups, subscribes and producer creation give up after")
    connection_timeout_s: float = Field(10, gt=0)
    max_pending: int = Field(10_000, ge=1, description="unanswered messages of one producer before it stops sending")
    batching_delay_ms: int = Field(5, ge=0, description="longest wait for a batch to fill; 0 turns batching off")
    batching_messages: int = Field(100, ge=1)
    receiver_queue: int = Field(1000, ge=1, description="messages that a consumer fetches ahead")


class Move(FrozenModel):
    """When consumers leave their cluster for another one, as clients do that were told of its failure."""

    to: str = Field(description="cluster that they subscribe on from then on, under the same name")
    after: str = Field(description="name of the fault that they move after")
    after_s: float = Field(5, ge=0, description="seconds from its effect until they move")


class Subscription(FrozenModel):
    """A subscription and its consumers."""

    name: str = Field(pattern=_NAME)
    type: SubscriptionType = SubscriptionType.FAILOVER
    consumers: int = Field(1, ge=1)
    cluster: str | None = Field(None, description="cluster that it is made on; the topology's first by default")
    region: str | None = Field(
        None, description="region that its consumers are in, across links; beside the cluster by default"
    )
    replicated: bool = Field(
        False, description="what is acknowledged is made known to the clusters that messages are replicated to"
    )
    moves: Move | None = None

    @model_validator(mode="after")
    def _exclusive_is_alone(self) -> Self:
        if self.type is SubscriptionType.EXCLUSIVE and self.consumers > 1:
            raise InputError(
                "an exclusive subscription takes one consumer",
                field="consumers",
                remedy="use `failover` or one consumer",
            )
        return self

    def home(self, topology: Topology) -> str:
        """The cluster that it is made on."""
        return self.cluster or next(iter(topology.clusters))

    def places(self, topology: Topology) -> list[str]:
        """The clusters that its consumers are on, in order of time."""
        return [self.home(topology), *([self.moves.to] if self.moves else [])]


class Workload(FrozenModel):
    """Who publishes and who consumes what, and how fast."""

    namespace: str | None = Field(None, description="`tenant/namespace` of the topic, where the system has such")
    topic: str = Field("orders", pattern=r"^[a-z][a-z0-9-]*$")
    partitions: int = Field(0, ge=0, description="0 for a topic without partitions")
    rate: int = Field(1000, ge=1, description="messages per second, of all producers of one cluster together")
    size: int = Field(200, ge=16, le=5_000_000, description="bytes of payload")
    keys: int = Field(100, ge=1, description="different keys; each belongs to one producer")
    producers: int = Field(2, ge=1, description="producers on each of `produce_on`")
    produce_on: list[str] = Field(default_factory=list, description="clusters; the topology's first by default")
    region: str | None = Field(
        None, description="region that the producers are in, across links; beside the cluster by default"
    )
    subscriptions: list[Subscription] = Field(default_factory=lambda: [Subscription(name="audit")])
    client: Client = Client()

    @model_validator(mode="after")
    def _a_key_for_each_producer(self) -> Self:
        if len(set(self.produce_on)) < len(self.produce_on):
            raise InputError("names a cluster twice", field="produce_on", remedy="name each once")
        producers = self.producers * max(1, len(self.produce_on))
        if self.keys < producers:
            raise InputError(
                f"{self.keys} keys cannot be shared out among {producers} producers",
                field="keys",
                remedy=f"give at least {producers}",
            )
        return self

    def homes(self, topology: Topology) -> list[str]:
        """The clusters that are published to."""
        return self.produce_on or list(topology.clusters)[:1]


class Phases(FrozenModel):
    """The timeline's three phases, one after the other, in seconds from the moment the target rate was held."""

    steady_s: float = Field(20, gt=0)
    impact_s: float = Field(60, gt=0)
    recovery_s: float = Field(20, gt=0)

    @property
    def total_s(self) -> float:
        """Seconds from steady to the end."""
        return self.steady_s + self.impact_s + self.recovery_s


class Targets(FrozenModel):
    """Which nodes a fault is done to: by name, by cluster, region and role, or by what they do at that moment."""

    nodes: list[str] = Field(default_factory=list)
    cluster: str | None = None
    region: str | None = None
    role: str | None = None
    now: Literal["topic_owner", "topic_holders", "ledger_bookie"] | None = Field(
        None,
        description="the topic's owner, or the nodes that hold its newest messages, when the fault is injected; "
        "`ledger_bookie` is an old word for `topic_holders`",
    )
    count: int | None = Field(None, ge=1, description="no more than this many of them")

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not (self.nodes or self.cluster or self.region or self.role or self.now):
            raise InputError("choose no node", remedy="give nodes, cluster, region, role or now")
        if self.nodes and (self.cluster or self.region or self.role or self.now):
            raise InputError(
                "name nodes and select them too", remedy="give either `nodes` or cluster, region, role and now"
            )
        return self


class Direction(StrEnum):
    """Which way a fault of the link acts."""

    BOTH = "both"
    FROM_TARGETS = "from_targets"
    TO_TARGETS = "to_targets"


class OnLink(FrozenModel):
    """What a fault of the link concerns of all that its targets and other regions say to each other, and how much."""

    regions: list[str] = Field(default_factory=list, description="the other regions; all of them by default")
    direction: Direction = Direction.BOTH
    delay_ms: float | None = Field(None, gt=0, le=60_000, description="one way, on top of the link's own")
    jitter_ms: float | None = Field(None, ge=0, description="at most so much more or less than the delay")
    bandwidth_mbit: float | None = Field(None, gt=0, description="Mbit/s of all connections together, each way")

    @model_validator(mode="after")
    def _nothing_arrives_before_it_was_sent(self) -> Self:
        if (self.jitter_ms or 0) > (self.delay_ms or 0):
            raise InputError(
                f"a jitter of {self.jitter_ms:g} ms around a delay of {self.delay_ms or 0:g} ms",
                field="jitter_ms",
                remedy="choose a jitter that is no greater than the delay",
            )
        return self


class When(FrozenModel):
    """A condition that a fault waits for before it is injected."""

    rereplicated: str | None = Field(
        None, description="name of an earlier fault; all data that its nodes held is replicated again"
    )
    unhealthy: str | None = Field(
        None, description="name of an earlier fault, none of whose nodes passes its health check, as a monitor sees it"
    )
    for_s: float | None = Field(None, gt=0, description="with `unhealthy`: for so many seconds without a break")
    within_s: float = Field(90, gt=0, description="longest wait; past it the run is `unknown`")

    @model_validator(mode="after")
    def _one_condition(self) -> Self:
        if (self.rereplicated is None) == (self.unhealthy is None):
            raise InputError("is no condition or two", remedy="give either `rereplicated` or `unhealthy`")
        if (self.for_s is None) != (self.unhealthy is None):
            raise InputError("`for_s` and `unhealthy` belong together", field="for_s", remedy="give both or neither")
        return self

    @property
    def earlier(self) -> tuple[str, str]:
        """The field that is given, and the fault that it names."""
        return ("unhealthy", self.unhealthy) if self.unhealthy else ("rereplicated", self.rereplicated or "")


class Fault(FrozenModel):
    """One thing done to nodes or to the link between regions, on the timeline."""

    name: str = Field(pattern=_NAME)
    kind: str
    targets: Targets
    link: OnLink | None = Field(None, description="for faults of the link: what they concern, and how much")
    at_s: float = Field(0, ge=0, description="seconds after the impact phase began")
    when: When | None = Field(None, description="wait for this too")
    heal_at_s: float | None = Field(
        None, description="seconds after the impact phase began; without it when the load ended"
    )
    permanent: bool = Field(False, description="never healed, as a destroyed datacenter")


class Bound(FrozenModel):
    """The values that a measurement may have, both ends included."""

    min: float | None = None
    max: float | None = None

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.min is None and self.max is None:
            raise InputError("bounds nothing", remedy="give `min`, `max` or both")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise InputError("holds no value", remedy="min <= max")
        return self


class Expectation(FrozenModel):
    """What the run must come to for the scenario to be content; a control expects `failed`."""

    verdict: Verdict = Verdict.PASSED
    at_least: dict[Anomaly, int] = Field(
        default_factory=dict, description="fewest anomalies of a kind that must be found"
    )
    failed_suites: list[Suite] = Field(default_factory=list, description="suites that must fail")


class OwnerExpectation(FrozenModel):
    """The region in which the topic's owner has to be at the end of a phase."""

    steady: str | None = None
    recovery: str | None = None


class Scenario(FrozenModel):
    """One experiment. Files in dags/scenarios/ hold one each; the file's name is the scenario's."""

    name: str = Field(pattern=_NAME)
    title: str
    description: str
    tags: list[str] = Field(default_factory=list)
    topology: str
    overrides: dict[str, Any] = Field(default_factory=dict, description="values of the topology, by dotted path")
    settings: dict[str, dict[str, str | int | float | bool]] = Field(
        default_factory=dict, description="the system's own configuration keys, by role, over the topology's"
    )
    runtime: str = "process"
    version: str = Field(DEFAULT_VERSION, description="version of the messaging system")
    guarantee: Guarantee = Guarantee.AT_LEAST_ONCE
    tighten: list[Anomaly] = Field(
        default_factory=list, description="anomalies illegal here though the guarantee allows them"
    )
    loosen: list[Anomaly] = Field(
        default_factory=list, description="anomalies legal here though the guarantee forbids them"
    )
    workload: Workload
    phases: Phases = Phases()
    faults: list[Fault] = Field(default_factory=list)
    destroyed: list[str] = Field(
        default_factory=list,
        description="clusters whose disks a fault destroys: what is missing there or never left there is counted and "
        "legal, and `rpo_messages` has to bound what no cluster holds any more",
    )
    owner: OwnerExpectation = OwnerExpectation()
    bounds: dict[str, Bound] = Field(
        default_factory=dict, description="by metric, or by `metric/subject` for one fault, phase or moment of it"
    )
    expect: Expectation = Expectation()
    settle_s: float = Field(120, gt=0, description="longest wait, after the load ended, for repair, drain and healing")

    @field_validator("bounds")
    @classmethod
    def _known_metrics(cls, bounds: dict[str, Bound]) -> dict[str, Bound]:
        for key in bounds:
            metric = key.split("/")[0]
            if metric not in METRICS:
                raise InputError(f"no metric is called `{metric}`", field=key, remedy=suggest_name(metric, METRICS))
        return bounds

    @model_validator(mode="after")
    def _timeline(self) -> Self:
        earlier: list[str] = []
        for index, fault in enumerate(self.faults):
            at = f"faults.{index}"
            if fault.name in earlier:
                raise InputError(f"two faults are called `{fault.name}`", field=f"{at}.name", remedy="rename one")
            if fault.at_s >= self.phases.impact_s:
                raise InputError(
                    f"overlaps the recovery phase: {fault.at_s:g} s into an impact phase of {self.phases.impact_s:g} s",
                    field=f"{at}.at_s",
                    remedy="inject earlier or lengthen phases.impact_s",
                )
            if fault.permanent and fault.heal_at_s is not None:
                raise InputError("is permanent and heals", field=f"{at}.heal_at_s", remedy="drop one of the two")
            if fault.heal_at_s is not None and not fault.at_s < fault.heal_at_s <= self.phases.impact_s:
                raise InputError(
                    f"heals at {fault.heal_at_s:g} s, not between its injection and the end of the impact phase",
                    field=f"{at}.heal_at_s",
                    remedy=f"choose a value over {fault.at_s:g} and up to {self.phases.impact_s:g}",
                )
            if fault.when and fault.when.earlier[1] not in earlier:
                field, name = fault.when.earlier
                raise InputError(
                    f"no earlier fault is called `{name}`",
                    field=f"{at}.when.{field}",
                    remedy=suggest_name(name, earlier),
                )
            earlier.append(fault.name)
        return self

    @model_validator(mode="after")
    def _destroyed_within_bounds(self) -> Self:
        if self.destroyed and not any(fault.kind == "destroy" for fault in self.faults):
            raise InputError("no fault destroys anything", field="destroyed", remedy="leave it out or add a `destroy`")
        if self.destroyed and not any(key.split("/")[0] == "rpo_messages" for key in self.bounds):
            raise InputError(
                "nothing bounds what the destroyed clusters may lose",
                field="bounds",
                remedy="add `rpo_messages: {max: …}`",
            )
        return self

    def bound(self, metric: str, subject: str) -> Bound | None:
        """The bound on a measurement: the one for its subject, or else the metric's."""
        return self.bounds.get(f"{metric}/{subject}") or self.bounds.get(metric)
