"""Composes one sentence about what happened to a message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from brokerproof.experiment.numbers import format_moment, format_short_time, join_names
from brokerproof.reports.messages.judged_message import JudgedMessage
from brokerproof.reports.messages.message_events import Delivered, Event, Sent, SettledAttempt, Stored
from brokerproof.run.tables import AttemptOutcome


def compose_sentence(
    name: str,
    events: Sequence[Event],
    judged: JudgedMessage | None,
    *,
    doubtful: Collection[str],
    is_whole: bool,
    has_subscriptions: bool,
) -> str:
    """Return one sentence about the publishing, copies, deliveries and anomalies of the message `name`.

    If an event is not found and its table is in `doubtful`, the sentence says "not known" instead of "not". If
    `is_whole` is False, the sentence says that the evidence is not whole.
    """
    parts = [
        _describe_publishing(events, judged, "publishes" in doubtful),
        _describe_storing(events, judged, "stored" in doubtful),
    ]
    if has_subscriptions or any(isinstance(event, Delivered) for event in events):
        parts.append(_describe_deliveries(events, judged, "deliveries" in doubtful))
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


def _list_places(found: Iterable[str], due: Iterable[str], word: str, doubtful: bool) -> str:
    """Return a phrase: how often the message is at each place of `found`, and which places of `due` lack it.

    If `doubtful`, the places that lack the message are left out.
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
