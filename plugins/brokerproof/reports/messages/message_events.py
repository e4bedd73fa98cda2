"""The events of a message: one model for each kind. Times are microseconds since the epoch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from brokerproof.run.records import Moment
from brokerproof.run.strict_model import StrictModel
from brokerproof.run.tables import AttemptOutcome, FaultState


class RowModel(StrictModel):
    """A model whose fields are columns of a table, or are computed from columns."""

    @classmethod
    def from_row(cls, row: Mapping[str, Any], **values: Any) -> Self:
        """Return a model with the fields `values`. Every other field has the value of the row's column of that name."""
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
    """A copy that was found in a cluster's log when the log was read back.

    A log has no time of writing, so `at` is the earliest possible time: the time at which the attempt was sent, or the
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


class FaultChanged(StrictModel):
    """A fault's change to another state, at a time between the message's first and last event."""

    kind: Literal["fault"] = "fault"
    at: Moment
    fault: str
    fault_kind: str
    targets: tuple[str, ...]
    state: FaultState
    evidence: str | None


Event = Annotated[Sent | SettledAttempt | Stored | Delivered | AckConfirmed | FaultChanged, Field(discriminator="kind")]
