"""The conditions that a fault can wait for before it is injected: the field `when` of a scenario's fault."""

from __future__ import annotations

import logging
from collections.abc import Callable

from brokerproof.errors import AdminError, DeadlineError
from brokerproof.experiment.fault import Fault, When
from brokerproof.faults.courses import Course
from brokerproof.faults.injections import Injections
from brokerproof.faults.stage import Stage
from brokerproof.run.tables import FaultState
from brokerproof.systems.abilities import CountsMissingCopies, LocatesCopies, require

log = logging.getLogger(__name__)


def await_condition(stage: Stage, injections: Injections, fault: Fault, when: When) -> Course[None]:
    """Wait until the earlier fault in the condition `when` has taken effect, and then until the condition is true.

    Raises DeadlineError if one of these two waits takes longer than `when.within_s` seconds.
    """
    condition, earlier = when.earlier_fault
    log.info("%s waits until %s is %s", fault.name, earlier, condition)
    late_at = stage.clock.now_us() + int(when.within_s * 1e6)
    yield lambda: injections.has_reached(earlier, FaultState.EFFECTIVE) or stage.clock.now_us() >= late_at
    if not injections.has_reached(earlier, FaultState.EFFECTIVE):
        raise DeadlineError(f"waited {when.within_s:.0f} s for {earlier} to take effect, before {fault.name}")
    targets = injections.targets[earlier]
    if when.for_s is not None:
        ask = _make_unhealthy_condition(stage, targets, when.for_s)
        what, every_s = f"the nodes of {earlier} to fail their health checks for {when.for_s:g} s", 0.25
    else:
        ask = lambda: _is_rereplicated(stage, targets)  # noqa: E731
        what, every_s = f"the data of {earlier} to be replicated again", 0.5
    yield from stage.waits.poll(ask, timeout_s=when.within_s, what=f"{what}, before {fault.name}", every_s=every_s)


def _make_unhealthy_condition(stage: Stage, nodes: list[str], for_s: float) -> Callable[[], bool]:
    """Return a function that tests whether none of the nodes has been healthy in the last `for_s` seconds.

    These seconds begin at this call at the earliest.
    """
    specs = [stage.specs[name] for name in nodes]
    since = stage.clock.monotonic_s()

    def unhealthy() -> bool:
        nonlocal since
        asked = stage.clock.monotonic_s()
        if any(stage.provisioning.is_healthy(spec) for spec in specs):
            since = stage.clock.monotonic_s()
        return asked - since >= for_s

    return unhealthy


def _is_rereplicated(stage: Stage, nodes: list[str]) -> bool:
    """Return whether no segment is held by a dead node of `nodes`, and no segment lacks a copy.

    Both are checked, because a system may notice a node's death only when the node's session ends, 30 s later. If the
    cluster does not answer, the result is False.
    """
    observation = stage.observation
    dead = {name for name in nodes if not stage.runtime.is_alive(name)}
    try:
        segments = observation.find_copies() if dead and isinstance(observation, LocatesCopies) else []
        named = any(dead.intersection(segment.holders) for segment in segments)
        return not named and require(observation, CountsMissingCopies).count_under_replicated() == 0
    except AdminError:
        return False
