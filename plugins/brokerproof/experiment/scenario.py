"""A scenario: one experiment with its topology, workload, phases, faults, guarantee and bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, product
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, field_validator, model_validator

from brokerproof.errors import InputError, Mistakes
from brokerproof.experiment.draw import Draw
from brokerproof.experiment.fault import Fault
from brokerproof.experiment.guarantees import MISSING, Anomaly, Guarantee, is_illegal
from brokerproof.experiment.metrics import METRICS
from brokerproof.experiment.suite_name import SuiteName
from brokerproof.experiment.verdict import RUN_VERDICTS, Verdict
from brokerproof.experiment.workload import Subscription, Workload
from brokerproof.experiment.yaml_models import IDENTIFIER, FrozenModel, PlainValue, suggest_name, write_value
from brokerproof.settings import from_environment

# Selects the system's own default version.
DEFAULT_VERSION = "default"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A combination of one case from each axis of a matrix. `overrides` is {dotted path: value} of the scenario."""

    name: str
    overrides: Mapping[str, Any]


def list_cases(matrix: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[Case]:
    """Return all combinations, the last axis changing fastest; one without a name and overrides if there is no axis."""
    return [
        Case(name="/".join(name for name, _ in chosen), overrides=_join([values for _, values in chosen]))
        for chosen in product(*(axis.items() for axis in matrix.values()))
    ]


def _join(values_of_axes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the values of all axes. A later axis wins; of `overrides`, only for the paths that it names itself."""
    joined: dict[str, Any] = {}
    for path, value in (item for values in values_of_axes for item in values.items()):
        earlier = joined.get(path)
        both_are_paths = path == "overrides" and isinstance(earlier, Mapping) and isinstance(value, Mapping)
        joined[path] = {**earlier, **value} if both_are_paths else value  # type: ignore[dict-item]
    return joined


class Phase(StrEnum):
    """The phases of a run, in the order of time."""

    STEADY = "steady"
    IMPACT = "impact"
    RECOVERY = "recovery"


class Phases(FrozenModel):
    """The phases in seconds. The first begins when the load has reached its rate and all consumers have subscribed."""

    steady_s: float = Field(20, gt=0)
    impact_s: float = Field(60, gt=0)
    recovery_s: float = Field(20, gt=0)

    @property
    def total_s(self) -> float:
        return self.steady_s + self.impact_s + self.recovery_s


class Bound(FrozenModel):
    """The smallest and the greatest value that a measurement may have."""

    # The example is shown to a user who writes something else than a mapping.
    model_config = ConfigDict(json_schema_extra={"examples": [{"max": 10}]})

    min: float | None = None
    max: float | None = None

    @model_validator(mode="after")
    def _check_limits(self) -> Self:
        if self.min is None and self.max is None:
            raise InputError("has no bound", remedy="give `min`, `max` or both")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise InputError("has a `min` above its `max`", remedy="min <= max")
        return self


class ExpectedOutcome(FrozenModel):
    """The result that the scenario expects. A control (a scenario that must find anomalies) expects `failed`."""

    verdict: Literal[Verdict.PASSED, Verdict.NO_DATA, Verdict.UNKNOWN, Verdict.FAILED] = Verdict.PASSED
    at_least: dict[Anomaly, int] = Field(default_factory=dict, description="by anomaly: the least number to be found")
    failed_suites: list[SuiteName] = Field(
        default_factory=list, description="suites that must fail: of the five, or of your own"
    )

    @field_validator("verdict", mode="before")
    @classmethod
    def _check_verdict(cls, verdict: Any) -> Any:
        if verdict not in RUN_VERDICTS:
            name = write_value(verdict)
            raise InputError(f"no run comes to `{name}`", remedy=suggest_name(name, RUN_VERDICTS))
        return verdict


class Loosened(FrozenModel):
    """The messages for which a loosened anomaly is legal: each message that matches all fields that are given."""

    outcome: Literal["acked", "failed", "unknown"] | None = Field(None, description="what came of the attempts")
    home: str | None = Field(None, description="the cluster that it was published to")
    subscription: str | None = Field(None, description="the subscription that the anomaly was found at")


class ExpectedOwner(FrozenModel):
    """The regions that the owner of each of the topic's partitions must be in at the end of two phases."""

    steady: str | None = Field(None, description="region at the end of the steady phase; by default any region")
    recovery: str | None = Field(None, description="region at the end of the recovery phase; by default any region")

    @property
    def by_phase(self) -> dict[Phase, str]:
        """{phase: region} for the phases for which the scenario names a region."""
        regions = {Phase.STEADY: self.steady, Phase.RECOVERY: self.recovery}
        return {phase: region for phase, region in regions.items() if region is not None}


def _check_metric(key: str) -> str:
    """Return the key, `metric` or `metric/subject`. Raises InputError if the metric does not exist."""
    metric = key.split("/")[0]
    if metric not in METRICS:
        raise InputError(f"no metric is called `{metric}`", remedy=suggest_name(metric, METRICS))
    return key


def _check_compared(name: str) -> str:
    """Return the name of a metric. Raises InputError if it does not exist, or if runs are not compared by it."""
    if name not in METRICS:
        raise InputError(f"no metric is called `{name}`", remedy=suggest_name(name, METRICS))
    if not METRICS[name].compared:
        compared = (other for other, metric in METRICS.items() if metric.compared)
        raise InputError(
            f"runs are not compared by `{name}`", remedy=f"leave it out, or {suggest_name(name, compared)}"
        )
    return name


class KnownBug(FrozenModel):
    """The bug of the messaging system that the scenario reproduces. The case `control` of its matrix has it not."""

    issue: str = Field(pattern=r"^[\w.-]+/[\w.-]+#\d+$", description="where it is described, as OWNER/PROJECT#NUMBER")
    claim: str = Field(description="what the bug breaks, in one sentence")
    hit: list[str] = Field(min_length=1, description="versions that have it")
    mended: str | None = Field(None, description="the first version without it; by default none is known")

    @property
    def url(self) -> str:
        repository, number = self.issue.split("#")
        return f"https://github.com/{repository}/issues/{number}"


class RegressionRule(FrozenModel):
    """The rule by which a run of the scenario counts as worse than comparable earlier runs."""

    tolerance: float = Field(
        0.1, ge=0, le=10, description="share of the usual value by which a measurement may always be worse"
    )
    window: int = Field(30, ge=12, le=500, description="comparable runs that the usual value is computed from, at most")
    tolerances: dict[Annotated[str, AfterValidator(_check_compared)], Annotated[float, Field(ge=0, le=10)]] = Field(
        default_factory=dict, description="by metric: the tolerance of this one"
    )

    def find_tolerance(self, metric: str) -> float:
        """Return the tolerance given for this metric, or else `tolerance`."""
        return self.tolerances.get(metric, self.tolerance)


class Scenario(FrozenModel):
    """One experiment, written as one file in a directory of scenarios. The file's name is the scenario's name."""

    name: str = Field(pattern=IDENTIFIER)
    title: str
    description: str
    tags: list[str] = Field(default_factory=list)
    topology: str
    overrides: dict[str, Any] = Field(
        default_factory=dict, description="values of the topology to replace, by dotted path"
    )
    settings: dict[str, dict[str, PlainValue]] = Field(
        default_factory=dict,
        description="configuration keys of the messaging system, by role; they win over the topology's",
    )
    runtime: str = Field(
        default_factory=lambda: from_environment().runtime,
        description="where nodes live; $BROKERPROOF_RUNTIME by default",
    )
    version: str = Field(DEFAULT_VERSION, description="version of the messaging system")
    guarantee: Guarantee = Guarantee.AT_LEAST_ONCE
    tighten: list[Anomaly] = Field(
        default_factory=list, description="anomalies that are illegal here, although the guarantee allows them"
    )
    loosen: dict[Anomaly, Loosened] = Field(
        default_factory=dict,
        description="anomalies that are legal here, although they are illegal otherwise, each with the messages that "
        "this is for; a list of anomalies is for all messages, and `missing_messages` must then bound those that are "
        "missing",
    )
    matrix: dict[
        Annotated[str, Field(pattern=IDENTIFIER)],
        Annotated[dict[Annotated[str, Field(pattern=IDENTIFIER)], dict[str, Any]], Field(min_length=1)],
    ] = Field(
        default_factory=dict,
        description="axes of cases, such as producers and faults. A case names the values that it sets, by dotted "
        "path. `brokerproof run` does each combination of one case from each axis, and a later axis wins. "
        "The `overrides` of axes are joined",
    )
    case: str = Field("", description="the combination that this run is of, set by `brokerproof run`")
    workload: Workload
    phases: Phases = Phases()
    faults: list[Fault] = Field(default_factory=list)
    draw: Draw | None = Field(None, description="more faults, which are drawn from a seed")
    destroyed: list[str] = Field(
        default_factory=list,
        description="clusters whose disks a fault destroys. Messages that are missing there, or that never left "
        "there, are counted and legal. `rpo_messages` must have a maximum for messages that no cluster holds any more",
    )
    owner: ExpectedOwner = Field(
        ExpectedOwner(),
        description="regions of the topic's owner at the end of a phase. The end is the phase's last third, without "
        "the time before the last fault in the phase took effect or was undone. Each sample in this time that names an "
        "owner must name one in the region, unless a bound on `owner_in_region` allows fewer",
    )
    late_after_s: float = Field(
        1.0,
        gt=0,
        description="seconds after its schedule from which on a message without an ack is late; "
        "late messages interrupt their producer and partition",
    )
    bounds: dict[Annotated[str, AfterValidator(_check_metric)], Bound] = Field(
        default_factory=dict, description="by metric, or by `metric/subject` for one fault, phase or moment of it"
    )
    bug: KnownBug | None = Field(None, description="the known bug of the messaging system that it reproduces")
    regression: RegressionRule = RegressionRule()
    expect: ExpectedOutcome = ExpectedOutcome()
    settle_s: float = Field(
        120, gt=0, description="longest wait for repair, drain and healing after the load has ended"
    )

    @property
    def longest_load_s(self) -> float:
        """The longest time of the phases together. Faults that wait for conditions may lengthen the impact phase."""
        return self.phases.total_s + sum(fault.lengthens_s for fault in self.faults)

    @field_validator("loosen", mode="before")
    @classmethod
    def _loosen_for_all(cls, loosen: Any) -> Any:
        are_names = isinstance(loosen, list) and all(isinstance(name, str) for name in loosen)
        return {name: {} for name in loosen} if are_names else loosen

    @model_validator(mode="after")
    def _check_parts(self) -> Self:
        Mistakes(chain(self._list_timeline_mistakes(), self._list_anomaly_mistakes())).raise_all()
        return self

    def _list_timeline_mistakes(self) -> Iterator[InputError]:
        if self.draw and self.draw.least_impact_s > self.phases.impact_s:
            yield InputError(
                f"an episode may last longer than the impact phase of {self.phases.impact_s:g} s",
                field="draw.moves",
                remedy=f"shorten its `lasts_s`, or give `phases.impact_s` {self.draw.least_impact_s:g} or more",
            )
        earlier: list[str] = []
        for index, fault in enumerate(self.faults):
            at = f"faults.{index}"
            if fault.name in earlier:
                yield InputError(f"two faults are called `{fault.name}`", field=f"{at}.name", remedy="rename one")
            heals = [field for field in ("heal_at_s", "heal_after_s", "heal_when") if getattr(fault, field) is not None]
            if fault.at_s >= self.phases.impact_s:
                yield InputError(
                    f"overlaps the recovery phase: {fault.at_s:g} s into an impact phase of {self.phases.impact_s:g} s",
                    field=f"{at}.at_s",
                    remedy="inject earlier or lengthen phases.impact_s",
                )
            elif fault.permanent and heals:
                yield InputError("is permanent and heals", field=f"{at}.{heals[0]}", remedy="drop one of the two")
            elif len(heals) > 1:
                yield InputError(
                    "is healed at two times", field=f"{at}.{heals[1]}", remedy=f"drop this or `{heals[0]}`"
                )
            elif fault.heal_at_s is not None and not fault.at_s < fault.heal_at_s <= self.phases.impact_s:
                yield InputError(
                    f"heals at {fault.heal_at_s:g} s, not between its injection and the end of the impact phase",
                    field=f"{at}.heal_at_s",
                    remedy=f"choose a value over {fault.at_s:g} and up to {self.phases.impact_s:g}",
                )
            elif fault.heal_after_s is not None and fault.at_s + fault.heal_after_s > self.phases.impact_s:
                yield InputError(
                    f"heals {fault.at_s + fault.heal_after_s:g} s into an impact phase of {self.phases.impact_s:g} s",
                    field=f"{at}.heal_after_s",
                    remedy=f"choose a value up to {self.phases.impact_s - fault.at_s:g}",
                )
            for where, condition in fault.conditions.items():
                field, name = condition.earlier_fault
                if name not in earlier:
                    yield InputError(
                        f"no earlier fault is called `{name}`",
                        field=f"{at}.{where}.{field}",
                        remedy=suggest_name(name, earlier),
                    )
            earlier.append(fault.name)

    def _list_anomaly_mistakes(self) -> Iterator[InputError]:
        for field, anomalies in (("tighten", self.tighten), ("loosen", self.loosen)):
            if Anomaly.UNPROVEN in anomalies:
                yield InputError(
                    "`unproven` is neither legal nor illegal, because it makes every verdict unknown",
                    field=field,
                    remedy="leave `unproven` out",
                )
        for anomaly in self.tighten:
            if self.loosen.get(anomaly) == Loosened():
                yield InputError(
                    f"`{anomaly}` is in `tighten`, too",
                    field=f"loosen.{anomaly}",
                    remedy="leave it out of one of them, or add the `outcome`, `home` or `subscription` that it is for",
                )
        legal = [
            name
            for name in MISSING
            if not self.forbids(name) or (self.loosen.get(name) == Loosened() and name not in self.tighten)
        ]
        unbounded = [name for name in legal if not (bound := self.bound("missing_messages", name)) or bound.max is None]
        # Nothing of a topic that stores no messages is missing in a log; `checks.py` demands another bound.
        if unbounded and self.workload.is_stored:
            metric = "missing_messages" if len(unbounded) > 1 else f"missing_messages/{unbounded[0]}"
            yield InputError(
                f"nothing bounds what may be missing ({', '.join(unbounded)}), so the scenario cannot fail by it",
                field="bounds",
                remedy=f"add `{metric}: {{max: …}}`",
            )

    def forbids(self, anomaly: Anomaly, subscription: Subscription | None = None) -> bool:
        """Whether the guarantee or `tighten` makes the anomaly illegal at a subscription. Without one, in a log.

        For outputs, the guarantee is that of the subscription's commit. `loosen` does not count here.
        """
        guarantee, kind = self.guarantee, None
        if subscription is not None:
            kind = subscription.type
            if anomaly.facts.of_outputs and subscription.outputs_guarantee is not None:
                guarantee = subscription.outputs_guarantee
        return is_illegal(anomaly, guarantee, kind, tightened=self.tighten)

    def bound(self, metric: str, subject: str) -> Bound | None:
        """Return the bound given for `metric/subject`, or else the one given for `metric`; None if there is neither."""
        return self.bounds.get(f"{metric}/{subject}") or self.bounds.get(metric)
