"""The event loop of the link process, without the process."""

from __future__ import annotations

import socket

import pytest
from brokerproof.network.poller import IN, Poller


@pytest.mark.parametrize("when", [1e20, float("inf")])
def test_a_timer_beyond_all_times_keeps_no_socket_waiting(when: float) -> None:
    poller = Poller()
    called: list[str] = []
    poller.call_at(when, lambda: called.append("timer"))
    near, far = socket.socketpair()
    with near, far:
        poller.watch(near.fileno(), IN, lambda _: called.append("socket"))
        far.send(b"x")
        poller.turn()
    assert called == ["socket"]
