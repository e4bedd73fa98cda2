"""Runs a scenario's timeline of faults against a loaded cluster, and proves that each fault was undone.

Each fault runs as a course of its own (see courses.py), so no fault delays another. A fault waits for the effect or
recovery of another fault only if the scenario asks for that with `when`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor, wait

import psutil

from brokerproof.clock import SYSTEM_CLOCK, Clock
from brokerproof.errors import AdminError, BrokerproofError, DeadlineError
from brokerproof.experiment.fault import Fault, When
from brokerproof.experiment.scenario import Phase
from brokerproof.experiment.workload import MAX_RATE
from brokerproof.faults.courses import Course, CourseWaits, run_courses
from brokerproof.faults.healing import Healing
from brokerproof.faults.injections import Injections
from brokerproof.faults.kind import Surroundings
from brokerproof.faults.rate_search import search_rate
from brokerproof.faults.registry import FAULT_KINDS
from brokerproof.faults.stage import Stage
from brokerproof.faults.steady_load import await_consumers, await_steady_load, require_load
from brokerproof.faults.targets import TargetFinder
from brokerproof.faults.topic_copies import LEAD_S, CopiesRecorder
from brokerproof.network import LinkClient
from brokerproof.run.directory import Run
from brokerproof.run.records import EarlyEnd, FaultEffective, FaultsUndone, PhaseTimes, write_record
from brokerproof.run.tables import FaultState
from brokerproof.runtimes.protocols import Runtime
from brokerproof.systems.abilities import CountsMissingCopies, LocatesCopies, require
from brokerproof.systems.protocols import Administration, Observation, Provisioning

log = logging.getLogger(__name__)

_EFFECT_TIMEOUT_S = 60.0
# An injection or healing begins to act within this many seconds of its time.
_ACT_S = 1.0
# By how much the impact phase is lengthened at a time.
_LENGTHEN_S = 5.0
# The load is told at least this long before its end that it is to go on. Producers ask four times a second.
_NOTICE_S = 3.0
# After the timeline failed, injections and healings under way have this many seconds to end before the undo begins. A
# graceful stop takes up to 30 s.
_BEGUN_TIMEOUT_S = 40.0


class Timeline:
    def __init__(
        self,
        run: Run,
        *,
        provisioning: Provisioning,
        administration: Administration,
        observation: Observation,
        runtime: Runtime,
        show: Callable[..., None],
        link: LinkClient | None = None,
        clock: Clock = SYSTEM_CLOCK,
        pool: Executor | None = None,
        measure_utilization: Callable[[], float] = psutil.cpu_percent,
    ) -> None:
        """`link` is the network between regions; None if the topology has no links. `pool` runs slow work on threads.

        `show` writes the live status. `measure_utilization` returns the utilization of this machine's processors since
        the last call, in percent.
        """
        self._faults = run.scenario.faults
        # A fault needs at most two threads: one for its own work, and one for the copies before it.
        self._pool = pool or ThreadPoolExecutor(max_workers=2 * len(self._faults) + 2)
        self._stage = Stage(
            run=run,
            provisioning=provisioning,
            administration=administration,
            observation=observation,
            runtime=runtime,
            link=link,
            show=show,
            clock=clock,
            waits=CourseWaits(clock, self._pool),
        )
        self._measure_utilization = measure_utilization
        # The faults for whose end the impact phase waits. A wait for a condition has an unknown length.
        self._awaited = {fault.name for fault in self._faults if fault.conditions}
        self._injections = Injections(self._stage)
        self._copies = CopiesRecorder(self._stage, self._injections)
        self._targets = TargetFinder(self._stage, self._injections.list_kept_down)
        self._healing = Healing(self._stage, self._injections, self._copies)

    def execute(self) -> None:
        """Wait until the load is steady, inject and heal the faults on time, and wait until the cluster has settled.

        Once the load is steady, state/phase_times.json tells the load when to end. The impact phase takes longer than
        the scenario says if a fault with `when` has not taken effect by then, or has not recovered although it is
        healed under load. If an error occurs before the phases have ended, state/early_end.json makes load and
        consumers end, and the cluster is not awaited.

        In every case, the injected faults are healed as `Healing.undo` says, state/faults_undone.json lists all
        problems, and the first error is raised. Two kinds of error are only listed: a BrokerproofError while these
        faults are healed, and a DeadlineError or AdminError while the cluster settles.
        """
        stage, undone, errors = self._stage, False, list[Exception]()
        try:
            try:
                self._times = self._await_steady_phase()
                run_courses([self._show_phases(), self._watch_load(), *map(self._run, self._faults)], stage.clock)
                stage.show(phase="settling")
            except BaseException as error:
                self._end_early(error)
                raise
            finally:
                unproven = self._healing.undo()
                undone = not unproven
            errors += [error for error in unproven if not isinstance(error, BrokerproofError)]
            errors += [error for error in self._healing.settle() if not isinstance(error, DeadlineError | AdminError)]
        finally:
            self._pool.shutdown(wait=False, cancel_futures=True)
            disturbance = self._healing.find_disturbance()
            errors += disturbance
            problems = tuple(stage.problems)
            write_record(
                stage.run,
                FaultsUndone(undone=undone, problems=problems, undisturbed=not disturbance, at=stage.clock.now_us()),
            )
        if errors:
            raise errors[0]

    def _end_early(self, error: BaseException) -> None:
        """Make load and consumers end because of `error`, and wait for the injections and healings that are under way.

        Without this wait, an injection could still be under way after all faults are healed.
        """
        stage = self._stage
        stage.problems.append(f"{type(error).__name__}: {error}")
        write_record(stage.run, EarlyEnd(why=f"break_it failed: {error}", at=stage.clock.now_us()))
        wait(stage.waits.unfinished, timeout=_BEGUN_TIMEOUT_S)

    def _await_steady_phase(self) -> PhaseTimes:
        """Wait for the consumers, find the load's rate if necessary, and wait until the load is steady.

        Then record the times of the phases.
        """
        self._stage.show(phase="warm-up")
        self._stage.warm_up()
        await_consumers(self._stage)
        if self._stage.run.scenario.workload.rate == MAX_RATE:
            search_rate(self._stage, self._measure_utilization)
        await_steady_load(self._stage, self._measure_utilization)
        start, phases = self._stage.clock.now_us(), self._stage.run.scenario.phases
        impact_at = start + int(phases.steady_s * 1e6)
        recovery_at = impact_at + int(phases.impact_s * 1e6)
        ends_at = recovery_at + int(phases.recovery_s * 1e6)
        times = PhaseTimes(steady_at=start, impact_at=impact_at, recovery_at=recovery_at, ends_at=ends_at)
        write_record(self._stage.run, times)
        self._stage.show(phase=Phase.STEADY)
        return times

    def _show_phases(self) -> Course[None]:
        waits = self._stage.waits
        yield from waits.wait_until(self._times.impact_at)
        self._stage.show(phase=Phase.IMPACT)
        notice_us = int(max(0.0, _NOTICE_S - self._stage.run.scenario.phases.recovery_s) * 1e6)
        yield from waits.wait_until(self._times.recovery_at - notice_us)
        while self._awaited:
            self._lengthen_impact()
            yield from waits.wait_until(self._times.recovery_at - notice_us)
        yield from waits.wait_until(self._times.recovery_at)
        self._stage.show(phase=Phase.RECOVERY)
        yield from waits.wait_until(self._times.ends_at)

    def _lengthen_impact(self) -> None:
        more_us, times = int(_LENGTHEN_S * 1e6), self._times
        log.info("the impact phase takes %g s longer: %s", _LENGTHEN_S, ", ".join(sorted(self._awaited)))
        later = {"recovery_at": times.recovery_at + more_us, "ends_at": times.ends_at + more_us}
        self._times = times.model_copy(update=later)
        write_record(self._stage.run, self._times)

    def _watch_load(self) -> Course[None]:
        second = int(1e6)
        at = self._times.impact_at
        while at < self._times.ends_at - second:
            yield from self._stage.waits.wait_until(at)
            require_load(self._stage.run, "before its time", ends_at=self._times.ends_at)
            at += second

    def _find_moment(self, at_s: float) -> int:
        """Return the Unix time in microseconds that is `at_s` seconds after the start of the impact phase."""
        return self._times.impact_at + int(at_s * 1e6)

    def _run(self, fault: Fault) -> Course[None]:
        """Record where the copies are before a fault, inject the fault on time, and heal it if it has a heal time."""
        waits = self._stage.waits
        yield from self._targets.remember(fault)
        yield from waits.wait_until(self._find_lead(fault))
        copies = self._copies.begin(fault)
        yield from self._targets.remember(fault)
        yield from waits.wait_until(self._find_moment(fault.at_s))
        if fault.when is not None:
            yield from _await_condition(self._stage, self._injections, fault, fault.when)
            copies = self._copies.ask()
            yield from self._copies.await_answer(copies)
        targets = yield from self._targets.find(fault)
        self._copies.keep(fault, copies)
        heal_at = None if fault.heal_at_s is None else self._find_moment(fault.heal_at_s)
        yield from self._inject(fault, targets, heal_at)
        if fault.heal_after_s is not None:
            heal_at = self._stage.clock.now_us() + int(fault.heal_after_s * 1e6)
        if fault.heal_when is not None:
            yield from _await_condition(self._stage, self._injections, fault, fault.heal_when)
            heal_at = self._stage.clock.now_us()
        if heal_at is not None:
            yield from waits.wait_until(heal_at)
            try:
                yield from self._healing.heal(fault)
            except DeadlineError as error:
                # The cluster did not recover in time. That is a result and not an error, so the other faults go on.
                log.warning("%s", error)
        self._awaited.discard(fault.name)

    def _find_lead(self, fault: Fault) -> int:
        """Return the Unix time in µs at which, before a fault, the cluster is asked where the copies of the data are.

        The time is `LEAD_S` seconds before the fault, but at least `_ACT_S` seconds after the last earlier injection or
        healing of another fault. It is never after the fault's own time.
        """
        others = [one for one in self._faults if one is not fault]
        events = [at for one in others for at in (one.at_s, one.earliest_heal_s) if at is not None and at < fault.at_s]
        earliest = max([fault.at_s - LEAD_S, *(at + _ACT_S for at in events)])
        return self._find_moment(min(earliest, fault.at_s))

    def _inject(self, fault: Fault, targets: list[str], heal_at: int | None) -> Course[None]:
        """Inject a fault, and wait for its effect.

        Raises DeadlineError if there is no effect within `_EFFECT_TIMEOUT_S` seconds or before `heal_at`.
        """
        stage, kind = self._stage, FAULT_KINDS[fault.kind]
        around = self._injections.make_surroundings(fault)
        self._injections.targets[fault.name] = targets
        selected = fault.model_dump(mode="json", include={"targets", "link"}, exclude_defaults=True)
        self._injections.record(fault, FaultState.INJECTING, json.dumps(selected))
        log.info("injecting %s: %s %s", fault.name, fault.kind, ", ".join(targets))
        yield from stage.waits.do(lambda: kind.inject(around, targets))
        timeout_s, until = _EFFECT_TIMEOUT_S, ""
        if heal_at is not None and (left_s := (heal_at - stage.clock.now_us()) / 1e6) > 0:
            timeout_s, until = min(timeout_s, left_s), ", which is healed then" if left_s < timeout_s else ""
        evidence = yield from stage.waits.poll(
            lambda: kind.find_evidence(around, targets),
            timeout_s=timeout_s,
            what=f"the effect of {fault.name} on {', '.join(targets)}{until}",
            every_s=0.01,
        )
        # Clients read this record if the scenario makes them react to the fault.
        write_record(stage.run, FaultEffective(fault=fault.name, at=stage.clock.now_us()))
        self._injections.record(fault, FaultState.EFFECTIVE, evidence)


def _await_condition(stage: Stage, injections: Injections, fault: Fault, when: When) -> Course[None]:
    """Wait until the earlier fault that `when` names has taken effect, and then until the condition in `when` is true.

    If the condition is `healthy`, first wait until the earlier fault was healed and its nodes were healthy.

    Raises DeadlineError if these waits together take longer than `when.within_s` seconds.
    """
    condition, earlier = when.earlier_fault
    log.info("%s waits until %s is %s", fault.name, earlier, condition)
    deadline = stage.clock.monotonic_s() + when.within_s
    earlier_fault = next(one for one in stage.run.scenario.faults if one.name == earlier)
    helps = FAULT_KINDS[earlier_fault.kind].helps
    state = FaultState.RECOVERED if condition == "healthy" and not helps else FaultState.EFFECTIVE
    yield lambda: injections.has_reached(earlier, state) or stage.clock.monotonic_s() >= deadline
    if not injections.has_reached(earlier, state):
        what = "take effect" if state is FaultState.EFFECTIVE else "be healed, with its targets healthy"
        raise DeadlineError(f"waited {when.within_s:.0f} s for {earlier} to {what}, before {fault.name}")
    targets = injections.targets[earlier]
    if when.for_s is not None:
        around = injections.make_surroundings(earlier_fault)
        ask = _make_lasting_condition(stage, around, targets, when.for_s, healthy=condition == "healthy")
        result = "pass" if condition == "healthy" else "fail"
        what, every_s = f"the targets of {earlier} to {result} their health checks for {when.for_s:g} s", 0.25
    else:
        ask = lambda: _is_rereplicated(stage, targets)  # noqa: E731
        what, every_s = f"the data of {earlier} to be replicated again", 0.5
    yield from stage.waits.poll(
        ask,
        timeout_s=max(0, deadline - stage.clock.monotonic_s()),
        what=f"{what}, before {fault.name}, which waits {when.within_s:.3g} s in all",
        every_s=every_s,
    )


def _make_lasting_condition(
    stage: Stage, around: Surroundings, targets: list[str], for_s: float, *, healthy: bool
) -> Callable[[], bool]:
    """Return a function that tests whether every target is `healthy`, true or false, for the last `for_s` seconds.

    The time before the function was made does not count.
    """
    specs = [around.specs[name] for name in targets]
    since = stage.clock.monotonic_s()

    def lasts() -> bool:
        nonlocal since
        asked = stage.clock.monotonic_s()
        if any(around.is_healthy(spec) is not healthy for spec in specs):
            since = stage.clock.monotonic_s()
        return asked - since >= for_s

    return lasts


def _is_rereplicated(stage: Stage, nodes: list[str]) -> bool:
    """Return whether every segment of the topic has all its copies, and no copy is listed on a dead node of `nodes`.

    A dead node's copies may count as present until its session ends after 30 s. If no node answers, the result is
    False.
    """
    observation = stage.observation
    dead = {name for name in nodes if not stage.runtime.is_alive(name)}
    try:
        segments = observation.find_copies() if dead and isinstance(observation, LocatesCopies) else []
        named = any(dead.intersection(segment.holders) for segment in segments)
        return not named and require(observation, CountsMissingCopies).count_under_replicated() == 0
    except AdminError:
        return False
