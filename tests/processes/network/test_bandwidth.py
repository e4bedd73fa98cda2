"""Bandwidth: a line that all connections between two regions share in turns."""

from __future__ import annotations

import socket
import threading
import time

from brokerproof.network import Condition

from .lab import Lab, one_way_s, receive, shape

MEGABYTE = bytes(1_000_000)
RATE_MBIT = 16.0
# One megabyte at that rate; the first segment sets out at once, hence the last percent.
MEGABYTE_S = 0.5 * 0.99


def transfer_s(*ends: tuple[socket.socket, socket.socket]) -> float:
    """Seconds until a megabyte has arrived on each of these connections, sent at the same time."""
    started = time.monotonic()
    threads = [threading.Thread(target=sender.sendall, args=(MEGABYTE,)) for sender, _ in ends]
    received = [0] * len(ends)

    def read(place: int, receiver: socket.socket) -> None:
        received[place] = len(receive(receiver, len(MEGABYTE)))

    threads += [threading.Thread(target=read, args=(place, receiver)) for place, (_, receiver) in enumerate(ends)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert received == [len(MEGABYTE)] * len(ends)
    return time.monotonic() - started


def test_a_line_limits_its_own_direction_only(lab: Lab) -> None:
    lab.start(shape("eu", "us", bandwidth_mbit=RATE_MBIT))
    viewer, target = lab.connect()
    assert MEGABYTE_S <= transfer_s((viewer, target)) < 10 * MEGABYTE_S
    assert min(transfer_s((target, viewer)) for _ in range(3)) < MEGABYTE_S / 2


def test_two_connections_share_a_line(lab: Lab) -> None:
    lab.start(shape("eu", "us", bandwidth_mbit=RATE_MBIT))
    one, other = lab.connect(1), lab.connect(2)
    assert transfer_s(one, other) >= 2 * MEGABYTE_S


def test_a_few_bytes_are_not_stuck_behind_another_connections_many(lab: Lab) -> None:
    lab.start(shape("eu", "us", bandwidth_mbit=RATE_MBIT))
    bulk, small = lab.connect(1), lab.connect(2)
    bulk[1].setblocking(True)
    sent = threading.Thread(target=lambda: [bulk[0].sendall(MEGABYTE) for _ in range(3)])
    arrived: list[float] = []

    def read() -> None:
        receive(bulk[1], 3 * len(MEGABYTE))
        arrived.append(time.monotonic())

    reader = threading.Thread(target=read)
    sent.start()
    reader.start()
    receive_some = [one_way_s(*small) for _ in range(10)]
    assert not arrived, "the many bytes had passed already; the test shows nothing"
    assert min(receive_some) < 0.1
    sent.join()
    reader.join()


def test_a_condition_narrows_the_line_of_its_nodes_and_is_lifted(lab: Lab) -> None:
    link = lab.start(shape("eu", "us", bandwidth_mbit=10 * RATE_MBIT))
    concerned, spared = lab.connect(1), lab.connect(2)
    assert min(transfer_s(concerned) for _ in range(3)) < MEGABYTE_S
    narrow = Condition(id="narrow", senders=["eu-1"], receivers=["us-1"], both_ways=False, bandwidth_mbit=RATE_MBIT)
    link.add(narrow)
    assert transfer_s(concerned) >= MEGABYTE_S
    assert min(transfer_s(spared) for _ in range(3)) < MEGABYTE_S
    link.remove("narrow")
    assert min(transfer_s(concerned) for _ in range(3)) < MEGABYTE_S


def test_what_waits_for_a_line_sets_out_when_the_line_is_lifted(lab: Lab) -> None:
    link = lab.start()
    viewer, target = lab.connect()
    link.add(Condition(id="narrow", senders=["eu-1"], receivers=["us-1"], both_ways=False, bandwidth_mbit=0.01))
    viewer.sendall(MEGABYTE[:60_000])
    link.remove("narrow")
    started = time.monotonic()
    assert len(receive(target, 60_000)) == 60_000
    # At 10 kbit/s it would have taken 48 s.
    assert time.monotonic() - started < 10
