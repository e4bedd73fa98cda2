"""Closes clients that have done their work. A node that hangs may make a close hang too."""

from __future__ import annotations

import sys
import threading
from typing import Protocol


class Closeable(Protocol):
    """A client of the messaging system, or a part of a client, such as a producer."""

    def close(self) -> None:
        """Close the client."""


def close_clients(**clients: Closeable) -> None:
    """Close clients one after the other. Errors are printed to stderr, not raised."""
    for name, client in clients.items():
        try:
            client.close()
        except Exception as error:
            print(f"the {name} did not close: {error!r}", file=sys.stderr)


def begin_closing(**clients: Closeable) -> threading.Thread:
    """Close clients on another thread, and return the thread at once."""
    closing = threading.Thread(target=close_clients, kwargs=clients, name="close", daemon=True)
    closing.start()
    return closing


def close_in_time(timeout_s: float, **clients: Closeable) -> None:
    """Close clients, but return after `timeout_s` seconds at the latest."""
    closing = begin_closing(**clients)
    closing.join(timeout_s)
    if closing.is_alive():
        print(f"{' and '.join(clients)} did not close in {timeout_s:.0f} s", file=sys.stderr)
