"""The plan with which a link process starts, and the conditions (disturbances) that faults add to it for a while.

The plan has routes and shapes. A route leads through the link process, from a viewer to a target. The viewer is a node,
or the clients or serving nodes (message servers) of a region. The target is a node of another region. A shape is the
delay, jitter and bandwidth from one region to another.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from ipaddress import AddressValueError, IPv4Address
from typing import Self

from pydantic import Field, field_validator, model_validator

from brokerproof.errors import InputError, NodeError
from brokerproof.experiment.topology import LinkQuality, Topology
from brokerproof.experiment.yaml_models import FrozenModel, suggest_name


class Route(FrozenModel):
    """One viewer and one target. The link process passes connections to `listen_address` on to `target_address`."""

    viewer: str = Field(min_length=1, description="node, or place of a client, that connects")
    viewer_region: str
    target: str = Field(min_length=1, description="node that it connects to")
    target_region: str
    listen_address: str
    target_address: str
    ports: list[int] = Field(min_length=1, description="the same on both addresses")
    redial_s: float = Field(
        0,
        ge=0,
        description="seconds for which a target that refuses is called again before the viewer is reset; for a viewer "
        "that would try again by itself if it were refused, but not after it was connected",
    )

    @field_validator("listen_address", "target_address")
    @classmethod
    def _check_address(cls, value: str) -> str:
        try:
            IPv4Address(value)
        except AddressValueError:
            raise InputError(f"`{value}` is no IPv4 address", remedy="write one like `127.10.1.11`") from None
        return value

    @field_validator("ports")
    @classmethod
    def _check_ports(cls, value: list[int]) -> list[int]:
        if wrong := [port for port in value if not 0 < port < 65536]:
            raise InputError(f"{wrong[0]} is no port", remedy="choose one of 1 to 65535")
        return value

    @model_validator(mode="after")
    def _check_it_leads_elsewhere(self) -> Self:
        if self.listen_address == self.target_address:
            raise InputError(
                f"leads from {self.listen_address} to itself",
                field="listen_address",
                remedy="give the viewer an address of its own for this target",
            )
        return self


class Shape(LinkQuality):
    """Delay, jitter and bandwidth of the traffic from one region to another while no fault acts on it."""

    sender: str = Field(description="region")
    receiver: str = Field(description="region")


class Plan(FrozenModel):
    """All routes of a run. Between two regions without a shape, bytes are passed on at once."""

    routes: list[Route] = Field(min_length=1)
    shapes: list[Shape] = Field(default_factory=list)
    buffer_mib: float = Field(
        8,
        gt=0,
        description="largest amount of data under way in one direction of one connection. It limits the throughput: "
        "8 MiB at 50 ms one way let 1.3 Gbit/s through",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._check_addresses_are_unique()
        self._check_shapes_have_routes()
        return self

    def _check_addresses_are_unique(self) -> None:
        taken: dict[tuple[str, int], int] = {}
        for number, route in enumerate(self.routes):
            for port in route.ports:
                other = taken.setdefault((route.listen_address, port), number)
                if other != number or route.ports.count(port) > 1:
                    raise InputError(
                        f"{route.listen_address}:{port} is listened on twice, for {route.viewer} → {route.target} "
                        f"and for {self.routes[other].viewer} → {self.routes[other].target}",
                        field=f"routes.{number}.listen_address",
                        remedy="give each viewer and target an address of their own",
                    )

    def _check_shapes_have_routes(self) -> None:
        regions = {region for route in self.routes for region in (route.viewer_region, route.target_region)}
        seen: set[Sequence[str]] = set()
        for number, shape in enumerate(self.shapes):
            for side in ("sender", "receiver"):
                if (region := getattr(shape, side)) not in regions:
                    raise InputError(
                        f"no route touches region `{region}`",
                        field=f"shapes.{number}.{side}",
                        remedy=suggest_name(region, regions),
                    )
            pair = (shape.sender, shape.receiver)
            if pair in seen:
                raise InputError(
                    f"{shape.sender} → {shape.receiver} has two shapes", field=f"shapes.{number}", remedy="keep one"
                )
            seen.add(pair)


class Condition(LinkQuality):
    """A disturbance of the traffic between nodes, in force until it is removed by its id.

    Its delay and jitter are added to those of the link between the regions and of other conditions. The smallest
    bandwidth counts. One condition with a cut stops the traffic.
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
    """Return whether `sender` is in `senders` and `receiver` in `receivers`, or the reverse if `both_ways`."""
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


def accepts_connection(route: Route, *, timeout_s: float) -> bool:
    """Return whether a new connection on the route is accepted within `timeout_s` seconds.

    The result is True even if the target is down, because the link process accepts before it connects to the target.
    Raises NodeError if the connection is refused: then no link process listens, which proves neither a cut nor its end.
    """
    address, port = route.listen_address, route.ports[0]
    try:
        socket.create_connection((address, port), timeout=timeout_s).close()
    except TimeoutError:
        return False
    except ConnectionRefusedError as error:
        raise NodeError(
            f"nothing listens at {address}:{port}, where {route.viewer} connects to {route.target}; the log of the "
            "link process says whether it has ended"
        ) from error
    except ConnectionError:
        # The link accepted the connection, and then found that the target is down.
        return True
    return True
