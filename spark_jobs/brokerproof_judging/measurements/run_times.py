"""Reads when the phases of a run began and when its faults took effect."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from brokerproof.experiment.fault import GROW
from brokerproof.experiment.scenario import Phase
from brokerproof.faults.kind import FaultKind
from brokerproof.faults.registry import FAULT_KINDS, list_harmful_faults
from brokerproof.run.directory import Run
from brokerproof.run.fault_course import FaultCourse, read_fault_courses
from brokerproof.run.records import PhaseTimes, read_record

from brokerproof_judging.evidence import NO_RECORD, Proof, prove_undone

NEVER_STEADY = "the load never became steady"
# Later than every time in a run.
_NEVER_US = 2**62


@dataclass(frozen=True, kw_only=True)
class Span:
    """A time from `start_us` to `end_us`, in microseconds; the end is not part of it."""

    start_us: int
    end_us: int

    @property
    def seconds(self) -> float:
        return (self.end_us - self.start_us) / 1e6

    def holds(self, at_us: int) -> bool:
        return self.start_us <= at_us < self.end_us


@dataclass(frozen=True, kw_only=True)
class EffectiveFault:
    """A fault that took effect, in a run whose load became steady.

    `span` lasts from the fault's effect to the next fault's effect, or to the load's end. `client_span` lasts from the
    fault's injection to the next fault's injection, or to the load's end. `client_span` is used for clients, because a
    graceful stop interrupts them before it takes effect. `cut_off_by` names the fault that ends `span`, and
    `next_injected` the fault that ends `client_span`; None if the load's end does. `slowed` lasts from the effect to
    the healing, or to the load's end if the fault was not healed; None if the fault does not slow clients down. At
    `recovered_us`, the targets were healthy again; None if they never were. At `healed_us`, the healing began; None if
    the fault was not healed. `leaves_nodes` is true if the targets go on serving.
    """

    name: str
    targets: tuple[str, ...]
    span: Span
    client_span: Span
    slowed: Span | None = None
    healed_us: int | None = None
    recovered_us: int | None = None
    cut_off_by: str | None = None
    next_injected: str | None = None
    leaves_nodes: bool = False

    def seconds_until(self, at_us: int) -> float:
        """Return the seconds from the fault's effect to `at_us`."""
        return (at_us - self.span.start_us) / 1e6

    def seconds_since_injection(self, at_us: int) -> float:
        """Return the seconds from the fault's injection to `at_us`."""
        return (at_us - self.client_span.start_us) / 1e6


@dataclass(frozen=True, kw_only=True)
class IneffectiveFault:
    """A fault that cannot be measured, and the reason."""

    name: str
    why: str


@dataclass(frozen=True, kw_only=True)
class RunTimes:
    """The times of a run's phases, by name, and of its faults. There are no phases if the load never became steady.

    `effective` and `ineffective` lack faults that help the cluster to recover, such as a start of standby nodes.
    """

    phases: Mapping[str, Span] = field(default_factory=dict)
    effective: tuple[EffectiveFault, ...] = ()
    ineffective: tuple[IneffectiveFault, ...] = ()
    # Every time in microseconds at which a fault took effect or recovered, including faults that help.
    changes_us: tuple[int, ...] = ()
    undone: Proof = NO_RECORD
    # When the topic got more partitions; None if it did not.
    grown_us: int | None = None
    # By fault, including faults that help, the time from its effect to the next fault's injection or the load's end.
    # What a graceful stop changes before it takes effect belongs to neither fault.
    after: Mapping[str, Span] = field(default_factory=dict)
    # By node, the times in which a fault kept it down or it was on standby.
    down: Mapping[str, Sequence[Span]] = field(default_factory=dict)

    @property
    def load(self) -> Span:
        """The time from the steady phase's start to the load's end. Raises KeyError if the load never became steady."""
        return Span(start_us=self.phases[Phase.STEADY].start_us, end_us=self.phases[Phase.RECOVERY].end_us)

    @property
    def spans(self) -> dict[str, Span]:
        """{phase or fault: its time}. A fault's time ends with the next fault's injection or with the load."""
        return {**self.phases, **self.after}

    @property
    def settled_us(self) -> int | None:
        """The last time in µs at which a fault took effect or recovered.

        Only a sample after this time shows the state at the run's end. Without faults, the time is the start of the
        last phase, or 0 if the load never became steady. The time is None if `undone` does not prove that every fault
        was undone, except permanent ones.
        """
        last_phase = self.phases[Phase.RECOVERY].start_us if self.phases else 0
        return max(self.changes_us, default=last_phase) if self.undone.given else None

    @property
    def slowed(self) -> dict[str, Span]:
        """{fault's name: time in which the fault slowed clients down}, only for faults that did so."""
        return {fault.name: fault.slowed for fault in self.effective if fault.slowed is not None}


def read_run_times(run: Run) -> RunTimes:
    """Return the times of a run's phases and faults, from the record of the phases and the table `faults`."""
    times = read_record(run, PhaseTimes)
    edges = [times.steady_at, times.impact_at, times.recovery_at, times.ends_at] if times else []
    spans = [Span(start_us=start, end_us=end) for start, end in pairwise(edges)]
    phases: dict[str, Span] = {phase: spans[number] for number, phase in enumerate(Phase)} if spans else {}
    courses = read_fault_courses(run)
    # A kind of fault that the registry lacks counts as harmful.
    kinds = {name: FAULT_KINDS.get(course.kind, FaultKind) for name, course in courses.items()}
    harmful = {name: course for name, course in courses.items() if kinds[name].harms}
    effects = {course.effective_at: name for name, course in harmful.items() if course.effective_at is not None}
    injections = {course.begins_at: name for name, course in harmful.items()}
    effective: list[EffectiveFault] = []
    ineffective: list[IneffectiveFault] = []
    for name in dict.fromkeys([*list_harmful_faults(run.scenario), *harmful]):
        course = harmful.get(name)
        if course is None or course.effective_at is None:
            ineffective.append(IneffectiveFault(name=name, why="the fault never became effective"))
        elif not phases:
            ineffective.append(IneffectiveFault(name=name, why=NEVER_STEADY))
        else:
            at, injected = course.effective_at, course.begins_at
            last = max(edges[-1], at)
            end = min([*(other for other in effects if other > at), last])
            next_injection = min([*(other for other in injections if other > injected), edges[-1]])
            effective.append(
                EffectiveFault(
                    name=name,
                    targets=course.targets,
                    span=Span(start_us=at, end_us=end),
                    client_span=Span(start_us=injected, end_us=max(injected, next_injection)),
                    slowed=Span(start_us=at, end_us=course.healed_at or last) if kinds[name].slows else None,
                    healed_us=course.healed_at,
                    recovered_us=course.recovered_at,
                    cut_off_by=effects.get(end),
                    next_injected=injections.get(next_injection),
                    leaves_nodes=kinds[name].leaves_nodes,
                )
            )
    changes = (at for course in courses.values() for at in (course.effective_at, course.recovered_at) if at is not None)
    return RunTimes(
        phases=phases,
        effective=tuple(effective),
        ineffective=tuple(ineffective),
        changes_us=tuple(sorted(changes)),
        undone=prove_undone(run),
        grown_us=next((course.effective_at for course in courses.values() if course.kind == GROW), None),
        after=_list_spans_after(list(courses.values()), edges[-1]) if edges else {},
        down=_list_down(run, courses.values()),
    )


def _list_spans_after(courses: Sequence[FaultCourse], ends_us: int) -> dict[str, Span]:
    found: dict[str, Span] = {}
    for fault, at in ((course.fault, course.effective_at) for course in courses if course.effective_at is not None):
        next_ones = (other.begins_at for other in courses if other.effective_at is None or other.effective_at > at)
        found[fault] = Span(start_us=at, end_us=max(at, min([*next_ones, ends_us])))
    return found


def _list_down(run: Run, courses: Iterable[FaultCourse]) -> dict[str, list[Span]]:
    """Return {node: times in which a fault kept the node down or the node was on standby}.

    Such a time ends when the node has recovered or is started by a fault that helps the cluster.
    """
    starts: dict[str, list[int]] = defaultdict(list)
    down = [(node, 0, _NEVER_US) for node, content in run.topology.nodes.items() if content.standby]
    for course in courses:
        kind, effect = FAULT_KINDS.get(course.kind), course.effective_at
        if kind is None or effect is None:
            continue
        for node in course.targets:
            if kind.helps:
                starts[node].append(effect)
            elif kind.silences:
                down.append((node, effect, _NEVER_US if course.recovered_at is None else course.recovered_at))
    found: dict[str, list[Span]] = defaultdict(list)
    for node, start, recovered in down:
        end = min([recovered, *(at for at in starts[node] if at > start)])
        found[node].append(Span(start_us=start, end_us=end))
    return found
