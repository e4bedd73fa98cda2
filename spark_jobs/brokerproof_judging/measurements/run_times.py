"""When the phases of a run began and its faults took effect."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from brokerproof.faults.kind import FaultKind
from brokerproof.faults.registry import FAULT_KINDS, list_harmful_faults
from brokerproof.run.directory import Run
from brokerproof.run.records import PhaseTimes, read_record
from brokerproof.run.table_rows import iterate_rows
from brokerproof.run.tables import FaultState
from pyspark.sql import Column
from pyspark.sql import functions as F

from brokerproof_judging.evidence import NO_RECORD, Proof, prove_undone

PHASES = ("steady", "impact", "recovery")
NEVER_STEADY = "the load never became steady"
# Later than every moment of a run.
_NEVER_US = 2**62


@dataclass(frozen=True, kw_only=True)
class Span:
    """A time from `start_us` to `end_us`, in microseconds; the end is not part of it."""

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
class EffectiveFault:
    """A fault that took effect while the load was steady or later.

    `span` goes from its effect to the effect of the next fault, which is `cut_off_by`, or to the load's end.
    `client_span` goes from its injection to the injection of the next fault, `next_injected`, or to the load's end. It
    begins earlier, because a graceful stop takes the topic away before it takes effect. `slowed` goes from its effect
    to its healing, and is None if the fault does not slow clients down. `healed_us` is when its targets were healthy
    again, None if they never were. `leaves_nodes` is true if its targets go on serving.
    """

    name: str
    targets: tuple[str, ...]
    span: Span
    client_span: Span
    slowed: Span | None = None
    healed_us: int | None = None
    cut_off_by: str | None = None
    next_injected: str | None = None
    leaves_nodes: bool = False

    def seconds_until(self, at_us: int) -> float:
        """The seconds from the effect to a moment."""
        return (at_us - self.span.start_us) / 1e6

    def seconds_since_injection(self, at_us: int) -> float:
        """The seconds from the injection to a moment."""
        return (at_us - self.client_span.start_us) / 1e6


@dataclass(frozen=True, kw_only=True)
class IneffectiveFault:
    """A fault that cannot be measured, and the reason."""

    name: str
    why: str


@dataclass(frozen=True, kw_only=True)
class RunTimes:
    """The phases by name, none if the load never became steady, and the faults.

    Faults that help the cluster to recover (a start of standby nodes) are left out: they are a part of recovery.
    """

    phases: Mapping[str, Span] = field(default_factory=dict)
    effective: tuple[EffectiveFault, ...] = ()
    ineffective: tuple[IneffectiveFault, ...] = ()
    # Every moment in microseconds at which a fault, also one that helps, took effect or recovered.
    changes_us: tuple[int, ...] = ()
    undone: Proof = NO_RECORD
    # By node, when a fault kept it down or it was on standby.
    down: Mapping[str, Sequence[Span]] = field(default_factory=dict)

    @property
    def load(self) -> Span:
        """From the steady phase's start to the load's end. Raises KeyError if the load never became steady."""
        return Span(start_us=self.phases[PHASES[0]].start_us, end_us=self.phases[PHASES[-1]].end_us)

    @property
    def settled_us(self) -> int | None:
        """The last moment, in microseconds, at which a fault took effect or recovered; None without a proven undo.

        A state at the end needs a sample after this moment. In a run without faults it is the last phase's start.
        """
        last_phase = self.phases[PHASES[-1]].start_us if self.phases else 0
        return max(self.changes_us, default=last_phase) if self.undone.given else None

    @property
    def slowed(self) -> dict[str, Span]:
        """By fault that slows clients down, the time in which it did."""
        return {fault.name: fault.slowed for fault in self.effective if fault.slowed is not None}

    def name_phase(self, at_us: Column) -> Column:
        """Return the name of the phase that a moment is in, null if it is in no phase."""
        phase = F.lit(None).cast("string")
        for name, span in self.phases.items():
            phase = F.when((at_us >= span.start_us) & (at_us < span.end_us), name).otherwise(phase)
        return phase


def read_run_times(run: Run) -> RunTimes:
    """Read the record of the phases and the table `faults`."""
    times = read_record(run, PhaseTimes)
    edges = [times.steady_at, times.impact_at, times.recovery_at, times.ends_at] if times else []
    spans = [Span(start_us=start, end_us=end) for start, end in pairwise(edges)]
    phases = dict(zip(PHASES, spans, strict=True)) if spans else {}
    histories = _read_histories(run)
    helping = {name for name, history in histories.items() if history.kind is not None and history.kind.helps}
    effects = {
        history.effective_us: name
        for name, history in histories.items()
        if name not in helping and history.effective_us is not None
    }
    injections = {history.injected_us: name for name, history in histories.items() if name not in helping}
    effective: list[EffectiveFault] = []
    ineffective: list[IneffectiveFault] = []
    for name in dict.fromkeys([*list_harmful_faults(run.scenario), *histories]):
        history = histories.get(name, _FaultHistory())
        at = history.effective_us
        if name in helping:
            continue
        if at is None:
            ineffective.append(IneffectiveFault(name=name, why="the fault never became effective"))
        elif not phases:
            ineffective.append(IneffectiveFault(name=name, why=NEVER_STEADY))
        else:
            last = max(edges[-1], at)
            end = min([*(other for other in effects if other > at), last])
            injected = history.injected_us
            next_injection = min([*(other for other in injections if other > injected), edges[-1]])
            slows = history.kind is not None and history.kind.slows
            effective.append(
                EffectiveFault(
                    name=name,
                    targets=history.targets,
                    span=Span(start_us=at, end_us=end),
                    client_span=Span(start_us=injected, end_us=max(injected, next_injection)),
                    slowed=Span(start_us=at, end_us=history.healing_us or last) if slows else None,
                    healed_us=history.healed_us,
                    cut_off_by=effects.get(end),
                    next_injected=injections.get(next_injection),
                    leaves_nodes=history.kind is not None and history.kind.leaves_nodes,
                )
            )
    return RunTimes(
        phases=phases,
        effective=tuple(effective),
        ineffective=tuple(ineffective),
        changes_us=tuple(sorted(at for history in histories.values() for at in history.changes_us)),
        undone=prove_undone(run),
        down=_list_down(run, histories.values()),
    )


def _list_down(run: Run, histories: Collection[_FaultHistory]) -> dict[str, list[Span]]:
    """Return, by node, when a fault kept it down or it was on standby, until a fault that helps started it."""
    starts: dict[str, list[int]] = defaultdict(list)
    down = [(node, 0, _NEVER_US) for node, content in run.topology.nodes.items() if content.standby]
    for history in histories:
        effect = history.effective_us
        if history.kind is None or effect is None:
            continue
        for node in history.targets:
            if history.kind.helps:
                starts[node].append(effect)
            elif history.kind.silences:
                down.append((node, effect, _NEVER_US if history.healed_us is None else history.healed_us))
    found: dict[str, list[Span]] = defaultdict(list)
    for node, start, healed in down:
        end = min([healed, *(at for at in starts[node] if at > start)])
        found[node].append(Span(start_us=start, end_us=end))
    return found


@dataclass(kw_only=True)
class _FaultHistory:
    """The changes of state of a fault."""

    kind: FaultKind | None = None
    targets: tuple[str, ...] = ()
    # Its first change of state, which is the injection.
    injected_us: int = 0
    # Every moment at which it took effect or recovered.
    changes_us: list[int] = field(default_factory=list)
    # When it first took effect, when its healing first began, and when it last recovered.
    effective_us: int | None = None
    healing_us: int | None = None
    healed_us: int | None = None


def _read_histories(run: Run) -> dict[str, _FaultHistory]:
    histories: dict[str, _FaultHistory] = {}
    for row in sorted(iterate_rows(run, "faults"), key=lambda row: row["at"]):
        history = histories.setdefault(row["fault"], _FaultHistory(injected_us=row["at"]))
        history.kind = FAULT_KINDS.get(row["kind"], history.kind)
        history.targets = tuple(row["targets"] or ()) or history.targets
        if row["state"] in (FaultState.EFFECTIVE, FaultState.RECOVERED):
            history.changes_us.append(row["at"])
        if row["state"] == FaultState.EFFECTIVE and history.effective_us is None:
            history.effective_us = row["at"]
        elif row["state"] == FaultState.HEALING and history.healing_us is None:
            history.healing_us = row["at"]
        elif row["state"] == FaultState.RECOVERED:
            history.healed_us = row["at"]
    return histories
