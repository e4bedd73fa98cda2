"""Reads the results of judging for one message: its anomalies, and the logs and subscriptions that it had to reach."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from brokerproof.errors import RunError
from brokerproof.experiment.guarantees import Anomaly
from brokerproof.experiment.verdict import Verdict
from brokerproof.reports.messages.message_events import RowModel
from brokerproof.run.directory import Run
from brokerproof.run.judgement import Judgement, read_judgement
from brokerproof.run.strict_model import StrictModel
from brokerproof.run.table_rows import collect_rows, count_rows


class Legality(StrEnum):
    """Whether the scenario allows an anomaly. It is undecided if the evidence does not prove what happened."""

    ILLEGAL = "illegal"
    LEGAL = "legal"
    UNDECIDED = "undecided"


class MessageAnomaly(RowModel):
    """An anomaly of the message at a place: a cluster's log (subscription None) or a subscription."""

    anomaly: Anomaly
    legality: Legality
    # The meaning of every anomaly of this kind.
    sentence: str
    # The reason and the details of this one anomaly.
    cause: str | None
    detail: str | None
    cluster: str | None
    topic: str | None
    partition: int | None
    subscription: str | None


class JudgedPlace(RowModel):
    """A place that the message had to reach or was found at: a cluster's log (subscription None) or a subscription."""

    cluster: str
    topic: str
    subscription: str | None
    # The number of distinct positions that the log stores the message at, or that the subscription got it from.
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


def read_judged_message(run: Run, where: str, message: Mapping[str, Any]) -> tuple[JudgedMessage | None, list[str]]:
    """Return the results of judging one message, and a sentence for each missing or contradictory result.

    The results are None if the run has no readable judgement. `where` is the SQL condition for the message's rows, and
    `message` has the condition's values. Raises ValueError if a row breaks its model.
    """
    try:
        judgement = read_judgement(run)
    except RunError as error:
        return None, [f"What judging found is not known: {str(error).rstrip('.')}."]
    problems: list[str] = []
    places, anomalies = (
        collect_rows(run, table, problems, where=where, values=message) for table in ("messages", "anomalies")
    )
    if not problems:
        problems += _compare_with_judgement(run, judgement, is_judged=bool(places))
    places.sort(key=lambda row: (row["subscription"] or "", row["cluster"] != row["home"]))
    judged = JudgedMessage(
        verdict_of_run=judgement.verdict,
        evidence_problems=judgement.problems,
        places=tuple(map(JudgedPlace.from_row, places)),
        anomalies=tuple(map(_make_anomaly, anomalies)),
    )
    return judged, problems


def _make_anomaly(row: Mapping[str, Any]) -> MessageAnomaly:
    anomaly = Anomaly(row["anomaly"])
    legality = Legality.LEGAL if row["legal"] else Legality.ILLEGAL
    # A guarantee decides only about proven anomalies.
    return MessageAnomaly.from_row(
        row,
        legality=Legality.UNDECIDED if anomaly is Anomaly.UNPROVEN else legality,
        sentence=f"Such a message {anomaly.facts.meaning}.",
    )


def _compare_with_judgement(run: Run, judgement: Judgement, *, is_judged: bool) -> Iterator[str]:
    """Yield a sentence if `anomalies` contradicts the judgement's counts, or if `messages` lacks the message.

    These two tables have no seals that would show it.
    """
    counts, again = judgement.counts, "`brokerproof verify` judges the run again"
    expected = sum(counts.legal.values()) + sum(counts.illegal.values())
    found = count_rows(run, "anomalies")
    if found != expected:
        yield f"The table anomalies has {found:,} rows, and the judgement counted {expected:,} anomalies; {again}."
    elif not is_judged:
        yield f"The table messages has no row of this message, although the run was judged; {again}."
