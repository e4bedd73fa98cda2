"""When each fault of a run was injected, took effect, was healed and was over: the bands of a timeline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from brokerproof.experiment.fault import Fault
from brokerproof.experiment.scenario import Scenario
from brokerproof.faults.registry import FAULT_KINDS
from brokerproof.faults.targets import read_doubts_about_targets
from brokerproof.run.directory import Run
from brokerproof.run.table_rows import iterate_rows
from brokerproof.run.tables import FaultState

# A list of more names is counted instead.
_MOST_NAMES = 3


@dataclass(kw_only=True)
class FaultSpan:
    """A fault: the first moment of each of its states, in microseconds, as far as it came."""

    name: str
    kind: str
    # Who it was done to, in words.
    whom: str
    helps: bool
    targets: tuple[str, ...] = ()
    # Why its targets may be others than those that the scenario means; empty if they are not in doubt.
    doubt: str = ""
    at: dict[FaultState, int] = field(default_factory=dict)
    evidence: dict[FaultState, str] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """What was done, without its time: "eu was destroyed"."""
        kind = FAULT_KINDS.get(self.kind)
        return f"{self.whom} {'was' if self._is_one else 'were'} {kind.done if kind else self.kind}"

    @property
    def _is_one(self) -> bool:
        return " and " not in self.whom and not self.whom[0].isdigit()


def read_fault_spans(run: Run) -> list[FaultSpan]:
    """The faults that were injected, in the order in which they were."""
    spans: dict[str, FaultSpan] = {}
    written, doubts = {fault.name: fault for fault in run.scenario.faults}, read_doubts_about_targets(run)
    for row in sorted(iterate_rows(run, "faults"), key=lambda row: row["at"]):
        name, kind = row["fault"], FAULT_KINDS.get(row["kind"])
        targets = tuple(row["targets"] or ())
        span = spans.get(name)
        if span is None:
            span = spans[name] = FaultSpan(
                name=name,
                kind=row["kind"],
                whom="",
                helps=kind is not None and kind.helps,
                targets=targets,
                doubt=doubts.get(name, ""),
            )
        span.targets = targets or span.targets
        span.whom = _describe_targets(written.get(name), span.targets)
        state = FaultState(row["state"])
        if state not in span.at or state is FaultState.RECOVERED:
            span.at[state], span.evidence[state] = row["at"], row["evidence"] or ""
    return list(spans.values())


def list_faults_without_effect(scenario: Scenario, spans: list[FaultSpan]) -> Iterator[str]:
    """The names of the faults of the scenario that never took effect."""
    effective = {span.name for span in spans if FaultState.EFFECTIVE in span.at}
    return (fault.name for fault in scenario.faults if fault.name not in effective)


def _describe_targets(fault: Fault | None, names: tuple[str, ...]) -> str:
    """A whole region or cluster by its name; otherwise the nodes, by name where they are few."""
    chosen = fault.targets if fault is not None else None
    if chosen is not None and not chosen.nodes and not chosen.role and chosen.now is None and chosen.count is None:
        places = [place for place in (chosen.region, chosen.cluster) if place]
        if len(places) == 1:
            return places[0]
    if not names:
        return fault.name if fault is not None else "nobody"
    if len(names) > _MOST_NAMES:
        return f"{len(names)} {chosen.role} nodes" if chosen is not None and chosen.role else f"{len(names)} nodes"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
