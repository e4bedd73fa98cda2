"""Heals each fault at its time or at the end of the load, and waits until the cluster has settled."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from brokerproof.errors import AdminError, BrokerproofError, DeadlineError, NodeError
from brokerproof.experiment.abilities import Ability
from brokerproof.experiment.fault import Fault
from brokerproof.faults.courses import Course, run_courses
from brokerproof.faults.injections import Injections
from brokerproof.faults.registry import FAULT_KINDS
from brokerproof.faults.stage import Stage
from brokerproof.faults.topic_copies import CopiesRecorder
from brokerproof.run.tables import FaultState
from brokerproof.runtimes.protocols import SeesOthersActs
from brokerproof.runtimes.registry import require_supervision
from brokerproof.systems.abilities import CountsMissingCopies, find_abilities

log = logging.getLogger(__name__)

_HEAL_TIMEOUT_S = 120.0
# Seconds between two attempts to heal a fault.
_HEAL_EVERY_S = 1.0
# Seconds between two questions whether the nodes of a healed fault are healthy.
_ASK_EVERY_S = 0.1
# At the end, the healed faults are asked about in turns. One answer may take at most this many seconds.
_ANSWER_S = 10.0


class Healing:
    """Heals faults, and waits until their nodes are healthy and the cluster has settled."""

    def __init__(self, stage: Stage, injections: Injections, copies: CopiesRecorder) -> None:
        self._stage, self._injections, self._copies = stage, injections, copies

    def heal(self, fault: Fault) -> Course[None]:
        """Heal one fault, and wait for its recovery.

        Raises DeadlineError if the recovery takes longer than `_HEAL_TIMEOUT_S` seconds.
        """
        yield from self._begin_healing(fault)
        yield from self._await_recovery(fault, timeout_s=_HEAL_TIMEOUT_S)

    def _begin_healing(self, fault: Fault) -> Course[None]:
        """Begin to heal a fault.

        What makes a wiped node usable again may need nodes of another fault. So after a NodeError it is tried again for
        `_HEAL_TIMEOUT_S` seconds, if there is another fault.
        """
        targets, kind, waits = self._injections.targets[fault.name], FAULT_KINDS[fault.kind], self._stage.waits
        self._injections.record(fault, FaultState.HEALING, "")
        log.info("healing %s: %s", fault.name, ", ".join(targets))
        deadline = self._stage.clock.monotonic_s() + _HEAL_TIMEOUT_S
        while True:
            around = self._injections.make_surroundings(fault)
            try:
                yield from waits.do(partial(kind.heal, around, targets))
            except NodeError as error:
                if len(self._injections.targets) == 1 or self._stage.clock.monotonic_s() > deadline:
                    raise
                log.warning("%s is healed again: %s", fault.name, error)
                yield from waits.wait_until(self._stage.clock.now_us() + int(_HEAL_EVERY_S * 1e6))
            else:
                return

    def _await_recovery(self, fault: Fault, *, timeout_s: float) -> Course[None]:
        find = self._make_question(fault)
        evidence = yield from self._stage.waits.poll(
            find, timeout_s=timeout_s, what=self._name_recovery(fault), every_s=_ASK_EVERY_S
        )
        self._injections.record(fault, FaultState.RECOVERED, evidence)

    def _make_question(self, fault: Fault) -> Callable[[], str | None]:
        """Return a function that finds evidence that the nodes of a healed fault are healthy; None until they are."""
        targets = self._injections.targets[fault.name]
        kind, around = FAULT_KINDS[fault.kind], self._injections.make_surroundings(fault)
        # Another fault may be injected or healed between two questions.
        return lambda: kind.find_recovery(replace(around, kept_down=self._injections.list_kept_down(fault)), targets)

    def _name_recovery(self, fault: Fault) -> str:
        return f"the nodes of {fault.name} to be healthy again: {', '.join(self._injections.targets[fault.name])}"

    def undo(self) -> list[Exception]:
        """Heal all injected faults that have not recovered yet, and wait for their recoveries.

        Returns one error for each fault that could not be healed or did not recover. Faults that are permanent or help
        the cluster to recover are not healed. The last fault of the scenario is healed first, and an exception does
        not end the healing. The wait begins after the last healing, because a node may need nodes of another fault.
        """
        errors: list[Exception] = []
        healing: list[Fault] = []

        def note(fault: Fault, error: Exception) -> None:
            errors.append(error)
            self._stage.problems.append(f"{fault.name} was not undone: {_describe(error)}")

        for fault in reversed(self._stage.run.scenario.faults):
            if (
                fault.permanent
                or self._injections.has_reached(fault.name, FaultState.RECOVERED)
                or fault.name not in self._injections.targets
                or FAULT_KINDS[fault.kind].helps
            ):
                continue
            try:
                run_courses([self._begin_healing(fault)], self._stage.clock)
            except Exception as error:
                note(fault, error)
            else:
                healing.append(fault)
        self._await_recoveries(healing, note)
        return errors

    def _await_recoveries(self, faults: Sequence[Fault], note: Callable[[Fault, Exception], None]) -> None:
        """Wait until the nodes of the healed faults are healthy, at most about `_HEAL_TIMEOUT_S` seconds.

        Calls `note` with each fault whose nodes did not become healthy, and with the error. The faults take turns,
        because a fault's turn may restart its nodes that ended by themselves, and nodes of another fault may need them.
        A turn is one question, so that the time of each recovery is exact.
        """
        clock, questions = self._stage.clock, {fault.name: self._make_question(fault) for fault in faults}
        begun_s, waiting = clock.monotonic_s(), list(faults)
        while waiting:
            is_last = clock.monotonic_s() - begun_s >= _HEAL_TIMEOUT_S
            for fault in list(waiting):
                try:
                    run_courses([self._try_recovery(fault, questions[fault.name])], clock)
                except DeadlineError:
                    # There was no answer in time. The nodes are asked again in the next turn.
                    log.info("no answer from %s", self._name_recovery(fault))
                except Exception as error:
                    note(fault, error)
                    waiting.remove(fault)
                    continue
                if self._injections.has_reached(fault.name, FaultState.RECOVERED):
                    waiting.remove(fault)
                elif is_last:
                    waited_s = clock.monotonic_s() - begun_s
                    note(fault, DeadlineError(f"waited {waited_s:.0f} s for {self._name_recovery(fault)}"))
                    waiting.remove(fault)
            if waiting:
                clock.sleep(_ASK_EVERY_S)

    def _try_recovery(self, fault: Fault, find: Callable[[], str | None]) -> Course[None]:
        """Ask once whether the nodes of a healed fault are healthy, and record it if they are.

        Raises DeadlineError if the answer takes longer than `_ANSWER_S` seconds.
        """
        (evidence,) = yield from self._stage.waits.poll(
            lambda: (find(),), timeout_s=_ANSWER_S, what=self._name_recovery(fault), every_s=_ASK_EVERY_S
        )
        if evidence is not None:
            self._injections.record(fault, FaultState.RECOVERED, evidence)

    def settle(self) -> list[Exception]:
        """Check that service managers and the network between regions still run, and wait until no copy is missing.

        There is no wait if missing copies of the data cannot come back. Finally, record which nodes hold the copies.
        Returns all errors; the list is empty if there are none.
        """
        errors: list[Exception] = []

        def attempt(act: Callable[[], object], problem: str) -> None:
            try:
                act()
            except Exception as error:
                errors.append(error)
                self._stage.problems.append(f"{problem}{_describe(error)}")

        if self._stage.link is not None:
            attempt(self._stage.link.ping, "the network between the regions does not answer any more: ")
        if self._stage.topology.restarted_after_s:
            attempt(
                require_supervision(self._stage.runtime).check_supervision, "nodes have no service manager any more: "
            )
        observation = self._stage.observation
        if isinstance(observation, CountsMissingCopies) and self._expects_repair():
            attempt(lambda: self._await_repair(observation), "")
        attempt(self._copies.record_end, "where the copies are in the end is unknown: ")
        return errors

    def find_disturbance(self) -> list[Exception]:
        """Return a list with one error if someone or something outside the run may have ended a node.

        The list is empty if no node was ended from outside, or if the runtime cannot find that out.
        """
        if isinstance(self._stage.runtime, SeesOthersActs):
            try:
                self._stage.runtime.check_nobody_interfered()
            except Exception as error:
                self._stage.problems.append(_describe(error))
                return [error]
        return []

    def _await_repair(self, observation: CountsMissingCopies) -> None:
        def is_repaired() -> bool:
            try:
                return observation.count_under_replicated() == 0
            except AdminError as error:
                log.info("%s", error)
                return False

        self._stage.clock.wait_until(
            is_repaired,
            timeout_s=self._stage.run.scenario.settle_s,
            what="the under-replicated segments to come to zero",
            every_s=0.5,
        )

    def _expects_repair(self) -> bool:
        """Return whether missing copies can come back: the system makes new copies, or no fault keeps nodes down."""
        repairs = Ability.REPAIR in find_abilities(self._stage.system)
        return repairs or not self._injections.list_targets_in_force()


def _describe(error: Exception) -> str:
    """Return an error's message, with its type unless it is a BrokerproofError."""
    return str(error) if isinstance(error, BrokerproofError) else f"{type(error).__name__}: {error}"
