"""A route: how a node or client (the viewer) reaches a node of another region (the target) through the link process."""

from __future__ import annotations

import socket
from ipaddress import AddressValueError, IPv4Address
from typing import Self

from pydantic import Field, field_validator, model_validator

from brokerproof.errors import InputError
from brokerproof.experiment.yaml_models import FrozenModel


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


def accepts_connection(route: Route, *, timeout_s: float) -> bool:
    """Return whether the link accepts a new connection on the route within `timeout_s` seconds.

    The result is True even if the target is down, because the link accepts the connection first.
    """
    try:
        socket.create_connection((route.listen_address, route.ports[0]), timeout=timeout_s).close()
    except TimeoutError:
        return False
    except ConnectionError:
        # The link accepted the connection, and then found that the target is down.
        return True
    return True
