"""How connections end: FIN, RST, a refused target, and the reset that is ordered."""

from __future__ import annotations

import socket
import time

import pytest
from brokerproof.clock import wait_until

from .lab import PATIENCE_S, SILENCE_S, Lab, both, close_with_reset, one_way_s, receive, shape, silent


@pytest.mark.parametrize("delay_ms", [0, 20])
def test_half_a_close_is_passed_on_behind_the_bytes_and_the_other_half_stays_open(lab: Lab, delay_ms: float) -> None:
    lab.start(*both(delay_ms=delay_ms))
    viewer, target = lab.connect()
    viewer.sendall(b"question" * 100_000)
    viewer.shutdown(socket.SHUT_WR)
    assert receive(target, 10_000_000) == b"question" * 100_000
    target.sendall(b"answer")
    assert receive(viewer, 6) == b"answer"
    target.close()
    assert viewer.recv(1) == b""


def test_without_half_a_close_there_is_no_end_of_bytes(lab: Lab) -> None:
    lab.start()
    viewer, target = lab.connect()
    viewer.sendall(b"question")
    assert receive(target, 8) == b"question"
    assert silent(target)


def test_an_end_takes_as_long_as_bytes_do(lab: Lab) -> None:
    lab.start(shape("us", "eu", delay_ms=80))
    viewer, target = lab.connect()
    started = time.monotonic()
    target.close()
    assert viewer.recv(1) == b""
    assert time.monotonic() - started >= 0.080


@pytest.mark.parametrize("delay_ms", [0, 20])
def test_a_reset_is_passed_on_as_a_reset(lab: Lab, delay_ms: float) -> None:
    lab.start(*both(delay_ms=delay_ms))
    viewer, target = lab.connect()
    started = time.monotonic()
    close_with_reset(target)
    with pytest.raises(ConnectionResetError):
        viewer.recv(1)
    assert time.monotonic() - started >= delay_ms / 1000


def test_writing_to_an_end_that_closed_meets_a_reset(lab: Lab) -> None:
    lab.start()
    viewer, target = lab.connect()
    target.close()
    assert viewer.recv(1) == b""

    def refused() -> bool:
        try:
            viewer.sendall(b"x")
        except (ConnectionResetError, BrokenPipeError):
            return True
        return False

    wait_until(refused, timeout_s=PATIENCE_S, what="the viewer to be reset", every_s=0.01)


def test_a_target_that_refuses_resets_the_viewer_one_round_trip_later(lab: Lab) -> None:
    link = lab.start(*both(delay_ms=30))
    lab.end_target(1)
    started = time.monotonic()
    viewer = lab.dial()
    with pytest.raises(ConnectionResetError):
        viewer.recv(1)
    assert time.monotonic() - started >= 0.060
    pair = next(pair for pair in link.metrics().pairs if pair.sender == "eu")
    assert (pair.refused, pair.opened, pair.open) == (1, 1, 0)


def test_a_target_that_listens_a_moment_later_is_called_again_where_the_route_says_so(lab: Lab) -> None:
    link = lab.start(*both(delay_ms=10), redial_s=PATIENCE_S)
    lab.end_target(1)
    viewer = lab.dial()
    viewer.sendall(b"early")
    time.sleep(SILENCE_S)
    lab.listen(1)
    target = lab.accept(1)
    assert target.recv(5) == b"early"
    one_way_s(target, viewer)
    assert next(pair for pair in link.metrics().pairs if pair.sender == "eu").refused == 0


def test_a_target_that_stays_away_resets_the_viewer_in_the_end(lab: Lab) -> None:
    link = lab.start(redial_s=0.2)
    lab.end_target(1)
    started = time.monotonic()
    viewer = lab.dial()
    with pytest.raises(ConnectionResetError):
        viewer.recv(1)
    assert 0.15 <= time.monotonic() - started < PATIENCE_S
    pair = next(pair for pair in link.metrics().pairs if pair.sender == "eu")
    assert (pair.refused, pair.opened, pair.open) == (1, 1, 0)


def test_a_target_that_comes_back_is_reached_again(lab: Lab) -> None:
    lab.start()
    lab.end_target(1)
    with pytest.raises(ConnectionResetError):
        lab.dial().recv(1)
    lab.listen(1)
    one_way_s(*lab.connect())


def test_an_ordered_reset_is_seen_at_both_ends_and_by_nobody_else(lab: Lab) -> None:
    link = lab.start(*both(delay_ms=10))
    ends, spared = lab.connect(1), lab.connect(2)
    effect = link.reset("r", ["us-1"], ["eu-1"], both_ways=False)
    assert (effect.connections, effect.listeners) == (1, 1)
    for end in ends:
        with pytest.raises(ConnectionResetError):
            end.recv(1)
    one_way_s(*spared)
    one_way_s(*lab.connect(1))


def test_connections_that_ended_are_forgotten(lab: Lab) -> None:
    link = lab.start()
    for _ in range(5):
        viewer, target = lab.connect()
        viewer.close()
        target.close()
        viewer, target = lab.connect()
        close_with_reset(viewer)
        close_with_reset(target)
    wait_until(lambda: link.state().connections == 0, timeout_s=PATIENCE_S, what="the link to forget the connections")
    assert next(pair.opened for pair in link.metrics().pairs if pair.sender == "eu") == 10
