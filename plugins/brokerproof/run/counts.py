"""How much of everything a run had. The names of what is counted are defined here and nowhere else."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from brokerproof.experiment.guarantees import Anomaly
from brokerproof.run.strict_model import StrictModel

Count = Annotated[int, Field(ge=0)]


class Totals(StrictModel):
    """What is counted, anomalies set aside."""

    publishes: Count = Field(description="attempts to publish")
    messages: Count = Field(description="different messages that a producer tried to publish")
    acked: Count = Field(description="messages of which an attempt was acknowledged")
    failed: Count = Field(description="messages of which every attempt failed for certain")
    unknown: Count = Field(description="messages of which nobody knows whether they were written")
    recovered: Count = Field(description="unknown messages that were found in their home's log")
    stored: Count = Field(description="copies in the logs of all clusters")
    deliveries: Count = Field(description="deliveries to all subscriptions")


# Their names, in the order in which they are shown.
TOTALS = tuple(Totals.model_fields)


class Counts(Totals):
    """The totals, and anomalies by kind, legal and illegal apart. A kind that is left out did not occur."""

    # It is no total, because the history has a column for each of those.
    not_sent: Count | None = Field(
        None,
        description="messages that a full `max_pending` held back until the end; null if they were not recorded",
    )

    legal: dict[Anomaly, Count]
    illegal: dict[Anomaly, Count]

    def count_anomaly(self, anomaly: Anomaly) -> int:
        """How many there were, legal or not."""
        return self.legal.get(anomaly, 0) + self.illegal.get(anomaly, 0)
