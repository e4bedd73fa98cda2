"""What judging found about one message: its anomalies, and the places that it had to reach."""

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
    """What the scenario says about an anomaly; `undecided` where the evidence does not prove what became of it."""

    ILLEGAL = "illegal"
    LEGAL = "legal"
    UNDECIDED = "undecided"


class MessageAnomaly(StrictModel):
    """An anomaly of the message at a place: a cluster's log (subscription None) or a subscription."""

    anomaly: Anomaly
    ruling: Ruling
    # What such a message is, in general.
    sentence: str
    # What this one is.
    cause: str | None
    detail: str | None
    cluster: str | None
    topic: str | None
    partition: int | None
    subscription: str | None


class JudgedPlace(StrictModel):
    """A place that the message had to reach or turned up at: a cluster's log (subscription None) or a subscription."""

    cluster: str
    topic: str
    subscription: str | None
    # Distinct positions, in the log or of the deliveries.
    copies: int
    deliveries: int
    # True where no answer came to the attempts and the message is in the log.
    recovered: bool


class JudgedMessage(StrictModel):
    """What judging found about the message, and what it said about the evidence of the whole run."""

    verdict_of_run: Verdict
    evidence_problems: tuple[str, ...]
    places: tuple[JudgedPlace, ...]
    anomalies: tuple[MessageAnomaly, ...]


def read_judged_message(run: Run, producer: str, seq: int) -> tuple[JudgedMessage | None, tuple[str, ...]]:
    """What judging found, None where the run was not judged; and a sentence for everything that is missing.

    Raises ValueError where a row breaks its model.
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
    # The guarantees neither allow nor forbid it.
    if anomaly is Anomaly.UNPROVEN:
        return Ruling.UNDECIDED
    return Ruling.LEGAL if legal else Ruling.ILLEGAL


def _compare_with_judgement(run: Run, judgement: Judgement, *, is_judged: bool) -> list[str]:
    """The results of judging have no seals, but the judgement says how many anomalies there are."""
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
