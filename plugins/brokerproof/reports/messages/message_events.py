"""What happens to a message: one model for each kind of event, in microseconds since the epoch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from brokerproof.run.records import Moment
from brokerproof.run.strict_model import StrictModel
from brokerproof.run.tables import AttemptOutcome, FaultState


class Position(StrictModel):
    """A position in a log; positions compare only inside one partition of one cluster's topic."""

    ledger_id: int
    entry_id: int
    batch_index: int | None

    def __str__(self) -> str:
        return ":".join(str(part) for part in (self.ledger_id, self.entry_id, self.batch_index) if part is not None)


class _AtPlace(StrictModel):
    cluster: str
    topic: str
    # -1 for a topic without partitions; None where nobody knows.
    partition: int | None


class Sent(_AtPlace):
    """An attempt to publish."""

    kind: Literal["sent"] = "sent"
    # None for an attempt of which a killed client recorded only that it may have been sent.
    at: Moment | None
    scheduled_at: Moment | None
    # From 1 on, in the order in which the attempts were sent.
    attempt: int
    epoch: int


class Settled(_AtPlace):
    """What an attempt came to, as its producer knows it."""

    kind: Literal["settled"] = "settled"
    # None where no answer came.
    at: Moment | None
    attempt: int
    outcome: AttemptOutcome
    error: str | None
    # That the ack named. A retry that the cluster recognized has none.
    position: Position | None


class Stored(_AtPlace):
    """A copy that was found in a cluster's log when it was read back.

    No log says when it was written. `at` is the earliest moment at which it can have been: when its attempt was sent
    or, where that is later, when it was published according to the message itself.
    """

    kind: Literal["stored"] = "stored"
    at: Moment | None
    published_at: Moment | None
    position: Position | None
    replicated_from: str | None
    # Whether it is the payload that was published; None where no attempt is known.
    payload_matches: bool | None


class Delivered(_AtPlace):
    """A delivery to a consumer."""

    kind: Literal["delivered"] = "delivered"
    at: Moment | None
    subscription: str
    consumer: str | None
    # Grows at every subscribe of the consumer.
    incarnation: int | None
    position: Position | None
    redelivery_count: int | None
    replicated_from: str | None
    payload_matches: bool | None
    # Whether the cluster confirmed the ack of this delivery, which is an event of its own.
    ack_confirmed: bool


class AckConfirmed(_AtPlace):
    """The cluster's first answer which said that it has the ack of a delivery."""

    kind: Literal["ack_confirmed"] = "ack_confirmed"
    at: Moment
    subscription: str
    consumer: str | None
    incarnation: int | None
    position: Position | None


class FaultChanged(StrictModel):
    """A fault got into another state between the first and the last event of the message."""

    kind: Literal["fault"] = "fault"
    at: Moment
    fault: str
    fault_kind: str
    targets: tuple[str, ...]
    state: FaultState
    evidence: str | None


Event = Annotated[Sent | Settled | Stored | Delivered | AckConfirmed | FaultChanged, Field(discriminator="kind")]


class FaultCourse(StrictModel):
    """A fault that was in force at some moment of the message's life, with its times; None for a state not reached."""

    fault: str
    kind: str
    targets: tuple[str, ...]
    injecting_at: Moment | None = None
    effective_at: Moment | None = None
    healing_at: Moment | None = None
    recovered_at: Moment | None = None

    @property
    def times(self) -> dict[FaultState, Moment]:
        """When each state that it reached began, in the order of the states."""
        times = {state: getattr(self, f"{state}_at") for state in FaultState}
        return {state: at for state, at in times.items() if at is not None}
