"""Runs a scenario's timeline of faults against a loaded cluster, and proves that each was undone."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from brokerproof.clock import SYSTEM_CLOCK, Clock
from brokerproof.errors import AdminError, BrokerproofError, DeadlineError, NodeError, RunError
from brokerproof.experiment.abilities import Ability
from brokerproof.experiment.fault import Fault, When
from brokerproof.faults.kind import Surroundings
from brokerproof.faults.registry import FAULT_KINDS, list_harmful_faults
from brokerproof.faults.targets import resolve_targets
from brokerproof.network import Network
from brokerproof.run.directory import Run
from brokerproof.run.records import (
    FaultEffective,
    FaultsUndone,
    PhaseTimes,
    StepProblem,
    read_record,
    write_record,
)
from brokerproof.run.tables import FaultState
from brokerproof.runtimes.protocols import Runtime
from brokerproof.systems.protocols import Administration, Observation, Provisioning
from brokerproof.systems.registry import find_system, name_topic
from brokerproof.systems.roles import list_nodes_that, serves, stores

log = logging.getLogger(__name__)

# The load counts as steady after this many seconds in a row at this share of the target rate.
STEADY_S, STEADY_SHARE = 3, 0.9
_EFFECT_TIMEOUT_S, _HEAL_TIMEOUT_S, _WARM_UP_TIMEOUT_S = 60.0, 120.0, 180.0


class Timeline:
    """One execution of the timeline."""

    def __init__(
        self,
        run: Run,
        *,
        provisioning: Provisioning,
        administration: Administration,
        observation: Observation,
        runtime: Runtime,
        show: Callable[..., None],
        link: Network | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`link` is the run's network, None where its topology has no links."""
        self.run, self.scenario, self.topic = run, run.scenario, name_topic(run)
        self.provisioning, self.administration, self.observation = provisioning, administration, observation
        self.runtime, self.link = runtime, link
        system = find_system(run.topology)
        self.specs, self.roles, self.abilities = provisioning.specs(), system.roles, system.abilities
        self.show, self.clock = show, clock
        self.problems: list[str] = []
        self._injected: dict[str, list[str]] = {}
        self._healed: set[str] = set()

    def execute(self) -> None:
        """Wait for steadiness, inject and heal on time, and wait until the cluster has settled.

        Leaves state/timeline.json as soon as the times are known (the load ends by it) and state/break_it.json at the
        end, whatever happens. Undo always runs. Raises the first error after that.
        """
        try:
            self._wait_until_steady()
            self._run_impact()
            self._sleep_until(self._ends_at)
            self.show(phase="settling")
        except BaseException as error:
            self.problems.append(f"{type(error).__name__}: {error}")
            raise
        finally:
            undone = self._undo()
            try:
                self._settle()
            finally:
                problems = tuple(self.problems)
                write_record(self.run, FaultsUndone(undone=undone, problems=problems, at=self.clock.now_us()))

    def _wait_until_steady(self) -> None:
        self.show(phase="warm-up")
        workload = self.scenario.workload
        target = workload.rate * len(workload.list_homes(self.run.topology)) * STEADY_SHARE
        held: list[float] = []
        last: tuple[float, int] | None = None
        best = 0.0

        def steady() -> bool:
            nonlocal last, best
            if (failed := read_record(self.run, StepProblem, "load")) is not None:
                raise RunError(f"the load failed before the rate was held: {failed.problem}")
            try:
                now, count = self.clock.monotonic_s(), self.observation.count_published()
            except AdminError:
                return False  # the topic is made by its first producer
            if last is not None and count >= last[1]:
                rate = (count - last[1]) / (now - last[0])
                best = max(best, rate)
                held.append(rate)
                if rate < target:
                    held.clear()
            last = (now, count)
            return len(held) >= STEADY_S

        try:
            self.clock.wait_until(steady, timeout_s=_WARM_UP_TIMEOUT_S, what="the target rate", every_s=1.0)
        except DeadlineError:
            raise DeadlineError(
                f"the topic never held {target:.0f} messages/s for {STEADY_S} s in {_WARM_UP_TIMEOUT_S:.0f} s; "
                f"the most was {best:.0f}/s: lower workload.rate, or see the load job's log"
            ) from None
        start, phases = self.clock.now_us(), self.scenario.phases
        self._impact_at = start + int(phases.steady_s * 1e6)
        self._recovery_at = self._impact_at + int(phases.impact_s * 1e6)
        self._ends_at = self._recovery_at + int(phases.recovery_s * 1e6)
        times = PhaseTimes(
            steady_at=start, impact_at=self._impact_at, recovery_at=self._recovery_at, ends_at=self._ends_at
        )
        write_record(self.run, times)
        self.show(phase="steady")

    def _run_impact(self) -> None:
        self._sleep_until(self._impact_at)
        self.show(phase="impact")
        events: list[tuple[float, int, Callable[[], None]]] = []
        for order, fault in enumerate(self.scenario.faults):
            events.append((fault.at_s, order, partial(self._inject, fault)))
            if fault.heal_at_s is not None:
                events.append((fault.heal_at_s, order, partial(self._heal, fault)))
        for at_s, _, act in sorted(events, key=lambda event: event[:2]):
            self._sleep_until(self._impact_at + int(at_s * 1e6))
            act()
        self._sleep_until(self._recovery_at)
        self.show(phase="recovery")

    def _inject(self, fault: Fault) -> None:
        if fault.when is not None:
            self._await_condition(fault, fault.when)
        self._record_copies(f"before {fault.name}", without=self._list_silent_clusters())
        kind, around = FAULT_KINDS[fault.kind], self._make_surroundings(fault)
        targets = resolve_targets(fault.targets, self.run.topology, self.observation)
        self._injected[fault.name] = targets
        self._record(
            fault,
            targets,
            FaultState.INJECTING,
            json.dumps(fault.model_dump(mode="json", include={"targets", "link"}, exclude_defaults=True)),
        )
        log.info("injecting %s: %s %s", fault.name, fault.kind, ", ".join(targets))
        kind.inject(around, targets)
        evidence = self.clock.wait_until(
            lambda: kind.find_evidence(around, targets),
            timeout_s=_EFFECT_TIMEOUT_S,
            what=f"the effect of {fault.name} on {', '.join(targets)}",
            every_s=0.01,
        )
        # For clients that the scenario lets react to it.
        write_record(self.run, FaultEffective(fault=fault.name, at=self.clock.now_us()))
        self._record(fault, targets, FaultState.EFFECTIVE, evidence)

    def _list_silent_clusters(self) -> list[str]:
        """The clusters that cannot answer, because all their serving nodes or all their storing nodes are down."""
        standing_by = {name for name, node in self.run.topology.nodes.items() if node.standby}
        down = {node for nodes in self._list_targets_in_force() for node in nodes}
        down |= {name for name in standing_by if not self.runtime.is_alive(name)}
        return [
            name
            for name in self.run.topology.clusters
            if any(down.issuperset(list_nodes_that(trait, self.run.topology, name)) for trait in (serves, stores))
        ]

    def _await_condition(self, fault: Fault, when: When) -> None:
        condition, earlier = when.earlier_fault
        log.info("%s waits until %s is %s", fault.name, earlier, condition)
        if when.for_s is not None:
            self.clock.wait_until(
                self._make_unhealthy_condition(earlier, when.for_s),
                timeout_s=when.within_s,
                what=f"the nodes of {earlier} to fail their health checks for {when.for_s:g} s, before {fault.name}",
                every_s=0.25,
            )
            return
        self.clock.wait_until(
            lambda: self._is_rereplicated(earlier),
            timeout_s=when.within_s,
            what=f"the data of {earlier} to be replicated again, before {fault.name}",
            every_s=0.5,
        )

    def _make_unhealthy_condition(self, earlier: str, for_s: float) -> Callable[[], bool]:
        """The condition that no node of an earlier fault has been healthy for `for_s` seconds."""
        specs = [self.specs[name] for name in self._injected[earlier]]
        since = self.clock.monotonic_s()

        def unhealthy() -> bool:
            nonlocal since
            asked = self.clock.monotonic_s()
            if any(self.provisioning.is_healthy(spec) for spec in specs):
                since = self.clock.monotonic_s()
            return asked - since >= for_s

        return unhealthy

    def _is_rereplicated(self, earlier: str) -> bool:
        """Whether no segment names a node that an earlier fault keeps down, and none waits for a copy.

        It checks both, because a system may notice a dead node only when its session ends, 30 s later.
        """
        dead = {name for name in self._injected[earlier] if not self.runtime.is_alive(name)}
        segments = self.observation.find_copies() if dead and Ability.COPIES in self.abilities else []
        named = any(dead.intersection(segment.holders) for segment in segments)
        return not named and self.observation.count_under_replicated() == 0

    def _heal(self, fault: Fault) -> None:
        targets = self._injected[fault.name]
        kind, around = FAULT_KINDS[fault.kind], self._make_surroundings(fault)
        self._record(fault, targets, FaultState.HEALING, "")
        log.info("healing %s: %s", fault.name, ", ".join(targets))
        kind.heal(around, targets)
        evidence = self.clock.wait_until(
            lambda: kind.find_recovery(around, targets),
            timeout_s=_HEAL_TIMEOUT_S,
            what=f"the nodes of {fault.name} to be healthy again: {', '.join(targets)}",
            every_s=0.1,
        )
        self._record(fault, targets, FaultState.RECOVERED, evidence)
        self._healed.add(fault.name)

    def _make_surroundings(self, fault: Fault) -> Surroundings:
        return Surroundings(
            provisioning=self.provisioning,
            administration=self.administration,
            observation=self.observation,
            runtime=self.runtime,
            specs=self.specs,
            roles=self.roles,
            link=self.link,
            fault=fault,
            kept_down=frozenset(name for names in self._list_targets_in_force(fault.name) for name in names),
        )

    def _list_targets_in_force(self, but: str = "") -> list[list[str]]:
        """The targets of each harmful fault that is not healed, except the fault `but`."""
        harm = {*list_harmful_faults(self.scenario)} - {but, *self._healed}
        return [targets for name, targets in self._injected.items() if name in harm]

    def _undo(self) -> bool:
        """Heal the injected faults that are not permanent, the last one first. Returns whether all of it is proven."""
        undone = True
        for fault in reversed(self.scenario.faults):
            if (
                fault.permanent
                or fault.name in self._healed
                or fault.name not in self._injected
                or FAULT_KINDS[fault.kind].helps
            ):
                continue
            try:
                self._heal(fault)
            except BrokerproofError as error:
                undone = False
                self.problems.append(f"{fault.name} was not undone: {error}")
        return undone

    def _settle(self) -> None:
        """Wait until no copy is missing, if missing copies can come back, and record where the copies are."""
        if self.link is not None:
            try:
                self.link.ping()
            except NodeError as error:
                self.problems.append(f"the network between the regions does not answer any more: {error}")
        try:
            if self._expects_repair():
                self.clock.wait_until(
                    lambda: self.observation.count_under_replicated() == 0,
                    timeout_s=self.scenario.settle_s,
                    what="the under-replicated segments to come to zero",
                    every_s=0.5,
                )
        except (DeadlineError, AdminError) as error:
            self.problems.append(str(error))
        try:
            self._record_copies("end")
        except AdminError as error:
            self.problems.append(f"where the copies are in the end is unknown: {error}")

    def _expects_repair(self) -> bool:
        """Whether missing copies come back, because the system makes new ones or because the nodes returned."""
        if Ability.REPAIR in self.abilities:
            return True
        return Ability.UNDER_REPLICATION in self.abilities and not self._list_targets_in_force()

    def _sleep_until(self, moment_us: int) -> None:
        """Sleep until a time of the timeline. A fault that takes too long delays everything after it."""
        while (left := moment_us - self.clock.now_us()) > 0:
            self.clock.sleep(min(left / 1e6, 0.5))

    def _record_copies(self, moment: str, without: Collection[str] = ()) -> None:
        """Record where every segment of the topic is, in every cluster except `without`, if the system can tell."""
        if Ability.COPIES not in self.abilities:
            return
        at, nodes = self.clock.now_us(), self.run.topology.nodes
        rows = [
            {
                "run_id": self.run.run_id,
                "cluster": segment.cluster,
                "topic": self.topic,
                "partition": segment.partition,
                "at": at,
                "moment": moment,
                "ledger_id": segment.segment,
                "first_entry": segment.first_offset,
                "state": segment.state,
                "bookies": list(segment.holders),
                "regions": sorted({nodes[name].region for name in segment.in_sync if name in nodes}),
                "regions_required": list(segment.regions_required),
            }
            for segment in self.observation.find_copies(without=without)
        ]
        self.run.append("ledgers", rows)

    def _record(self, fault: Fault, targets: list[str], state: FaultState, evidence: str) -> None:
        row: dict[str, Any] = {
            "run_id": self.run.run_id,
            "fault": fault.name,
            "kind": fault.kind,
            "targets": targets,
            "state": state.value,
            "at": self.clock.now_us(),
            "evidence": evidence,
        }
        self.run.append("faults", [row])
        self.show(fault={"fault": fault.name, "kind": fault.kind, "targets": targets, "state": state.value})
