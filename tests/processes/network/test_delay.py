"""Delay and jitter: never early, in order, in the direction that was asked for."""

from __future__ import annotations

import socket
import statistics
import struct
import threading
import time

from brokerproof.network import Condition

from .lab import Lab, both, one_way_s, receive, shape

# What a busy machine may add and a test must not mind.
SLACK_S = 1.0


def numbered(first: int, last: int) -> bytes:
    return b"".join(struct.pack("!Q", number) for number in range(first, last))


def test_a_delay_holds_bytes_back_in_its_own_direction_only(lab: Lab) -> None:
    lab.start(shape("eu", "us", delay_ms=60))
    viewer, target = lab.connect()
    there = [one_way_s(viewer, target) for _ in range(10)]
    back = [one_way_s(target, viewer) for _ in range(10)]
    assert min(there) >= 0.060
    assert min(there) < 0.060 + SLACK_S
    assert min(back) < 0.030


def test_without_a_shape_a_round_trip_is_far_below_the_delays_tested_here(lab: Lab) -> None:
    lab.start()
    viewer, target = lab.connect()
    assert min(one_way_s(viewer, target) + one_way_s(target, viewer) for _ in range(10)) < 0.030


def test_delays_of_both_directions_make_the_round_trip(lab: Lab) -> None:
    lab.start(shape("eu", "us", delay_ms=30), shape("us", "eu", delay_ms=50))
    viewer, target = lab.connect()
    trips = [one_way_s(viewer, target) + one_way_s(target, viewer) for _ in range(10)]
    assert min(trips) >= 0.080
    assert min(trips) < 0.080 + SLACK_S


def test_a_delay_is_kept_to_the_millisecond(lab: Lab) -> None:
    link = lab.start(shape("eu", "us", delay_ms=10))
    viewer, target = lab.connect()
    link.metrics()
    took = [one_way_s(viewer, target) for _ in range(60)]
    assert min(took) >= 0.010
    # A machine with nothing else to do shows about 0.4 ms; three quarters of the chunks may suffer on a busy one.
    assert statistics.quantiles(took, n=4)[0] < 0.015
    added = next(pair.added for pair in link.metrics().pairs if pair.sender == "eu")
    assert added.count == 60
    assert 0 <= added.p50_ms <= added.p99_ms <= added.max_ms


def test_a_new_connections_first_bytes_pay_for_its_set_up(lab: Lab) -> None:
    lab.start(*both(delay_ms=40))
    started = time.monotonic()
    viewer = lab.dial()
    viewer.sendall(b"x")
    target = lab.accept()
    assert receive(target, 1) == b"x"
    first = time.monotonic() - started
    assert first >= 3 * 0.040
    assert min(one_way_s(viewer, target) for _ in range(5)) < 2 * 0.040


def test_a_targets_greeting_waits_until_the_set_up_is_complete(lab: Lab) -> None:
    lab.start(*both(delay_ms=40))
    started = time.monotonic()
    viewer = lab.dial()
    lab.accept().sendall(b"x")
    assert receive(viewer, 1) == b"x"
    assert time.monotonic() - started >= 4 * 0.040


def test_jitter_spreads_arrivals_and_never_reorders(lab: Lab) -> None:
    lab.start(shape("eu", "us", delay_ms=20, jitter_ms=20))
    viewer, target = lab.connect()
    took = [one_way_s(viewer, target) for _ in range(40)]
    assert max(took) - min(took) > 0.010
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(receive(target, 8 * 3000)))
    reader.start()
    for number in range(3000):
        viewer.sendall(struct.pack("!Q", number))
    reader.join()
    assert received[0] == numbered(0, 3000)


def test_without_jitter_arrivals_are_not_spread(lab: Lab) -> None:
    lab.start(shape("eu", "us", delay_ms=20))
    viewer, target = lab.connect()
    took = [one_way_s(viewer, target) for _ in range(40)]
    assert statistics.median(took) - min(took) < 0.010


def test_a_delay_that_goes_and_comes_under_traffic_keeps_the_order(lab: Lab) -> None:
    link = lab.start(shape("eu", "us", delay_ms=5))
    viewer, target = lab.connect()
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(receive(target, 8 * 20_000)))
    reader.start()
    more = Condition(id="more", senders=["eu-1"], receivers=["us-1"], both_ways=False, delay_ms=80)
    for first in range(0, 20_000, 2_000):
        link.remove("more") if link.state().conditions else link.add(more)
        send_in_small_parts(viewer, numbered(first, first + 2_000))
    reader.join()
    assert received[0] == numbered(0, 20_000)


def send_in_small_parts(sender: socket.socket, content: bytes) -> None:
    for at in range(0, len(content), 100):
        sender.sendall(content[at : at + 100])
