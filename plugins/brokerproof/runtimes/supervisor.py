"""The supervisor, a process that acts as the service manager of a run's nodes.

`python -m brokerproof.runtimes.supervisor NODES MODULE:CLASS` starts it, with the directory of the nodes and the class
of their runtime. Each time a node ends by itself, the supervisor restarts it after the node's own delay
(`SupervisedNode.after_s`), without a back-off or a limit.
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Protocol

from brokerproof.clock import SYSTEM_CLOCK, Clock
from brokerproof.errors import BrokerproofError
from brokerproof.runtimes.protocols import NodeSpec
from brokerproof.runtimes.restarts import RestartEvent, RestartRecord, RestartStep
from brokerproof.runtimes.supervised_runtime import SupervisedRuntime
from brokerproof.runtimes.supervision import SupervisedNode, Supervision

log = logging.getLogger(__name__)


class RestartableNodes(Protocol):
    """The methods of a runtime that the supervisor calls."""

    def has_ended_by_itself(self, name: str) -> bool | None:
        """Return whether the node ended without `stop` or `kill`.

        None if another thread or process is starting or ending the node at this moment.
        """

    def start_again(self, spec: NodeSpec) -> bool:
        """Start the node if it ended by itself. Returns whether it was started."""


class Supervisor:
    """Watches nodes, and restarts those that ended by themselves."""

    def __init__(
        self,
        runtime: RestartableNodes,
        supervised: Iterable[SupervisedNode],
        events: RestartRecord,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._runtime, self._events, self._clock = runtime, events, clock
        self._supervised = list(supervised)
        # {node: monotonic seconds at which its end was seen, or at which its last restart failed}
        self._ended_s: dict[str, float] = {}
        self._times: Counter[tuple[str, RestartStep]] = Counter()

    def look(self) -> None:
        """Look at every node once, and restart each node whose end was seen at least `after_s` seconds ago.

        A restart that fails is tried again after the same delay. Raises OSError if an event cannot be recorded.
        """
        for node in self._supervised:
            self._look_at(node)

    def _look_at(self, node: SupervisedNode) -> None:
        name = node.spec.name
        ended = self._runtime.has_ended_by_itself(name)
        if ended is None:
            return
        if not ended:
            # The node runs, or it was stopped or killed before its restart was due.
            self._ended_s.pop(name, None)
            return
        now_s = self._clock.monotonic_s()
        if name not in self._ended_s:
            self._ended_s[name] = now_s
            self._record(name, RestartStep.ENDED)
        if now_s - self._ended_s[name] < node.after_s:
            return
        try:
            started = self._runtime.start_again(node.spec)
        except (BrokerproofError, OSError) as error:
            log.warning("%s cannot be started: %s", name, error)
            self._ended_s[name] = now_s
            return
        if started:
            self._record(name, RestartStep.RESTARTED)
            del self._ended_s[name]

    def _record(self, name: str, step: RestartStep) -> None:
        self._times[name, step] += 1
        event = RestartEvent(node=name, step=step, at=self._clock.now_us(), times=self._times[name, step])
        log.info("%s %s, %d times by now", name, step, event.times)
        self._events.add(event)


def main(nodes: Path, runtime: str) -> None:
    """Restart each node below `nodes` that ends by itself, until the file `supervision.json` in `nodes` is removed."""
    supervision = Supervision(nodes)
    module, _, name = runtime.partition(":")
    make: type[SupervisedRuntime] = getattr(import_module(module), name)
    watched = make(nodes)
    supervisor = Supervisor(watched, supervision.read_plan(), supervision.events)
    supervision.events.begin()
    while supervision.is_in_force:
        supervisor.look()
        SYSTEM_CLOCK.sleep(watched.look_every_s)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    main(Path(sys.argv[1]), sys.argv[2])
