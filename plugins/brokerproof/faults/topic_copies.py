"""The nodes and regions that hold copies of the topic's data, recorded before each fault and at the end."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from brokerproof.errors import AdminError
from brokerproof.experiment.fault import Fault
from brokerproof.faults.courses import Course
from brokerproof.faults.injections import Injections
from brokerproof.faults.stage import Stage
from brokerproof.systems.abilities import LocatesCopies
from brokerproof.systems.protocols import SegmentCopies
from brokerproof.systems.registry import name_topic
from brokerproof.systems.roles import list_nodes_that, serves, stores

# Seconds before a fault at which the timeline asks where all copies are. The answer takes up to 12 s while 2 cores also
# carry the load.
LEAD_S = 15.0


@dataclass(frozen=True, kw_only=True)
class Copies:
    """The copies of every segment of the topic. The cluster was asked at the time `at` (µs) and answered after it."""

    segments: Sequence[SegmentCopies]
    at: int


class CopiesRecorder:
    """Asks where the copies are, once for all faults that are due at the same time, and records the answers."""

    def __init__(self, stage: Stage, injections: Injections) -> None:
        self._stage, self._injections = stage, injections
        # {seconds of a fault's injection: the copies before it}
        self._asked: dict[float, Future[Copies]] = {}

    def begin(self, fault: Fault) -> Future[Copies]:
        """Ask where the copies are before a fault, and return the answer as a future.

        Faults that are due at the same time (`at_s`) share one question.
        """
        if fault.at_s not in self._asked:
            self._asked[fault.at_s] = self.ask()
        return self._asked[fault.at_s]

    def ask(self) -> Future[Copies]:
        silent = self._list_silent_clusters()
        return self._stage.waits.begin(lambda: self._find(without=silent))

    def await_answer(self, copies: Future[Copies]) -> Course[None]:
        """Wait until the future `copies` has ended, for at most `LEAD_S` seconds."""
        clock = self._stage.clock
        late_at = clock.now_us() + int(LEAD_S * 1e6)
        yield lambda: copies.done() or clock.now_us() >= late_at

    def keep(self, fault: Fault, copies: Future[Copies]) -> None:
        """Record where the copies of the data were before a fault, from the answer in the future `copies`.

        If the future has not ended, or no node answered, this is noted as a problem. A later answer is not recorded,
        because it may show the effect of the fault.
        """
        if not copies.done():
            problem = f"where the copies were before {fault.name} was not known in time and is not recorded"
            self._stage.problems.append(problem)
            return
        try:
            self._record(f"before {fault.name}", copies.result())
        except AdminError as error:
            self._stage.problems.append(f"where the copies were before {fault.name} is unknown: {error}")

    def record_end(self) -> None:
        """Record where the copies are at the end of the timeline. Raises AdminError if no node answers."""
        self._record("end", self._find())

    def _list_silent_clusters(self) -> list[str]:
        """Return the clusters that cannot answer: all nodes that serve clients, or all that store data, are down."""
        topology = self._stage.topology
        standing_by = {name for name, node in topology.nodes.items() if node.standby}
        down = {node for nodes in self._injections.list_targets_in_force() for node in nodes}
        down |= {name for name in standing_by if not self._stage.runtime.is_alive(name)}
        return [
            name
            for name in topology.clusters
            if any(down.issuperset(list_nodes_that(trait, topology, name)) for trait in (serves, stores))
        ]

    def _find(self, without: Collection[str] = ()) -> Copies:
        """Return the copies in all clusters except those in `without`; no copies if the system cannot locate them."""
        at, stage = self._stage.clock.now_us(), self._stage
        if not isinstance(stage.observation, LocatesCopies):
            return Copies(segments=[], at=at)
        return Copies(segments=stage.observation.find_copies(without=without), at=at)

    def _record(self, moment: str, copies: Copies) -> None:
        run, nodes = self._stage.run, self._stage.topology.nodes
        rows = [
            {
                "run_id": run.run_id,
                "cluster": segment.cluster,
                "topic": name_topic(run),
                "partition": segment.partition,
                "at": copies.at,
                "moment": moment,
                "segment": segment.segment,
                "first_offset": segment.first_offset,
                "state": segment.state,
                "holders": list(segment.holders),
                "regions": sorted({nodes[name].region for name in segment.in_sync if name in nodes}),
                "regions_required": list(segment.regions_required),
            }
            for segment in copies.segments
        ]
        run.append("copies", rows)
