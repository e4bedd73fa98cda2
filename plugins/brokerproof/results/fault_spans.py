"""When each fault of a run was injected, took effect, was healed and had recovered: the bands of a timeline."""

from __future__ import annotations

from dataclasses import dataclass, field

from brokerproof.experiment.fault import Fault
from brokerproof.faults.registry import FAULT_KINDS
from brokerproof.faults.targets import read_doubts_about_targets
from brokerproof.run.directory import Run
from brokerproof.run.table_rows import iterate_rows
from brokerproof.run.tables import FaultState

# A longer list of nodes is shown as their number.
_MOST_NAMES = 3


@dataclass(kw_only=True)
class FaultSpan:
    """A fault, with the time (microseconds) and the evidence of each state that it reached.

    They are those of the last `recovered` and of the first row of each other state.
    """

    name: str
    kind: str
    # The targets in words.
    whom: str
    helps: bool
    targets: tuple[str, ...] = ()
    # Why the targets may differ from those that the scenario means; empty if there is no doubt.
    doubt: str = ""
    at: dict[FaultState, int] = field(default_factory=dict)
    evidence: dict[FaultState, str] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """The fault in words without its time, as in "eu was destroyed"."""
        kind = FAULT_KINDS.get(self.kind)
        return f"{self.whom} {'was' if self._is_one else 'were'} {kind.done if kind else self.kind}"

    @property
    def _is_one(self) -> bool:
        return " and " not in self.whom and not self.whom[0].isdigit()


def read_fault_spans(run: Run) -> list[FaultSpan]:
    """Return the faults that were injected, in the order of their injections."""
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


def _describe_targets(fault: Fault | None, names: tuple[str, ...]) -> str:
    """Return a whole region or cluster by its name; otherwise the nodes, by name up to `_MOST_NAMES`."""
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
