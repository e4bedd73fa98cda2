"""What the network does to traffic: a shape for each pair of regions, and conditions that faults add for a while."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from brokerproof.errors import InputError
from brokerproof.experiment.topology import LinkQuality, Topology


class Shape(LinkQuality):
    """Delay, jitter and bandwidth of the traffic from one region to another while no fault acts on it."""

    sender: str = Field(description="region")
    receiver: str = Field(description="region")


class Condition(LinkQuality):
    """A disturbance of the traffic between nodes, in force until it is removed by its id.

    Conditions add to the shape: delays and jitters are summed, and the smallest bandwidth counts. One condition with a
    cut stops all traffic.
    """

    id: str = Field(min_length=1)
    senders: list[str] = Field(min_length=1, description="names of viewers and targets")
    receivers: list[str] = Field(min_length=1, description="names of viewers and targets")
    both_ways: bool = Field(description="whether it holds from the receivers to the senders too")
    cut: bool = Field(False, description="nothing gets through")

    @model_validator(mode="after")
    def _check_it_changes_something(self) -> Self:
        if not self.cut and not self.delay_ms and self.bandwidth_mbit is None:
            raise InputError(
                f"condition `{self.id}` changes nothing", remedy="give `cut`, `delay_ms` or `bandwidth_mbit`"
            )
        return self

    def holds(self, sender: str, receiver: str) -> bool:
        """Return whether the condition applies to the traffic from `sender` to `receiver`."""
        return matches(self.senders, self.receivers, self.both_ways, sender, receiver)


def matches(senders: list[str], receivers: list[str], both_ways: bool, sender: str, receiver: str) -> bool:
    """Return whether traffic from one of `senders` to one of `receivers`, or also back, includes this direction."""
    if sender in senders and receiver in receivers:
        return True
    return both_ways and sender in receivers and receiver in senders


def make_shapes(topology: Topology) -> list[Shape]:
    """Return the links of a topology as shapes: two for each link, one per direction."""
    return [
        Shape(sender=sender, receiver=receiver, **link.model_dump(exclude={"between"}))
        for link in topology.links
        for sender, receiver in (link.between, link.between[::-1])
    ]
