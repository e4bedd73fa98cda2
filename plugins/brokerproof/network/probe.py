"""Tries a route as a node would: by a new connection."""

from __future__ import annotations

import socket

from brokerproof.network.routes import Route


def accepts_connection(route: Route, *, timeout_s: float) -> bool:
    """Whether the route lets a new connection in within `timeout_s` seconds."""
    try:
        socket.create_connection((route.listen_address, route.ports[0]), timeout=timeout_s).close()
    except TimeoutError:
        return False
    except ConnectionError:
        # The link let it in and found that the target is down.
        return True
    return True
