"""Runs a scenario's timeline of faults against a loaded cluster, and proves that each fault was undone.

Each fault is a course of its own, so its time depends on no other fault. It waits neither for another fault's effect
nor for another fault's recovery, unless the scenario asks for that with `when`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any

import psutil

from brokerproof.clock import SYSTEM_CLOCK, Clock
from brokerproof.errors import AdminError, BrokerproofError, DeadlineError, RunError
from brokerproof.experiment.abilities import Ability
from brokerproof.experiment.fault import Fault, When
from brokerproof.experiment.scenario import Phase
from brokerproof.faults.courses import Course, CourseWaits, run_courses
from brokerproof.faults.kind import Surroundings
from brokerproof.faults.registry import FAULT_KINDS, list_harmful_faults
from brokerproof.faults.targets import resolve_targets
from brokerproof.faults.warm_up import STEADY_SHARE, WarmUp
from brokerproof.network import Network
from brokerproof.run.directory import Run
from brokerproof.run.live_status import read_every_live_status
from brokerproof.run.records import (
    EarlyEnd,
    FaultEffective,
    FaultsUndone,
    FaultTargets,
    LoadEnd,
    PhaseTimes,
    StepProblem,
    read_record,
    write_record,
)
from brokerproof.run.tables import FaultState
from brokerproof.runtimes.protocols import Runtime, SeesOthersActs
from brokerproof.runtimes.registry import require_supervision
from brokerproof.systems.protocols import Administration, Observation, Provisioning, SegmentCopies
from brokerproof.systems.registry import find_system, name_topic
from brokerproof.systems.roles import list_nodes_that, serves, stores

log = logging.getLogger(__name__)

_EFFECT_TIMEOUT_S, _HEAL_TIMEOUT_S, _WARM_UP_TIMEOUT_S = 60.0, 120.0, 180.0
# Seconds of a turn at the end, in which a fault that is undone waits for its nodes to be healthy.
_TURN_S = 10.0
# Seconds to wait for an answer about who owns or holds the topic. After the first number, the targets that were known
# last are used. If none were ever known, the fault is given up after the second number.
_TARGETS_PATIENCE_S, _TARGETS_TIMEOUT_S = 5.0, 60.0
# Seconds before a fault at which the places of all copies are asked for. The answer takes up to 12 s while 2 cores also
# carry the load.
_COPIES_LEAD_S = 15.0
# An injection or healing begins to act within this many seconds of its time.
_ACT_S = 1.0
# Seconds that injections and healings under way have to end after the timeline failed, before they are undone. A
# graceful stop takes up to 30 s.
_BEGUN_TIMEOUT_S = 40.0


@dataclass(frozen=True, kw_only=True)
class Copies:
    """The copies of every segment of the topic. `at` is the moment of the question, so the answer is not older."""

    segments: Sequence[SegmentCopies]
    at: int


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
        pool: Executor | None = None,
        measure_utilization: Callable[[], float] = psutil.cpu_percent,
    ) -> None:
        """`link` is the network between the regions; None if the topology has no links. `pool` runs slow work.

        `measure_utilization` returns how busy this machine's processors were since the last call, in percent.
        """
        self.run, self.scenario, self.topic = run, run.scenario, name_topic(run)
        self.provisioning, self.administration, self.observation = provisioning, administration, observation
        self.runtime, self.link = runtime, link
        system = find_system(run.topology)
        self.specs, self.roles, self.abilities = provisioning.specs(), system.roles, system.abilities
        self.show, self.clock, self._measure_utilization = show, clock, measure_utilization
        # Each fault does one thing at a time, and may also wait for the copies before it.
        self._pool = pool or ThreadPoolExecutor(max_workers=2 * len(self.scenario.faults) + 2)
        self._waits = CourseWaits(clock, self._pool)
        self.problems: list[str] = []
        self._injected: dict[str, list[str]] = {}
        self._effective: set[str] = set()
        self._recovered: set[str] = set()
        # Faults whose healing has begun. They keep no node down any more, even if it is not healthy yet. Otherwise two
        # faults that are healed at about the same time would each leave the node's start to the other.
        self._healed: set[str] = set()
        # {seconds of a fault's injection: the copies before it}
        self._copies: dict[float, Future[Copies]] = {}
        # {fault: (the targets that were known last, when they were known)}
        self._known: dict[str, tuple[list[str], int]] = {}

    def execute(self) -> None:
        """Wait until the load is steady, inject and heal the faults on time, and wait until the cluster has settled.

        state/timeline.json is written once the times of the phases are known, because the load ends by them. If an
        error occurs before the undo, state/early_end.json makes load and consumers end. In every case the faults are
        undone and state/break_it.json is written. Then the first error is raised.
        """
        undone, errors = False, list[Exception]()
        try:
            try:
                self._wait_until_steady()
                run_courses(
                    [self._show_phases(), self._watch_load(), *map(self._run, self.scenario.faults)], self.clock
                )
                self.show(phase="settling")
            except BaseException as error:
                self._end_early(error)
                raise
            finally:
                unproven = self._undo()
                undone = not unproven
            errors += [error for error in unproven if not isinstance(error, BrokerproofError)]
            errors += [error for error in self._settle() if not isinstance(error, DeadlineError | AdminError)]
        finally:
            self._pool.shutdown(wait=False, cancel_futures=True)
            disturbance = self._find_disturbance()
            errors += disturbance
            problems = tuple(self.problems)
            write_record(
                self.run,
                FaultsUndone(undone=undone, problems=problems, undisturbed=not disturbance, at=self.clock.now_us()),
            )
        if errors:
            raise errors[0]

    def _end_early(self, error: BaseException) -> None:
        """Make load and consumers end. Wait for injections and healings under way, which undoing must not overtake."""
        self.problems.append(f"{type(error).__name__}: {error}")
        write_record(self.run, EarlyEnd(why=f"break_it failed: {error}", at=self.clock.now_us()))
        wait(self._waits.unfinished, timeout=_BEGUN_TIMEOUT_S)

    def _wait_until_steady(self) -> None:
        self.show(phase="warm-up")
        workload = self.scenario.workload
        target = workload.target_rate * STEADY_SHARE
        warm_up = WarmUp(target, self.clock.monotonic_s(), max_pending=workload.client.max_pending)

        def steady() -> bool:
            self._require_load("before the rate was held")
            try:
                count = self.observation.count_published()
            except AdminError:
                return False  # its first producer creates the topic
            pending = [each.get("pending", 0) for each in read_every_live_status(self.run).values()]
            rate = warm_up.add(
                count, self.clock.monotonic_s(), self._measure_utilization(), pending=max(pending, default=0)
            )
            if rate is not None:
                self.show(text=f"{rate:,.0f} of {target:,.0f} messages/s")
            if warm_up.has_stalled:
                raise DeadlineError(warm_up.describe_shortfall())
            return warm_up.is_steady

        try:
            self.clock.wait_until(steady, timeout_s=_WARM_UP_TIMEOUT_S, what="the target rate", every_s=1.0)
        except DeadlineError:
            raise DeadlineError(warm_up.describe_shortfall()) from None
        self.show(text="")
        start, phases = self.clock.now_us(), self.scenario.phases
        self._impact_at = start + int(phases.steady_s * 1e6)
        self._recovery_at = self._impact_at + int(phases.impact_s * 1e6)
        self._ends_at = self._recovery_at + int(phases.recovery_s * 1e6)
        times = PhaseTimes(
            steady_at=start, impact_at=self._impact_at, recovery_at=self._recovery_at, ends_at=self._ends_at
        )
        write_record(self.run, times)
        self.show(phase=Phase.STEADY)

    def _require_load(self, when: str) -> None:
        """Raises RunError if the load has ended, because faults would then meet no new messages."""
        if (failed := read_record(self.run, StepProblem, "load")) is not None:
            raise RunError(f"the load failed {when}: {failed.problem}")
        if (ended := read_record(self.run, LoadEnd)) is not None:
            raise RunError(f"the load ended {when}: {ended.why or 'its record gives no reason'}")

    def _show_phases(self) -> Course[None]:
        for phase, at in {Phase.IMPACT: self._impact_at, Phase.RECOVERY: self._recovery_at}.items():
            yield from self._waits.wait_until(at)
            self.show(phase=phase)
        yield from self._waits.wait_until(self._ends_at)

    def _watch_load(self) -> Course[None]:
        second = int(1e6)
        for at in range(self._impact_at, self._ends_at - second, second):
            yield from self._waits.wait_until(at)
            self._require_load("before its time")

    def _run(self, fault: Fault) -> Course[None]:
        """Take one fault from its injection to its recovery; only to its effect if it has no time of healing."""
        at = self._impact_at + int(fault.at_s * 1e6)
        yield from self._remember_targets(fault)
        yield from self._waits.wait_until(self._find_lead(fault))
        copies = self._begin_copies(fault)
        yield from self._remember_targets(fault)
        yield from self._waits.wait_until(at)
        if fault.when is not None:
            yield from self._await_condition(fault, fault.when)
            copies = self._ask_copies()
            patience_at = self.clock.now_us() + int(_COPIES_LEAD_S * 1e6)
            yield lambda: copies.done() or self.clock.now_us() >= patience_at
        targets = yield from self._find_targets(fault)
        self._keep_copies(fault, copies)
        heal_at = None if fault.heal_at_s is None else self._impact_at + int(fault.heal_at_s * 1e6)
        yield from self._inject(fault, targets, heal_at)
        if heal_at is not None:
            yield from self._waits.wait_until(heal_at)
            try:
                yield from self._heal(fault)
            except DeadlineError as error:
                # The cluster did not recover in time. That is a result and not an error, so the other faults go on.
                log.warning("%s", error)

    def _find_lead(self, fault: Fault) -> int:
        """Return when to ask where the copies are before a fault: early enough, but after earlier events have acted."""
        others = [one for one in self.scenario.faults if one is not fault]
        events = [at for one in others for at in (one.at_s, one.heal_at_s) if at is not None and at < fault.at_s]
        earliest = max([fault.at_s - _COPIES_LEAD_S, *(at + _ACT_S for at in events)])
        return self._impact_at + int(min(earliest, fault.at_s) * 1e6)

    def _begin_copies(self, fault: Fault) -> Future[Copies]:
        """Ask for the copies before a fault, once for all faults of the same time."""
        if fault.at_s not in self._copies:
            self._copies[fault.at_s] = self._ask_copies()
        return self._copies[fault.at_s]

    def _ask_copies(self) -> Future[Copies]:
        silent = self._list_silent_clusters()
        return self._waits.begin(lambda: self._find_copies(without=silent))

    def _keep_copies(self, fault: Fault, copies: Future[Copies]) -> None:
        """Record where the copies were before a fault. A later answer is not used: the fault may have changed it."""
        if not copies.done():
            self.problems.append(f"where the copies were before {fault.name} was not known in time and is not recorded")
            return
        try:
            self._record_copies(f"before {fault.name}", copies.result())
        except AdminError as error:
            self.problems.append(f"where the copies were before {fault.name} is unknown: {error}")

    def _remember_targets(self, fault: Fault) -> Course[None]:
        """Note the targets that a fault would have now, in case no node answers when it is due."""
        if fault.targets.now is not None:
            yield from self._waits.do(lambda: self._ask_targets(fault))

    def _ask_targets(self, fault: Fault) -> str | None:
        """Note the targets of a fault as they are now. Returns None, or the reason if there are none."""
        try:
            targets = resolve_targets(fault.targets, self.run.topology, self.observation)
        except (AdminError, RunError) as error:
            return str(error)
        self._known[fault.name] = targets, self.clock.now_us()
        return None

    def _find_targets(self, fault: Fault) -> Course[list[str]]:
        if fault.targets.now is None:
            return resolve_targets(fault.targets, self.run.topology, self.observation)
        asked_at, why = self.clock.now_us(), ["nobody answered"]

        def find() -> list[str] | None:
            if (reason := self._ask_targets(fault)) is not None:
                why[:] = [reason]
            targets, known_at = self._known.get(fault.name, (None, 0))
            patient_until = asked_at + _TARGETS_PATIENCE_S * 1e6
            return targets if known_at >= asked_at or self.clock.now_us() > patient_until else None

        what = f"the targets of {fault.name}"
        try:
            targets = yield from self._waits.poll(find, timeout_s=_TARGETS_TIMEOUT_S, what=what, every_s=0.25)
        except DeadlineError as error:
            raise DeadlineError(f"{error}: {why[0]}") from None
        known_at = self._known[fault.name][1]
        if known_at < asked_at:
            known = FaultTargets(
                fault=fault.name, targets=tuple(targets), known_at=known_at, why=why[0], at=self.clock.now_us()
            )
            write_record(self.run, known)
            self.problems.append(
                f"nobody could tell the targets of {fault.name} when it was due ({why[0]}); "
                f"it was done to those that were known {known.age_s:.0f} s before"
            )
        return targets

    def _inject(self, fault: Fault, targets: list[str], heal_at: int | None) -> Course[None]:
        kind, around = FAULT_KINDS[fault.kind], self._make_surroundings(fault)
        self._injected[fault.name] = targets
        selected = fault.model_dump(mode="json", include={"targets", "link"}, exclude_defaults=True)
        self._record(fault, targets, FaultState.INJECTING, json.dumps(selected))
        log.info("injecting %s: %s %s", fault.name, fault.kind, ", ".join(targets))
        yield from self._waits.do(lambda: kind.inject(around, targets))
        timeout_s, until = _EFFECT_TIMEOUT_S, ""
        if heal_at is not None and (left_s := (heal_at - self.clock.now_us()) / 1e6) > 0:
            timeout_s, until = min(timeout_s, left_s), ", which is healed then" if left_s < timeout_s else ""
        evidence = yield from self._waits.poll(
            lambda: kind.find_evidence(around, targets),
            timeout_s=timeout_s,
            what=f"the effect of {fault.name} on {', '.join(targets)}{until}",
            every_s=0.01,
        )
        # Clients read this record if the scenario makes them react to the fault.
        write_record(self.run, FaultEffective(fault=fault.name, at=self.clock.now_us()))
        self._record(fault, targets, FaultState.EFFECTIVE, evidence)
        self._effective.add(fault.name)

    def _list_silent_clusters(self) -> list[str]:
        """Return the clusters that cannot answer, because all their serving or all their storing nodes are down."""
        standing_by = {name for name, node in self.run.topology.nodes.items() if node.standby}
        down = {node for nodes in self._list_targets_in_force() for node in nodes}
        down |= {name for name in standing_by if not self.runtime.is_alive(name)}
        return [
            name
            for name in self.run.topology.clusters
            if any(down.issuperset(list_nodes_that(trait, self.run.topology, name)) for trait in (serves, stores))
        ]

    def _await_condition(self, fault: Fault, when: When) -> Course[None]:
        condition, earlier = when.earlier_fault
        log.info("%s waits until %s is %s", fault.name, earlier, condition)
        late_at = self.clock.now_us() + int(when.within_s * 1e6)
        yield lambda: earlier in self._effective or self.clock.now_us() >= late_at
        if earlier not in self._effective:
            raise DeadlineError(f"waited {when.within_s:.0f} s for {earlier} to take effect, before {fault.name}")
        if when.for_s is not None:
            yield from self._waits.poll(
                self._make_unhealthy_condition(earlier, when.for_s),
                timeout_s=when.within_s,
                what=f"the nodes of {earlier} to fail their health checks for {when.for_s:g} s, before {fault.name}",
                every_s=0.25,
            )
            return
        yield from self._waits.poll(
            lambda: self._is_rereplicated(earlier),
            timeout_s=when.within_s,
            what=f"the data of {earlier} to be replicated again, before {fault.name}",
            every_s=0.5,
        )

    def _make_unhealthy_condition(self, earlier: str, for_s: float) -> Callable[[], bool]:
        """Return the condition that all nodes of an earlier fault have been unhealthy for `for_s` seconds."""
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
        """Return whether no segment has a dead node of an earlier fault among its holders, and no segment lacks a copy.

        It checks both, because a system may notice a dead node only when its session ends, 30 s later.
        """
        dead = {name for name in self._injected[earlier] if not self.runtime.is_alive(name)}
        try:
            segments = self.observation.find_copies() if dead and Ability.COPIES in self.abilities else []
            named = any(dead.intersection(segment.holders) for segment in segments)
            return not named and self.observation.count_under_replicated() == 0
        except AdminError:
            return False

    def _heal(self, fault: Fault) -> Course[None]:
        yield from self._begin_healing(fault)
        yield from self._await_recovery(fault, timeout_s=_HEAL_TIMEOUT_S)

    def _begin_healing(self, fault: Fault) -> Course[None]:
        targets = self._injected[fault.name]
        self._healed.add(fault.name)
        kind, around = FAULT_KINDS[fault.kind], self._make_surroundings(fault)
        self._record(fault, targets, FaultState.HEALING, "")
        log.info("healing %s: %s", fault.name, ", ".join(targets))
        yield from self._waits.do(lambda: kind.heal(around, targets))

    def _await_recovery(self, fault: Fault, *, timeout_s: float) -> Course[None]:
        targets = self._injected[fault.name]
        kind, around = FAULT_KINDS[fault.kind], self._make_surroundings(fault)
        evidence = yield from self._waits.poll(
            lambda: kind.find_recovery(
                # Another fault may have been injected or healed meanwhile.
                replace(around, kept_down=self._list_kept_down(fault)),
                targets,
            ),
            timeout_s=timeout_s,
            what=self._name_recovery(fault),
            every_s=0.1,
        )
        self._record(fault, targets, FaultState.RECOVERED, evidence)
        self._recovered.add(fault.name)

    def _name_recovery(self, fault: Fault) -> str:
        return f"the nodes of {fault.name} to be healthy again: {', '.join(self._injected[fault.name])}"

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
            kept_down=self._list_kept_down(fault),
            managed=frozenset(self.run.topology.restarted_after_s),
        )

    def _list_kept_down(self, fault: Fault) -> frozenset[str]:
        """Return the nodes that other faults keep down."""
        others = self._list_targets_in_force(fault.name, *self._healed)
        return frozenset(name for names in others for name in names)

    def _list_targets_in_force(self, *but: str) -> list[list[str]]:
        """Return the targets of each fault that keeps nodes down and is not healed, except the faults `but`."""
        kinds = {fault.name: FAULT_KINDS[fault.kind] for fault in self.scenario.faults}
        harmful = {name for name in list_harmful_faults(self.scenario) if not kinds[name].leaves_nodes}
        harm = harmful - {*but, *self._recovered}
        return [targets for name, targets in self._injected.items() if name in harm]

    def _undo(self) -> list[Exception]:
        """Heal the injected faults that are not permanent, the last one first. Returns the errors of faults not undone.

        All faults are healed before it waits for any recovery, because a node may need nodes of another fault, for
        example for a majority. After an exception of any type, the other faults are still healed.
        """
        errors: list[Exception] = []
        healing: list[Fault] = []

        def note(fault: Fault, error: Exception) -> None:
            errors.append(error)
            self.problems.append(f"{fault.name} was not undone: {_describe(error)}")

        for fault in reversed(self.scenario.faults):
            if (
                fault.permanent
                or fault.name in self._recovered
                or fault.name not in self._injected
                or FAULT_KINDS[fault.kind].helps
            ):
                continue
            try:
                run_courses([self._begin_healing(fault)], self.clock)
            except Exception as error:
                note(fault, error)
            else:
                healing.append(fault)
        self._await_recoveries(healing, note)
        return errors

    def _await_recoveries(self, faults: Sequence[Fault], note: Callable[[Fault, Exception], None]) -> None:
        """Wait until the nodes of healed faults are healthy, and call `note` for each fault whose nodes are not.

        The faults take turns. A turn also restarts nodes of its fault that ended by themselves, and nodes of another
        fault may need these.
        """
        begun_s, waiting = self.clock.monotonic_s(), list(faults)
        while waiting:
            passed_s = self.clock.monotonic_s() - begun_s
            is_last = passed_s + _TURN_S * len(waiting) >= _HEAL_TIMEOUT_S
            for fault in list(waiting):
                try:
                    run_courses([self._await_recovery(fault, timeout_s=_TURN_S)], self.clock)
                except DeadlineError:
                    if not is_last:
                        continue
                    waited_s = self.clock.monotonic_s() - begun_s
                    note(fault, DeadlineError(f"waited {waited_s:.0f} s for {self._name_recovery(fault)}"))
                except Exception as error:
                    note(fault, error)
                waiting.remove(fault)

    def _settle(self) -> list[Exception]:
        """Wait until no copy is missing, if missing copies can come back, and record where the copies are.

        It also checks that the network between the regions and the service manager still run. Returns all errors.
        """
        errors: list[Exception] = []

        def attempt(act: Callable[[], object], problem: str) -> None:
            try:
                act()
            except Exception as error:
                errors.append(error)
                self.problems.append(f"{problem}{_describe(error)}")

        if self.link is not None:
            attempt(self.link.ping, "the network between the regions does not answer any more: ")
        if self.run.topology.restarted_after_s:
            attempt(require_supervision(self.runtime).check_supervision, "nodes have no service manager any more: ")
        if self._expects_repair():
            attempt(self._await_repair, "")
        attempt(lambda: self._record_copies("end", self._find_copies()), "where the copies are in the end is unknown: ")
        return errors

    def _find_disturbance(self) -> list[Exception]:
        """Return [error] if a node may have been ended from outside the run; [] if not, or if that is unknown."""
        if isinstance(self.runtime, SeesOthersActs):
            try:
                self.runtime.check_nobody_interfered()
            except Exception as error:
                self.problems.append(_describe(error))
                return [error]
        return []

    def _await_repair(self) -> None:
        def is_repaired() -> bool:
            try:
                return self.observation.count_under_replicated() == 0
            except AdminError as error:
                log.info("%s", error)
                return False

        self.clock.wait_until(
            is_repaired,
            timeout_s=self.scenario.settle_s,
            what="the under-replicated segments to come to zero",
            every_s=0.5,
        )

    def _expects_repair(self) -> bool:
        """Return whether missing copies come back, because the system makes new ones or no fault keeps nodes down."""
        if Ability.REPAIR in self.abilities:
            return True
        return Ability.UNDER_REPLICATION in self.abilities and not self._list_targets_in_force()

    def _find_copies(self, without: Collection[str] = ()) -> Copies:
        """Return the copies in every cluster except `without`. Empty if the system lacks `Ability.COPIES`."""
        at = self.clock.now_us()
        segments = self.observation.find_copies(without=without) if Ability.COPIES in self.abilities else []
        return Copies(segments=segments, at=at)

    def _record_copies(self, moment: str, copies: Copies) -> None:
        nodes = self.run.topology.nodes
        rows = [
            {
                "run_id": self.run.run_id,
                "cluster": segment.cluster,
                "topic": self.topic,
                "partition": segment.partition,
                "at": copies.at,
                "moment": moment,
                "ledger_id": segment.segment,
                "first_entry": segment.first_offset,
                "state": segment.state,
                "bookies": list(segment.holders),
                "regions": sorted({nodes[name].region for name in segment.in_sync if name in nodes}),
                "regions_required": list(segment.regions_required),
            }
            for segment in copies.segments
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


def _describe(error: Exception) -> str:
    """Return an error's message; if it is not a BrokerproofError, with its type."""
    return str(error) if isinstance(error, BrokerproofError) else f"{type(error).__name__}: {error}"
