"""Examines whether Brokerproof itself (the instrument) worked without errors, and withholds claims if it did not.

An error of Brokerproof is no evidence against the messaging system. No bound is called held or broken if a task of the
run's DAG failed, or a table differs from its seal (recorded checksums). The same is true if a fault may still be in
force at the end. If a table of messages is damaged or incomplete, no anomaly is claimed either. If the clocks of
several hosts cannot be compared, no anomaly is claimed that compares times of two processes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType

from brokerproof.experiment.guarantees import Anomaly, Suite
from brokerproof.experiment.verdict import DECISIVE, Verdict
from brokerproof.run.directory import Run
from brokerproof.run.judgement import SuiteJudgement
from brokerproof.run.seals import SealCheck
from brokerproof.run.step_record import list_step_problems

# Steps that begin when the evidence is complete. The evidence stays whole if one of these steps fails.
_AFTER = ("verify", "release")
_OF_MESSAGES = frozenset({"publishes", "deliveries", "stored", "outputs"})
_ON_MESSAGES = (Suite.COMPLETENESS, Suite.UNIQUENESS, Suite.ORDERING)
_ACROSS_PROCESSES = (
    Anomaly.POSITION_REGRESSED,
    Anomaly.DELIVERED_OUT_OF_ORDER,
    Anomaly.DELIVERED_TWICE,
    Anomaly.REDELIVERED_AFTER_ACK,
    Anomaly.TWO_ACTIVE_CONSUMERS,
    Anomaly.KEY_ON_TWO_CONSUMERS,
)


@dataclass(frozen=True, kw_only=True)
class Instrument:
    """Whether Brokerproof itself worked without errors: its problems as sentences, and what can still be claimed.

    If `messages_are_whole` is false, no anomaly is claimed. `publishes_are_whole` is only about the table `publishes`,
    which shows which messages were acked. `hosts_compare` is false if the clocks of the run's hosts cannot be compared.
    """

    problems: Sequence[str]
    messages_are_whole: bool
    publishes_are_whole: bool
    hosts_compare: bool = True

    @property
    def is_whole(self) -> bool:
        return not self.problems and self.messages_are_whole


WHOLE = Instrument(problems=(), messages_are_whole=True, publishes_are_whole=True)


def examine_instrument(
    run: Run,
    seals: SealCheck,
    record_problems: Mapping[str, Sequence[str]] = MappingProxyType({}),
    doubt_of_hosts: str = "",
) -> Instrument:
    """Return whether Brokerproof worked without errors, from failed tasks, the tables' seals and `record_problems`.

    `record_problems` has, by table, sentences about contradictions in the table, or between it and the clients'
    records. `doubt_of_hosts` is the reason why the clocks of several hosts cannot be compared; empty if they can.
    """
    broken = seals.broken | {table for table, problems in record_problems.items() if problems}
    sentences = [sentence for step, sentence in list_step_problems(run).items() if step not in _AFTER]
    doubts = [doubt_of_hosts] if doubt_of_hosts else []
    return Instrument(
        problems=[*_drop_repetitions(sentences), *seals.problems, *chain(*record_problems.values()), *doubts],
        # Whether a destroyed cluster may lose a message depends on times of a client and of the fault.
        messages_are_whole=not broken & _OF_MESSAGES and not (doubt_of_hosts and run.scenario.destroyed),
        publishes_are_whole="publishes" not in broken,
        hosts_compare=not doubt_of_hosts,
    )


def _drop_repetitions(sentences: Sequence[str]) -> list[str]:
    """Return the sentences except those whose problem contains the whole problem of another sentence, and more."""
    problems = {sentence: sentence.partition(" failed: ")[2] for sentence in sentences}
    return [
        sentence
        for sentence, problem in problems.items()
        if not any(other and other in problem and other != problem for other in problems.values())
    ]


def withhold_claims(
    suites: Mapping[str, SuiteJudgement],
    instrument: Instrument,
    problems: Sequence[str] = (),
    *,
    faults_undone: bool = True,
) -> dict[str, SuiteJudgement]:
    """Return the suites, with `unknown` for each verdict that an error of Brokerproof could have produced.

    `problems` are sentences about gaps in the evidence. If `problems` is not empty, expectations of Great Expectations'
    own kinds are `unknown`, because they cannot see that a row is missing. Brokerproof's own kinds see a missing
    message as `unproven`. `faults_undone` is true if every fault that is not permanent is proven to be undone.
    """
    return {name: _withhold(name, suite, instrument, problems, faults_undone) for name, suite in suites.items()}


def _withhold(
    name: str, suite: SuiteJudgement, instrument: Instrument, problems: Sequence[str], faults_undone: bool
) -> SuiteJudgement:
    claimed = [check for check in suite.expectations if check.verdict in DECISIVE]
    own, standard = [check for check in claimed if not check.table], [check for check in claimed if check.table]
    withheld = [check for check in own if _is_in_doubt(name, check.name, instrument, faults_undone)]
    if problems or not instrument.is_whole:
        withheld += standard
    # A suite without expectations makes one claim, its own verdict.
    in_doubt = bool(withheld) or (not suite.expectations and _is_in_doubt(name, "", instrument, faults_undone))
    if not in_doubt or suite.worst not in DECISIVE:
        return suite
    names = {check.name for check in withheld}
    checks = tuple(
        check.model_copy(update={"verdict": Verdict.UNKNOWN}) if check.name in names else check
        for check in suite.expectations
    )
    reason = "the evidence is not whole" if faults_undone else "nothing proves that every fault was undone"
    if not instrument.is_whole:
        reason = "the instrument was not whole"
    if any(check.verdict is Verdict.FAILED for check in checks):
        # The other failures are proven by evidence that is whole.
        why = f"{suite.why} Nothing is claimed of {', '.join(sorted(names))}, because {reason}."
        return suite.model_copy(update={"why": why, "expectations": checks})
    why = f"Nothing is claimed, because {reason}; it would have {suite.worst}: {suite.why}"
    return suite.model_copy(update={"verdict": Verdict.UNKNOWN, "why": why, "expectations": checks})


def _is_in_doubt(suite: str, check: str, instrument: Instrument, faults_undone: bool) -> bool:
    """Return whether evidence is missing for the verdict of the expectation `check` in `suite`.

    `check` is of one of Brokerproof's own kinds. It is empty if the suite has no expectations.
    """
    on_messages = suite in _ON_MESSAGES or check in list(Anomaly)
    if on_messages and check in _ACROSS_PROCESSES and not instrument.hosts_compare:
        return True
    return not (instrument.messages_are_whole if on_messages else instrument.is_whole and faults_undone)
