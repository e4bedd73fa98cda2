"""What happened to one message: models of its events, what judging found about it, and a sentence that sums it up.

Times of events are microseconds since the epoch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from brokerproof.errors import RunError
from brokerproof.experiment.guarantees import Anomaly
from brokerproof.experiment.numbers import format_moment, format_short_time, join_names
from brokerproof.experiment.verdict import Verdict
from brokerproof.experiment.workload import Workload
from brokerproof.run.directory import Run
from brokerproof.run.judgement import Judgement, read_judgement
from brokerproof.run.records import Moment
from brokerproof.run.strict_model import StrictModel
from brokerproof.run.table_rows import collect_rows, count_rows
from brokerproof.run.tables import AttemptOutcome, FaultState


class RowModel(StrictModel):
    """A model whose fields are columns of a table, or are computed from columns."""

    @classmethod
    def from_row(cls, row: Mapping[str, Any], **values: Any) -> Self:
        """Return a model. `values` sets fields by name; any other field gets the value of its column in `row`."""
        columns = {name: row[name] for name in cls.model_fields if name in row}
        return cls.model_validate({**columns, **values}, strict=False)


class LogPosition(RowModel):
    """A position in a log. Positions can be compared only within one partition of a topic in one cluster."""

    segment: int
    offset: int
    batch_index: int | None

    def __str__(self) -> str:
        return ":".join(str(part) for part in (self.segment, self.offset, self.batch_index) if part is not None)


class _AtPlace(RowModel):
    cluster: str
    topic: str
    # -1 for a topic without partitions; None if it is not known.
    partition: int | None


class Sent(_AtPlace):
    kind: Literal["sent"] = "sent"
    # None if a killed client recorded only that the attempt may have been sent.
    at: Moment | None
    scheduled_at: Moment | None
    # The number of the attempt, from 1, in the order of sending.
    attempt: int
    epoch: int


class SettledAttempt(_AtPlace):
    """The outcome of an attempt, as its producer knows it."""

    kind: Literal["settled"] = "settled"
    # None if no answer came.
    at: Moment | None
    attempt: int
    outcome: AttemptOutcome
    error: str | None
    # The position that the ack named. The ack of a retry that the cluster recognized names none.
    position: LogPosition | None


class Stored(_AtPlace):
    """A copy of the message that was found in a cluster's log.

    A log has no time of writing, so `at` is the earliest possible one: the time at which the attempt was sent, or the
    message's `published_at` if that is later.
    """

    kind: Literal["stored"] = "stored"
    at: Moment | None
    published_at: Moment | None
    position: LogPosition | None
    replicated_from: str | None
    # Whether the copy has the published payload; None if no attempt is known.
    payload_matches: bool | None


class Delivered(_AtPlace):
    kind: Literal["delivered"] = "delivered"
    at: Moment | None
    subscription: str
    consumer: str | None
    # A number that grows each time the consumer subscribes.
    incarnation: int | None
    position: LogPosition | None
    redelivery_count: int | None
    replicated_from: str | None
    payload_matches: bool | None
    # Whether the cluster confirmed the ack of this delivery. The confirmation is an event of its own.
    ack_confirmed: bool


class AckConfirmed(_AtPlace):
    """The cluster's first answer that confirmed the ack of a delivery."""

    kind: Literal["ack_confirmed"] = "ack_confirmed"
    at: Moment
    subscription: str
    consumer: str | None
    incarnation: int | None
    position: LogPosition | None


class OutputWritten(_AtPlace):
    """A consumer's output of the message. `object` is the name under which the sink holds it."""

    kind: Literal["output"] = "output"
    at: Moment | None
    subscription: str
    consumer: str | None
    incarnation: int | None
    position: LogPosition | None
    object: str | None


class FaultChanged(StrictModel):
    """A fault's change to another state, at a time between the message's first and last event."""

    kind: Literal["fault"] = "fault"
    at: Moment
    fault: str
    fault_kind: str
    targets: tuple[str, ...]
    state: FaultState
    evidence: str | None


Event = Annotated[
    Sent | SettledAttempt | Stored | Delivered | AckConfirmed | OutputWritten | FaultChanged,
    Field(discriminator="kind"),
]


class Legality(StrEnum):
    """Whether the scenario allows an anomaly. UNDECIDED means that the evidence does not prove what happened."""

    ILLEGAL = "illegal"
    LEGAL = "legal"
    UNDECIDED = "undecided"


class MessageAnomaly(RowModel):
    """An anomaly of the message in a cluster's log (`subscription` is None) or in a subscription."""

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
    """A cluster's log (`subscription` is None) or a subscription that the message had to reach or was found in."""

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
    """Return what judging found about one message, and a sentence for each missing or contradictory result.

    The first is None if the run has no readable judgement. `where` is the SQL condition that selects the message's rows
    in a table, and `message` the values of its parameters. Raises ValueError if a row does not fit its model.
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

    Neither table has a seal that would show lost or added rows.
    """
    counts, again = judgement.counts, "`brokerproof verify` judges the run again"
    expected = sum(counts.legal.values()) + sum(counts.illegal.values())
    found = count_rows(run, "anomalies")
    if found != expected:
        yield f"The table anomalies has {found:,} rows, and the judgement counted {expected:,} anomalies; {again}."
    elif not is_judged:
        yield f"The table messages has no row of this message, although the run was judged; {again}."


def compose_sentence(
    name: str,
    events: Sequence[Event],
    judged: JudgedMessage | None,
    *,
    doubtful: Collection[str],
    is_whole: bool,
    workload: Workload,
) -> str:
    """Return one sentence about the publishing, copies, deliveries, outputs and anomalies of the message `name`.

    `doubtful` names missing and damaged tables. If such a table shows no event of the message, the sentence says "not
    known" instead of "not". If `is_whole` is False, the sentence says that the evidence is not whole.
    """
    parts = [_describe_publishing(events, judged, "publishes" in doubtful)]
    if workload.is_stored:
        parts.append(_describe_storing(events, judged, "stored" in doubtful))
    if workload.subscriptions or any(isinstance(event, Delivered) for event in events):
        parts.append(_describe_deliveries(events, judged, "deliveries" in doubtful))
    if workload.writes_outputs:
        due = [each.name for each in workload.subscriptions if each.outputs_guarantee is not None]
        parts.append(_describe_outputs(events, due, "outputs" in doubtful))
    return f"{name} {', '.join(parts)}; {_describe_judgement(judged, is_whole)}."


def _describe_publishing(events: Sequence[Event], judged: JudgedMessage | None, doubtful: bool) -> str:
    due = [event for event in events if isinstance(event, SettledAttempt)]
    settled = [event for event in due if event.outcome is not AttemptOutcome.NOT_SENT]
    if not settled and due:
        return "was not sent, because too many messages had no answer until the end of the load"
    if not settled:
        return "was published in a way that is not known" if doubtful else "was never published"
    errors = ", ".join(dict.fromkeys(event.error for event in settled if event.error))
    because = f" ({errors})" if errors else ""
    tried = "" if len(settled) == 1 else f"was attempted {_times(len(settled))} and "
    if acks := [event for event in settled if event.outcome is AttemptOutcome.ACKED]:
        return tried + _describe_ack(events, acks)
    if all(event.outcome is AttemptOutcome.FAILED for event in settled):
        return f"{tried}failed for certain{because}"
    recovered = " but was recovered" if judged and any(place.recovered for place in judged.places) else ""
    return f"{tried}has an unknown outcome{because}{recovered}"


def _describe_ack(events: Sequence[Event], acks: Sequence[SettledAttempt]) -> str:
    settled_at = min((ack.at for ack in acks if ack.at is not None), default=None)
    sent_at = min((event.at for event in events if isinstance(event, Sent) and event.at is not None), default=None)
    after = "" if settled_at is None or sent_at is None else f" after {format_short_time(settled_at - sent_at)}"
    return "was acknowledged" + after + ("" if settled_at is None else f" at {format_moment(settled_at)}")


def _describe_storing(events: Sequence[Event], judged: JudgedMessage | None, doubtful: bool) -> str:
    copies = {
        # A system without positions has one event for each copy, so the event's number identifies the copy.
        (event.cluster, event.topic, event.partition, event.position or number): event.cluster
        for number, event in enumerate(events)
        if isinstance(event, Stored)
    }
    due = [place.cluster for place in judged.places if place.subscription is None] if judged else []
    if not copies:
        return "whether it is stored is not known" if doubtful else "was found in no log"
    return f"stored {_list_places(copies.values(), due, 'in', doubtful)}"


def _describe_deliveries(events: Sequence[Event], judged: JudgedMessage | None, doubtful: bool) -> str:
    found = [(event.cluster, event.subscription) for event in events if isinstance(event, Delivered)]
    due = [(each.cluster, each.subscription) for each in judged.places if each.subscription] if judged else []
    has_clusters = len({cluster for cluster, _ in (*found, *due)}) > 1

    def name(places: Iterable[tuple[str, str]]) -> list[str]:
        return [f"`{subscription}`" + (f" in {cluster}" if has_clusters else "") for cluster, subscription in places]

    if not found:
        return "whether it was delivered is not known" if doubtful else "not delivered"
    return f"delivered {_list_places(name(found), name(due), 'to', doubtful)}"


def _describe_outputs(events: Sequence[Event], due: Sequence[str], doubtful: bool) -> str:
    found = [f"`{event.subscription}`" for event in events if isinstance(event, OutputWritten)]
    if not found:
        return "whether it has an output is not known" if doubtful else "without an output"
    return f"with an output written {_list_places(found, [f'`{name}`' for name in due], 'by', doubtful)}"


def _list_places(found: Iterable[str], due: Iterable[str], word: str, doubtful: bool) -> str:
    """Return a phrase such as `twice in eu but not in us`. A place is a log or a subscription.

    `found` has the place of each copy or delivery, and `due` the places that the message had to reach. If `doubtful`,
    the phrase does not name the places that lack the message.
    """
    counts = Counter(found)
    lacking = [] if doubtful else [place for place in dict.fromkeys(due) if place not in counts]
    listed = join_names(f"{_times(count)} {word} {place}" for place, count in counts.items())
    return listed + (f" but not {word} {' or '.join(lacking)}" if lacking else "")


def _describe_judgement(judged: JudgedMessage | None, is_whole: bool) -> str:
    if judged is None:
        return "what judging found about it is not known"
    found = dict.fromkeys(f"`{each.anomaly}` ({each.legality})" for each in judged.anomalies)
    if found:
        return f"judging found {join_names(found)}" + ("" if is_whole else ", and the evidence about it is not whole")
    if not is_whole:
        return "judging names nothing wrong with it, but the evidence about it is not whole"
    if judged.evidence_problems:
        return "judging names nothing wrong with it, but the run's evidence has gaps"
    return "nothing is wrong with it"


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")
