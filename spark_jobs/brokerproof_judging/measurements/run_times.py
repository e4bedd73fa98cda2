"""When the phases of a run began and its faults took effect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from brokerproof.faults.kind import Kind
from brokerproof.faults.registry import FAULT_KINDS, harmful
from brokerproof.run.directory import Run
from brokerproof.run.records import PhaseTimes, read_record
from brokerproof.run.tables import FaultState
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

PHASES = ("steady", "impact", "recovery")


@dataclass(frozen=True, kw_only=True)
class Span:
    """A stretch of time, in microseconds; its end is not part of it."""

    start_us: int
    end_us: int

    @property
    def seconds(self) -> float:
        """Its length."""
        return (self.end_us - self.start_us) / 1e6

    def holds(self, at_us: int) -> bool:
        """Whether a moment is in it."""
        return self.start_us <= at_us < self.end_us


@dataclass(frozen=True, kw_only=True)
class FaultTimes:
    """A fault with what it was done to. Its span goes from its effect to the next fault's, or to the load's end.

    `span` is None where it cannot be told, `why` says why. `slowed` is from its effect to its healing, of a fault that
    slows down what goes on, None of others. `healed_us` is when its targets were healthy again, None
    where they never were.
    """

    name: str
    targets: tuple[str, ...] = ()
    span: Span | None = None
    slowed: Span | None = None
    healed_us: int | None = None
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """The phases by name, none where the load never became steady, and the faults.

    Without those that help the cluster to recover (starting what stands by): they are a part of the recovery.
    """

    phases: Mapping[str, Span] = field(default_factory=dict)
    faults: tuple[FaultTimes, ...] = ()

    @property
    def ends_us(self) -> int | None:
        """When the load ended."""
        return self.phases["recovery"].end_us if self.phases else None

    @classmethod
    def of(cls, run: Run, changes: DataFrame) -> Timeline:
        """From the record of the phases and the rows of the table `faults`."""
        times = read_record(run, PhaseTimes)
        edges = [times.steady_at, times.impact_at, times.recovery_at, times.ends_at] if times else []
        spans = [Span(start_us=start, end_us=end) for start, end in pairwise(edges)]
        phases = dict(zip(PHASES, spans, strict=True)) if spans else {}
        effects: dict[str, int] = {}
        healed: dict[str, int] = {}
        kinds: dict[str, Kind] = {}
        healing: dict[str, int] = {}
        targets: dict[str, tuple[str, ...]] = {}
        # As numbers: Spark hands times out without their zone.
        rows = changes.select("fault", "kind", "targets", "state", F.unix_micros("at").alias("at_us")).collect()
        for row in sorted(rows, key=lambda row: row.at_us):
            targets[row.fault] = tuple(row.targets or ()) or targets.get(row.fault, ())
            if row.kind in FAULT_KINDS:
                kinds[row.fault] = FAULT_KINDS[row.kind]
            if row.state == FaultState.EFFECTIVE:
                effects.setdefault(row.fault, row.at_us)
            elif row.state == FaultState.HEALING:
                healing.setdefault(row.fault, row.at_us)
            elif row.state == FaultState.RECOVERED:
                healed[row.fault] = row.at_us
        helping = {name for name, kind in kinds.items() if kind.helps}
        names = [name for name in dict.fromkeys([*harmful(run.scenario), *targets]) if name not in helping]
        faults = []
        for name in names:
            at, span, slowed, why = effects.get(name), None, None, ""
            kind = kinds.get(name)
            if at is None:
                why = "the fault never became effective"
            elif not phases:
                why = "the load never became steady"
            else:
                last = max(edges[-1], at)
                later = [other for each, other in effects.items() if other > at and each not in helping]
                span = Span(start_us=at, end_us=min([*later, last]))
                if kind is not None and kind.slows:
                    slowed = Span(start_us=at, end_us=healing.get(name, last))
            faults.append(
                FaultTimes(
                    name=name,
                    targets=targets.get(name, ()),
                    span=span,
                    slowed=slowed,
                    healed_us=healed.get(name),
                    why=why,
                )
            )
        return cls(phases=phases, faults=tuple(faults))

    def phase_of(self, at_us: Column) -> Column:
        """The name of the phase that a moment is in, null where it is in none."""
        phase = F.lit(None).cast("string")
        for name, span in self.phases.items():
            phase = F.when((at_us >= span.start_us) & (at_us < span.end_us), name).otherwise(phase)
        return phase
