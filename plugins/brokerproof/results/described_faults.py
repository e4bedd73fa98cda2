"""The faults of a run in words, for its story and its pages."""

from __future__ import annotations

from dataclasses import dataclass

from brokerproof.experiment.fault import Fault
from brokerproof.faults.registry import FAULT_KINDS
from brokerproof.faults.targets import read_doubts_about_targets
from brokerproof.run.directory import Run
from brokerproof.run.fault_course import FaultCourse, read_fault_courses

# Of more than _MOST_NAMES nodes, only the number is shown.
_MOST_NAMES = 3


@dataclass(frozen=True, kw_only=True)
class DescribedFault:
    """A fault that was injected, and its targets in words."""

    course: FaultCourse
    whom: str
    # Why the targets may differ from those that the scenario means; empty if there is no doubt.
    doubt: str = ""

    @property
    def helps(self) -> bool:
        """Whether the fault helps the cluster to recover from another fault."""
        kind = FAULT_KINDS.get(self.course.kind)
        return kind is not None and kind.helps

    @property
    def sentence(self) -> str:
        """The fault in words without its time, as in "eu was destroyed"."""
        kind = FAULT_KINDS.get(self.course.kind)
        is_one = " and " not in self.whom and not self.whom[0].isdigit()
        return f"{self.whom} {'was' if is_one else 'were'} {kind.done if kind else self.course.kind}"


def describe_faults(run: Run) -> list[DescribedFault]:
    """Return the faults that were injected, in the order of their injections."""
    written, doubts = {fault.name: fault for fault in run.scenario.faults}, read_doubts_about_targets(run)
    return [
        DescribedFault(
            course=course, whom=_describe_targets(written.get(name), course.targets), doubt=doubts.get(name, "")
        )
        for name, course in read_fault_courses(run).items()
    ]


def _describe_targets(fault: Fault | None, names: tuple[str, ...]) -> str:
    """Return the name of the region or cluster if all of it is the target, else the names or the number of the nodes.

    Without target nodes, return the fault's name.
    """
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
