"""The counts of a run: messages, copies, deliveries and anomalies. Only this module defines their names."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from brokerproof.experiment.guarantees import Anomaly
from brokerproof.run.strict_model import StrictModel

Count = Annotated[int, Field(ge=0)]


class Totals(StrictModel):
    """All counts except `not_sent` and those of anomalies."""

    publishes: Count = Field(description="attempts to publish")
    messages: Count = Field(description="different messages that a producer tried to publish")
    acked: Count = Field(description="messages with an acknowledged attempt")
    failed: Count = Field(description="messages whose attempts all failed for certain")
    unknown: Count = Field(description="messages whose producer does not know whether they were written")
    recovered: Count = Field(description="unknown messages that were found in their home's log")
    stored: Count = Field(description="copies in the logs of all clusters")
    deliveries: Count = Field(description="deliveries to all subscriptions")


# The names of the totals, in the order of display.
TOTALS = tuple(Totals.model_fields)


class Counts(Totals):
    """The totals, `not_sent`, and how often each anomaly was found, legal and illegal; 0 for an absent anomaly."""

    # Not in `Totals`, because the history has a column for each total but not for this count.
    not_sent: Count | None = Field(
        None, description="messages that a full `max_pending` held back until the end; null if they were not recorded"
    )

    legal: dict[Anomaly, Count]
    illegal: dict[Anomaly, Count]

    def count_anomaly(self, anomaly: Anomaly) -> int:
        """Return how often `anomaly` was found, legal and illegal together."""
        return self.legal.get(anomaly, 0) + self.illegal.get(anomaly, 0)
