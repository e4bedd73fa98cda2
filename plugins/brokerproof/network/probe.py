"""Tries a route by a new connection, as a node would."""

from __future__ import annotations

import socket

from brokerproof.network.routes import Route


def accepts_connection(route: Route, *, timeout_s: float) -> bool:
    """Return whether the link accepts a new connection on the route within `timeout_s` seconds."""
    try:
        socket.create_connection((route.listen_address, route.ports[0]), timeout=timeout_s).close()
    except TimeoutError:
        return False
    except ConnectionError:
        # The link accepted the connection, and then found that the target is down.
        return True
    return True
