"""Explains what a run of the log server came to, by what the faults did to it, or says what nobody can explain.

The log server acknowledges a message when a majority of the nodes has it, and elects only a node that has all such
messages. So as long as a majority of the disks was never destroyed, no acknowledged message may be lost. None may ever
be stored twice or in another order. Without a majority of nodes it stands still, which is no anomaly: acks stay away, a
subscription does not drain, a log cannot be read. That is all that a run may come to, except `passed`:

* `failed`, where a bound does not hold for a value that the run measured. No anomaly is ever explained but `lost`,
  after a majority of the disks was destroyed.
* `unknown`, where the evidence cannot be had, for a reason of the list `REASONS`, each with the condition under which
  the system may give that reason.
* `no_data`, where nothing was acknowledged.

A `passed` is checked too: the acknowledged messages are looked up in what was stored, without judging's own queries.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from brokerproof import errors
from brokerproof.clients.record import list_clients
from brokerproof.experiment.guarantees import Anomaly
from brokerproof.experiment.metrics import METRICS
from brokerproof.experiment.verdict import Verdict
from brokerproof.faults.registry import FAULT_KINDS
from brokerproof.faults.steady_load import NEVER_HELD
from brokerproof.machine.processes import find_marked_processes, read_mark
from brokerproof.run.directory import Run
from brokerproof.run.judgement import Check, Judgement
from brokerproof.run.records import (
    ConsumerEnd,
    EarlyEnd,
    FaultsUndone,
    LogRead,
    PhaseTimes,
    ProducerEnd,
    StepProblem,
    StepSeconds,
    read_record,
    record_keys,
)
from brokerproof.run.seals import check_seals
from brokerproof.run.table_rows import iterate_rows
from brokerproof.run.tables import AttemptOutcome, FaultState
from chain import ChainEnd
from client_harm import (
    ClientHarm,
    explain_disorder,
    find_unexplained_outputs,
    find_wrong_outputs,
    find_wrong_publishes,
)

_OURS = {name for name, one in vars(errors).items() if isinstance(one, type) and issubclass(one, Exception)}
# What the log server's own library raises, and judging's word for a step that Airflow ended.
_OF_THE_LIBRARY = {"RequestError", "UnavailableError"}
# The kinds of fault that end, freeze or start nodes.
_ON_NODES = {"stop", "kill", "destroy", "pause", "start"}
# How long the timeline waits for a node to be healthy again, for an effect, and for a graceful stop.
_HEAL_S, _EFFECT_S, _STOP_S = 120.0, 60.0, 30.0
# How long a client waits for the moment of a fault.
_MOMENT_S = 20.0
# How long it waits for the rate.
_RATE_S = 180.0


@dataclass(frozen=True, kw_only=True)
class Harm:
    """What the faults did, from the table `faults`."""

    nodes: frozenset[str]
    # The most nodes that were ended, frozen or kept from starting at one time, and all whose disks were destroyed.
    down_at_once: int
    destroyed: frozenset[str]
    # The nodes that two faults had at a time.
    shared: frozenset[str]
    # The faults that took effect, and those that were injected.
    effective: frozenset[str]
    injected: frozenset[str]
    # The nodes that a permanent fault ended or froze.
    gone: frozenset[str]
    # Whether the timeline told load and consumers to end before their time.
    ended_early: bool
    clients: ClientHarm

    @property
    def majority(self) -> int:
        """So many nodes make a majority."""
        return len(self.nodes) // 2 + 1

    @property
    def lost_majority(self) -> bool:
        """Whether there was a time without a majority of nodes."""
        return len(self.nodes) - self.down_at_once < self.majority

    @property
    def destroyed_majority(self) -> bool:
        """Whether so many disks were destroyed, at one time or one after the other, that no majority was left."""
        return len(self.destroyed) >= self.majority

    @property
    def elects_nobody(self) -> bool:
        """Whether no majority is left that may vote, whatever is healed: a node with an empty disk may not."""
        return len(self.nodes) - len(self.destroyed | self.gone) < self.majority

    @classmethod
    def read(cls, run: Run) -> Harm:
        """From the run's directory."""
        down: dict[str, set[str]] = {}
        most, destroyed, shared, gone = 0, set[str](), set[str](), set[str]()
        of_clients = {fault.name for fault in run.scenario.faults if fault.targets.client}
        permanent = {fault.name for fault in run.scenario.faults if fault.permanent}
        effective, injected = set[str](), set[str]()
        rows = iterate_rows(run, "faults", ["fault", "kind", "targets", "state", "at"])
        for row in sorted(rows, key=lambda row: row["at"]):
            name, targets = row["fault"], set(row["targets"] or ())
            injected.add(name)
            if row["state"] == FaultState.EFFECTIVE:
                effective.add(name)
            if row["kind"] not in _ON_NODES or name in of_clients:
                continue
            if row["state"] == FaultState.RECOVERED:
                down.pop(name, None)
                continue
            shared |= {node for other, nodes in down.items() if other != name for node in nodes & targets}
            if not FAULT_KINDS[row["kind"]].helps:
                down[name] = targets
            if name in permanent:
                gone |= targets
            if row["kind"] == "destroy":
                destroyed |= targets
            most = max(most, len(set().union(*down.values())) if down else 0)
        return cls(
            nodes=frozenset(run.topology.nodes),
            down_at_once=most,
            destroyed=frozenset(destroyed),
            shared=frozenset(shared),
            gone=frozenset(gone),
            effective=frozenset(effective),
            injected=frozenset(injected),
            ended_early=read_record(run, EarlyEnd) is not None,
            clients=ClientHarm.read(run),
        )


@dataclass(frozen=True, kw_only=True)
class Reason:
    """A reason for `unknown`: how its sentence reads, what it is called, and when the system may give it."""

    pattern: str
    name: str
    may: Callable[[Harm, str], bool]


def _any(_: Harm, __: str) -> bool:
    return True


REASONS: Sequence[Reason] = (
    Reason(
        pattern=r"was not undone: waited .* to be healthy again",
        name="nodes did not come back: no majority is left that could fill them up",
        may=lambda harm, _: harm.elects_nobody,
    ),
    Reason(
        pattern=r"waited \d+ s for the effect of \w+ on",
        name="a fault had no effect on nodes that another fault had ended or frozen, or that have no majority",
        may=lambda harm, sentence: (
            bool(harm.shared)
            or harm.lost_majority
            or harm.destroyed_majority
            or harm.clients.names(sentence, harm.clients.shared)
        ),
    ),
    Reason(
        pattern=r"was not \w+: its task has ended",
        name="a fault of a client came when the load was over or the run had ended early",
        may=lambda harm, sentence: harm.ended_early or harm.clients.names(sentence, harm.clients.outlived),
    ),
    Reason(
        pattern=r"it never met the moment `\w+` in",
        name="a client was never at the moment that a fault waited for",
        may=lambda harm, sentence: (
            harm.down_at_once > 0
            or harm.clients.names(sentence, harm.clients.shared | harm.clients.outlived)
            or ("in_batch" in sentence and harm.clients.sends_singly)
            # A consumer gets nothing from producers that are down.
            or bool(harm.clients.idle and not harm.clients.names(sentence, harm.clients.producers))
        ),
    ),
    Reason(
        pattern=r"was never at the moment `\w+`, because its process does not run"
        r"|was not \w+: (its process .* before|it had not begun)",
        name="a fault of a client found no process, because another fault had ended it or none had started it",
        may=lambda harm, sentence: harm.clients.names(sentence, harm.clients.shared | harm.clients.standby),
    ),
    Reason(
        pattern=r"waited \d+ s for the task of [\w@-]+",
        name="a client that a fault started got no connection, because nobody leads",
        may=lambda harm, _: harm.lost_majority or harm.destroyed_majority,
    ),
    Reason(
        pattern=r"waited \d+ s for the targets of \w+: no (node is|server of this run says that it leads)",
        name="a fault is done to the leader, and nobody leads",
        may=lambda harm, _: harm.lost_majority or harm.destroyed_majority,
    ),
    Reason(
        pattern=r"the targets of \w+ were not known when it was due",
        name="a fault is done to the leader, and nobody leads",
        may=_any,
    ),
    Reason(
        pattern=r"no node is \{.*\} now; the fault has no target",
        name="no node has the region and the role of a fault's targets",
        may=_any,
    ),
    Reason(
        pattern=r"the log server cannot take the topic from its owner",
        name="the leader could not hand over: nobody leads, or nobody is in sync",
        may=_any,
    ),
    Reason(
        pattern=r"waited \d+ s for \w+ to (take effect|be healed, with its targets healthy), before",
        name="the condition of a fault did not come true in time",
        may=_any,
    ),
    Reason(
        pattern=r"to (fail|pass) their health checks for",
        name="the condition of a fault did not come true in time",
        may=_any,
    ),
    Reason(
        pattern=r"did not drain: backlog \d+; not drained",
        name="a subscription did not drain in the time to settle",
        may=_any,
    ),
    Reason(
        pattern=r"(did not drain|not read to its end|no log can be read back|No log was read back).*"
        r"(the log server cannot|no server|nobody|UnavailableError|no message for|no_topic)",
        name="without a leader nobody tells whether a subscription drained or where the log ends",
        # What is healed in the end is healed while the consumers drain.
        may=lambda harm, _: harm.elects_nobody or harm.lost_majority,
    ),
    Reason(
        pattern=r"told to end before its time|the run ended before its time"
        r"|(did not drain|No log was read back): no step left a record of it",
        name="a fault could not be done, so that the timeline ended the run early, or the topic was gone",
        # Without a topic the consumers end too, and leave no record of a drain.
        may=lambda harm, _: harm.ended_early or harm.destroyed_majority,
    ),
    Reason(
        pattern=r"RequestError: no_topic|no_topic",
        name="every disk was destroyed, and the topic with them",
        may=lambda harm, _: harm.destroyed_majority,
    ),
    Reason(
        pattern=r"(The load did not finish|step (load|consume) failed): [\w@-]+: its process was ended by SIGKILL",
        name="a client did not end in the three seconds after the timeline ended the run early",
        may=lambda harm, _: harm.ended_early,
    ),
    Reason(
        pattern=r"The load did not finish|step (load|consume) failed",
        name="the load or the consumers ended without a leader",
        may=lambda harm, _: harm.lost_majority or harm.destroyed_majority,
    ),
    Reason(
        pattern=r"The table observations (has no seal, because the monitor did not get to its end"
        r"|is missing, because the monitor)",
        name="nothing was read back, and judging began while the run was being released",
        may=_any,
    ),
    Reason(
        pattern=NEVER_HELD,
        name="the client may have too few unanswered messages for the rate, or the machine is too slow for it",
        may=_any,
    ),
)


@dataclass(kw_only=True)
class Explanation:
    """What a run came to: why, as names of classes, and what nobody can explain."""

    verdict: str
    classes: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    def add(self, name: str) -> None:
        """A class, once."""
        if name not in self.classes:
            self.classes.append(name)


def explain(end: ChainEnd) -> Explanation:
    """Explain a run that has ended."""
    run, judgement, harm = end.run, end.judgement, Harm.read(end.run)
    found = _examine_instrument(end, harm)
    if judgement is None:
        return found
    found.violations += find_unexplained_outputs(run, harm.clients)
    _explain_problems(judgement, harm, found)
    _explain_suites(run, judgement, harm, found)
    if judgement.verdict is Verdict.PASSED and harm.injected - harm.effective:
        found.violations.append(f"passed, although {sorted(harm.injected - harm.effective)} had no effect")
    if judgement.verdict is not Verdict.PASSED and not found.classes:
        found.violations.append(f"{judgement.verdict} for no reason that is known: {judgement.why}")
    return found


def describe(end: ChainEnd) -> Explanation:
    """What a run of any system came to, in judging's words. Only what Brokerproof itself did wrong is a violation."""
    found = _examine_instrument(end, Harm.read(end.run))
    if (judgement := end.judgement) is None:
        return found
    if any(step.error is not None for step in end.steps.values()):
        # A step that failed leaves no table or none that is whole. The judgement says so, and is `unknown` by it.
        found.violations = [each for each in found.violations if each not in judgement.problems]
    for problem in judgement.problems:
        # What comes after names addresses and answers, and is another one in every run.
        found.add(textwrap.shorten(problem, 160, placeholder=" …"))
    for name, suite in judgement.suites.items():
        for check in suite.expectations:
            if check.verdict in (Verdict.FAILED, Verdict.UNKNOWN):
                rows = check.unexpected or check.undecided
                found.add(f"{name}: {check.name} {check.verdict}, {rows} of {check.rows} rows")
    return found


def _examine_instrument(end: ChainEnd, harm: Harm) -> Explanation:
    """What Brokerproof did wrong in a run, whatever the system did."""
    run, judgement = end.run, end.judgement
    found = Explanation(verdict=str(judgement.verdict) if judgement else "none")
    found.violations += _find_long_steps(end, harm)
    found.violations += _find_crashes(end)
    found.violations += _find_remains(run)
    if judgement is None:
        found.violations.append("the run was not judged")
        return found
    _count_again(run, judgement, found)
    found.violations += find_wrong_publishes(run, judgement)
    found.violations += find_wrong_outputs(run, judgement)
    if judgement.verdict is Verdict.NO_DATA and judgement.counts.acked:
        found.violations.append(f"no_data, although {judgement.counts.acked} messages were acknowledged")
    return found


def _find_long_steps(end: ChainEnd, harm: Harm) -> Iterator[str]:
    """Steps beyond their deadlines; the timeline's own waits, which have limits of their own, are added to them."""
    undone = read_record(end.run, FaultsUndone)
    problems = " ".join(undone.problems) if undone else ""
    # Nodes are waited for where their fault heals, and once more, those of all faults together, in the end.
    waits = 2 * _HEAL_S * ("was not undone" in problems) + _EFFECT_S * problems.count("DeadlineError")
    # On a busy machine the phases begin late, and load, consume and break_it end as much later.
    rate_s = _RATE_S if NEVER_HELD in problems else min(_RATE_S, _wait_for_rate(end.run))
    faults = end.run.scenario.faults
    stops = _STOP_S * sum(fault.kind == "stop" for fault in faults)
    stops += _MOMENT_S * sum(fault.targets.moment is not None for fault in faults)
    for step, ended in end.steps.items():
        more = rate_s if step in ("load", "consume", "break_it") else 0.0
        if step in ("break_it", "consume"):
            more += waits + stops
        if step in ("read_back", "consume") and (harm.lost_majority or harm.destroyed_majority):
            more += _HEAL_S
        if ended.hangs:
            yield f"step {step} hangs"
        elif ended.seconds > ended.limit_s + more:
            yield f"step {step} took {ended.seconds:.0f} s, longer than {ended.limit_s + more:.0f} s"


def _wait_for_rate(run: Run) -> float:
    """The seconds from the begin of break_it to the phases; 0 if one of the two never came."""
    phases, step = read_record(run, PhaseTimes), read_record(run, StepSeconds, "break_it")
    return max(0.0, (phases.steady_at - step.started_at) / 1e6) if phases and step else 0.0


def _find_crashes(end: ChainEnd) -> Iterator[str]:
    """Exceptions that are none of ours, in steps and in every record that tells of a problem."""
    for step, ended in end.steps.items():
        if ended.trace:
            yield f"step {step} crashed: {ended.trace.strip().splitlines()[-1]}"
    run = end.run
    undone = read_record(run, FaultsUndone)
    sentences = list(undone.problems) if undone else []
    kinds = (StepProblem, ProducerEnd, ConsumerEnd)
    records = [read_record(run, kind, key) for kind in kinds for key in record_keys(run, kind)]
    sentences += [record.problem for record in records if record is not None and record.problem]  # type: ignore[attr-defined]
    sentences += [one.why for key in record_keys(run, LogRead) if (one := read_record(run, LogRead, key)) is not None]
    for sentence in sentences:
        for name in re.findall(r"\b([A-Z]\w*(?:Error|Exception|Interrupt))\b", sentence):
            if name not in _OURS | _OF_THE_LIBRARY:
                yield f"an exception of Python in a record: {sentence}"
    log = Path(run.path("logs", "monitor.log"))
    if log.exists() and "Traceback" in (text := log.read_text(errors="replace")):
        yield f"the monitor's log has a traceback: {text.strip().splitlines()[-1]}"


def _find_remains(run: Run) -> Iterator[str]:
    """Processes, records of clients and tables without a seal that a run left."""
    left = [str(read_mark(process)) for process in find_marked_processes(Path(run.directory).absolute())]
    if left:
        yield f"processes are left: {left}"
    clients = [*list_clients(run, "load"), *list_clients(run, "consume")]
    if clients:
        yield f"records of clients are left: {clients}"
    yield from check_seals(run).problems


def _explain_problems(judgement: Judgement, harm: Harm, found: Explanation) -> None:
    for problem in judgement.problems:
        _explain_sentence(problem, harm, found)


def _explain_sentence(sentence: str, harm: Harm, found: Explanation) -> None:
    for reason in REASONS:
        if re.search(reason.pattern, sentence):
            if not reason.may(harm, sentence):
                found.violations.append(f"{reason.name}, but the faults did no such thing: {sentence}")
            found.add(reason.name)
            return
    found.violations.append(f"a reason that is not known: {sentence}")


def _explain_suites(run: Run, judgement: Judgement, harm: Harm, found: Explanation) -> None:
    for name, suite in judgement.suites.items():
        if suite.verdict in (Verdict.FAILED, Verdict.UNKNOWN) and not any(
            check.verdict is suite.verdict for check in suite.expectations
        ):
            found.violations.append(f"{name} is {suite.verdict}, and none of its expectations is: {suite.why}")
        for check in suite.expectations:
            if check.verdict is Verdict.FAILED:
                _explain_failed(run, judgement, check, harm, found)
            elif check.verdict is Verdict.UNKNOWN:
                _explain_unknown(run, judgement, check, harm, found)


def _explain_failed(run: Run, judgement: Judgement, check: Check, harm: Harm, found: Explanation) -> None:
    if check.name not in METRICS:
        if (why := _explain_anomaly(run, check.name, harm)) is not None:
            found.add(why)
        else:
            found.violations.append(f"an anomaly that the log server never makes: {check.unexpected} {check.name}")
        return
    metric = METRICS[check.name]
    broken = []
    for row in judgement.measurements:
        bound = run.scenario.bound(row.metric, row.subject)
        least = bound.min if bound and bound.min is not None else metric.minimum
        if row.metric == "owner_in_region" and least is None:
            # The field `owner` of a scenario is such a bound.
            least = 1
        most = bound.max if bound and bound.max is not None else metric.maximum
        if row.metric == check.name and row.value is not None:
            broken += [row] * ((least is not None and row.value < least) or (most is not None and row.value > most))
    if broken:
        found.add(f"a bound of the scenario does not hold: {check.name}")
    else:
        found.violations.append(f"{check.name} failed, and every value is within its bounds")


def _explain_anomaly(run: Run, anomaly: str, harm: Harm) -> str | None:
    """Why the log server makes an anomaly in this run; None if it has no reason."""
    clients, scenario = harm.clients, run.scenario
    came_again = clients.interrupted | clients.doubled
    match anomaly:
        case Anomaly.LOST if harm.destroyed_majority:
            return "acknowledged messages are lost: a majority of the disks was destroyed"
        case Anomaly.STORED_OUT_OF_ORDER:
            return explain_disorder(run, clients)
        case Anomaly.STORED_TWICE if scenario.workload.client.on_restart is not None and clients.restarted_producers:
            return "messages are stored twice: a producer sent what had no answer again"
        case Anomaly.DELIVERED_TWICE | Anomaly.REDELIVERED_AFTER_ACK if anomaly in scenario.tighten and came_again:
            return "messages are delivered twice: a fault ended their consumer, or two consumers got them"
        case Anomaly.OUTPUT_MISSING | Anomaly.OUTPUT_REPEATED if anomaly in scenario.tighten:
            # Each of them has its explanation in `find_unexplained_outputs`.
            return f"{anomaly} is illegal here, although the subscription's commit allows it"
        case Anomaly.OUTPUT_REPEATED if clients.doubled:
            return "outputs are repeated although acks come first: the log server gives two consumers the same messages"
    return None


def _explain_unknown(run: Run, judgement: Judgement, check: Check, harm: Harm, found: Explanation) -> None:
    if check.name == Anomaly.UNPROVEN:
        if judgement.problems:
            found.add("messages are unproven, because a log or a drain is")
        else:
            found.violations.append("messages are unproven, and nothing says why")
    elif check.name in METRICS:
        if judgement.problems:
            found.add("nothing is claimed about bounds, because the instrument was not whole")
            return
        rows = [row for row in judgement.measurements if row.metric == check.name]
        if check.name == "rto_s":
            found.add("clients were still interrupted when the load ended (rto_s)")
        elif any(row.value is None or row.cut_off_by for row in rows) or not rows:
            found.add(f"a metric with a bound could not be measured: {check.name}")
        else:
            found.violations.append(f"{check.name} is unknown, and every value was measured")
    elif not judgement.problems:
        found.violations.append(f"{check.name} is unknown, and nothing says why")


def _count_again(run: Run, judgement: Judgement, found: Explanation) -> None:
    """Look acknowledged messages up in what was stored, without judging's queries."""
    acked = {
        (row["producer"], row["seq"])
        for row in iterate_rows(run, "publishes", ["producer", "seq", "outcome"])
        if row["outcome"] == AttemptOutcome.ACKED
    }
    stored = {(row["producer"], row["seq"]) for row in iterate_rows(run, "stored", ["producer", "seq"])}
    missing = len(acked - stored)
    said = judgement.counts.count_anomaly(Anomaly.LOST) + judgement.counts.count_anomaly(Anomaly.UNPROVEN)
    if len(acked) != judgement.counts.acked:
        found.violations.append(f"{len(acked)} messages were acknowledged, and judging counts {judgement.counts.acked}")
    if missing > said:
        found.violations.append(f"{missing} acknowledged messages are not stored, and judging says {said}")
    if judgement.verdict is Verdict.PASSED and missing > judgement.counts.legal.get(Anomaly.LOST, 0):
        found.violations.append(f"passed, and {missing} acknowledged messages are not stored")


def list_kinds(run: Run) -> str:
    """The kinds of the run's faults, for a table."""
    return ", ".join(fault.kind for fault in run.scenario.faults if fault.kind in FAULT_KINDS) or "none"
