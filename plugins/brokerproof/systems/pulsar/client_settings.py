"""The settings of Pulsar's clients: the fields of `workload.client` in a scenario that runs Pulsar."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from brokerproof.experiment.workload import ClientSettings


class ProducerAccess(StrEnum):
    """How a producer has its topic for itself. Pulsar's third mode waits, and would hold the load up."""

    # Another producer is refused.
    EXCLUSIVE = "exclusive"
    # Another producer takes over, and what the earlier one sends is refused from then on.
    EXCLUSIVE_WITH_FENCING = "exclusive_with_fencing"


class PulsarClientSettings(ClientSettings):
    """Settings of Pulsar's client that decide how it behaves when something fails."""

    send_timeout_s: float = Field(
        0, ge=0, description="the client gives an unanswered message up after this time; 0: never"
    )
    connection_timeout_s: float = Field(10, gt=0)
    batching_delay_ms: int = Field(5, ge=0, description="longest wait for a batch to fill; 0: no batches")
    batching_messages: int = Field(100, ge=1)
    batch_by_key: bool = Field(
        False,
        description="each batch holds messages of one key, as a subscription that shares by key needs it; "
        "batches fill more slowly then",
    )
    access: ProducerAccess | None = Field(
        None, description="each producer has its topic for itself; by default producers share it, each with its name"
    )
    receiver_queue: int = Field(1000, ge=1, description="messages that a consumer fetches in advance")

    # Null is what consumers did before.
    batch_index_acks: bool | None = Field(
        None,
        description="consumers acknowledge single messages of a batch, if the setting "
        "`acknowledgmentAtBatchIndexLevelEnabled` of the brokers is true; by default a batch comes again as a whole if "
        "one of its messages was not acknowledged",
    )
    # Null, so that runs of before compare with those of today.
    redelivery_delay_ms: int | None = Field(
        None,
        ge=0,
        description="time after which a message comes again that a consumer answered negatively; by default the "
        "client's own 60,000 ms",
    )

    @property
    def batches(self) -> bool:
        return self.batching_delay_ms > 0 and self.batching_messages > 1

    @property
    def mixed_keys_remedy(self) -> str | None:
        if not self.batches or self.batch_by_key:
            return None
        return "set workload.client.batch_by_key to true, or workload.client.batching_delay_ms to 0"
