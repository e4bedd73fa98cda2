"""Reads the results of judging for one message: its anomalies and its places."""

from __future__ import annotations

from enum import StrEnum

from brokerproof.errors import RunError
from brokerproof.experiment.guarantees import Anomaly
from brokerproof.experiment.verdict import Verdict
from brokerproof.reports.messages.message_rows import count_rows, read_message_rows
from brokerproof.run.directory import Run
from brokerproof.run.judgement import Judgement, read_judgement
from brokerproof.run.strict_model import StrictModel


class Ruling(StrEnum):
    """The scenario's ruling on an anomaly; `undecided` if the evidence does not prove what happened to the message."""

    ILLEGAL = "illegal"
    LEGAL = "legal"
    UNDECIDED = "undecided"


class MessageAnomaly(StrictModel):
    """An anomaly of the message at a place: a cluster's log (subscription None) or a subscription."""

    anomaly: Anomaly
    ruling: Ruling
    # The meaning of the anomaly in general.
    sentence: str
    # The reason and the details of this anomaly.
    cause: str | None
    detail: str | None
    cluster: str | None
    topic: str | None
    partition: int | None
    subscription: str | None


class JudgedPlace(StrictModel):
    """A place that the message had to reach or was found at: a cluster's log (subscription None) or a subscription."""

    cluster: str
    topic: str
    subscription: str | None
    # The number of distinct positions in the log, or of the deliveries.
    copies: int
    deliveries: int
    # True if the outcome of publishing is unknown and the message is in the log.
    recovered: bool


class JudgedMessage(StrictModel):
    """The results of judging for the message, and the gaps in the evidence of the whole run."""

    verdict_of_run: Verdict
    evidence_problems: tuple[str, ...]
    places: tuple[JudgedPlace, ...]
    anomalies: tuple[MessageAnomaly, ...]


def read_judged_message(run: Run, producer: str, seq: int) -> tuple[JudgedMessage | None, tuple[str, ...]]:
    """Return the results of judging, None if the run was not judged, and a sentence for each result that is missing.

    Raises ValueError if a row breaks its model.
    """
    try:
        judgement = read_judgement(run)
    except RunError as error:
        return None, (f"What judging found is not known: {str(error).rstrip('.')}.",)
    places = read_message_rows(run, "messages", producer, seq, columns=[*JudgedPlace.model_fields, "home"])
    anomalies = read_message_rows(run, "anomalies", producer, seq)
    problems = [*places.problems, *anomalies.problems]
    if not problems:
        problems += _compare_with_judgement(run, judgement, is_judged=bool(places.rows))
    judged = JudgedMessage(
        verdict_of_run=judgement.verdict,
        evidence_problems=judgement.problems,
        places=tuple(
            JudgedPlace(**{name: row[name] for name in JudgedPlace.model_fields})
            for row in sorted(places.rows, key=lambda row: (row["subscription"] or "", row["cluster"] != row["home"]))
        ),
        anomalies=tuple(
            MessageAnomaly(
                anomaly=(anomaly := Anomaly(row["anomaly"])),
                ruling=_rule(anomaly, row["legal"]),
                sentence=f"Such a message {anomaly.facts.meaning}.",
                **{name: row[name] for name in ("cause", "detail", "cluster", "topic", "partition", "subscription")},
            )
            for row in anomalies.rows
        ),
    )
    return judged, tuple(problems)


def _rule(anomaly: Anomaly, legal: bool) -> Ruling:
    # No guarantee allows or forbids it.
    if anomaly is Anomaly.UNPROVEN:
        return Ruling.UNDECIDED
    return Ruling.LEGAL if legal else Ruling.ILLEGAL


def _compare_with_judgement(run: Run, judgement: Judgement, *, is_judged: bool) -> list[str]:
    """Return a sentence if the result tables contradict the judgement's counts. They have no seals to compare with."""
    counts, again = judgement.counts, "`brokerproof verify` judges the run again"
    expected = sum(counts.legal.values()) + sum(counts.illegal.values())
    try:
        found = count_rows(run, "anomalies")
    except RunError as error:
        return [f"{str(error)[0].upper()}{str(error)[1:]}."]
    if found != expected:
        return [f"The table anomalies has {found:,} rows, and the judgement counted {expected:,} anomalies; {again}."]
    if not is_judged:
        return [f"The table messages has no row of this message, although the run was judged; {again}."]
    return []
