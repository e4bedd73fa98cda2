"""Whether the instrument was whole, and what is not claimed where it was not.

An error of Brokerproof is no evidence against the messaging system. Where a step broke, or a table is not the one that
its job sealed, no bound is called held or broken; nor where a fault may still be in force at the end, because then the
cluster is measured together with what Brokerproof did to it. Where a table of messages is not whole, no anomaly is
claimed either. If the clocks of several hosts do not compare, nothing is claimed that compares times of two processes.
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

# The steps after the evidence: what breaks in them takes nothing from it.
_AFTER = ("verify", "release")
_OF_MESSAGES = frozenset({"publishes", "deliveries", "stored"})
_ON_MESSAGES = (Suite.COMPLETENESS, Suite.UNIQUENESS, Suite.ORDERING)
_ACROSS_PROCESSES = (
    Anomaly.POSITION_REGRESSED,
    Anomaly.DELIVERED_OUT_OF_ORDER,
    Anomaly.DELIVERED_TWICE,
    Anomaly.REDELIVERED_AFTER_ACK,
)


@dataclass(frozen=True, kw_only=True)
class Instrument:
    """What is wrong with the instrument, in sentences, and whether the tables of messages are whole.

    `publishes_are_whole` is of the first of them alone: what was acknowledged rests on nothing else. `hosts_compare` is
    false if the run's processes were on several hosts whose times do not compare.
    """

    problems: Sequence[str]
    messages_are_whole: bool
    publishes_are_whole: bool
    hosts_compare: bool = True

    @property
    def is_whole(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems and self.messages_are_whole


WHOLE = Instrument(problems=(), messages_are_whole=True, publishes_are_whole=True)


def examine_instrument(
    run: Run,
    seals: SealCheck,
    record_problems: Mapping[str, Sequence[str]] = MappingProxyType({}),
    doubt_of_hosts: str = "",
) -> Instrument:
    """From the problems of the steps, the seals of the tables, and by table what contradicts its record or itself.

    `doubt_of_hosts` says why the times of several hosts do not compare; empty if they do.
    """
    broken = seals.broken | {table for table, problems in record_problems.items() if problems}
    sentences = [sentence for step, sentence in list_step_problems(run).items() if step not in _AFTER]
    doubts = [doubt_of_hosts] if doubt_of_hosts else []
    return Instrument(
        problems=[*_drop_repetitions(sentences), *seals.problems, *chain(*record_problems.values()), *doubts],
        # What a destroyed cluster may lose goes by the times of clients and of the fault.
        messages_are_whole=not broken & _OF_MESSAGES and not (doubt_of_hosts and run.scenario.destroyed),
        publishes_are_whole="publishes" not in broken,
        hosts_compare=not doubt_of_hosts,
    )


def _drop_repetitions(sentences: Sequence[str]) -> list[str]:
    """The sentences but those that only repeat what another step says of itself, such as the load's end."""
    problems = {sentence: sentence.partition(" failed: ")[2] for sentence in sentences}
    return [
        sentence
        for sentence, problem in problems.items()
        if not any(other in problem and other != problem for other in problems.values())
    ]


def withhold_claims(
    suites: Mapping[str, SuiteJudgement],
    instrument: Instrument,
    problems: Sequence[str] = (),
    *,
    faults_undone: bool = True,
) -> dict[str, SuiteJudgement]:
    """The suites, with `unknown` for each verdict that a broken instrument could have produced.

    `problems` are those of the whole evidence. A standard expectation claims nothing where there is any: no row of a
    table says by itself that it is missing, as a message does that is `unproven`. `faults_undone` says whether that is
    proven of every fault that heals.
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
    # A suite without expectations claims nothing else than what it says itself.
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
        # What the others found is proven by evidence of their own.
        why = f"{suite.why} Nothing is claimed of {', '.join(sorted(names))}, because {reason}."
        return suite.model_copy(update={"why": why, "expectations": checks})
    why = f"Nothing is claimed, because {reason}; it would have {suite.worst}: {suite.why}"
    return suite.model_copy(update={"verdict": Verdict.UNKNOWN, "why": why, "expectations": checks})


def _is_in_doubt(suite: str, check: str, instrument: Instrument, faults_undone: bool) -> bool:
    """Whether one of Brokerproof's own expectations rests on what is not whole."""
    on_messages = suite in _ON_MESSAGES or check in list(Anomaly)
    if on_messages and check in _ACROSS_PROCESSES and not instrument.hosts_compare:
        return True
    return not (instrument.messages_are_whole if on_messages else instrument.is_whole and faults_undone)
