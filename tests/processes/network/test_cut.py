"""A cut: nothing gets through, nobody learns anything, nothing is lost or repeated after it."""

from __future__ import annotations

import contextlib
import hashlib
import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest
from brokerproof.clock import wait_until
from brokerproof.network import LinkClient

from .lab import PATIENCE_S, SILENCE_S, Lab, both, close_with_reset, one_way_s, partition, receive, shape, silent

MEBIBYTE = 2**20


@contextmanager
def dialing(lab: Lab) -> Iterator[list[socket.socket]]:
    """Connect in the background; the list holds the socket once that is done."""
    done: list[socket.socket] = []
    thread = threading.Thread(target=lambda: done.append(lab.dial()))
    thread.start()
    yield done
    thread.join()


def held(link: LinkClient, sender: str) -> int:
    return next(pair.held_bytes for pair in link.metrics().pairs if pair.sender == sender)


def test_without_a_cut_bytes_arrive_in_the_time_that_counts_as_silence(lab: Lab) -> None:
    lab.start()
    viewer, target = lab.connect()
    viewer.sendall(b"x")
    assert not silent(target)


def test_a_cut_holds_both_directions_and_lets_everything_through_afterwards(lab: Lab) -> None:
    link = lab.start(*both(delay_ms=5))
    viewer, target = lab.connect()
    link.add(partition())
    viewer.sendall(b"there")
    target.sendall(b"back")
    assert silent(viewer)
    assert silent(target)
    assert held(link, "eu") == len(b"there")
    link.remove("partition")
    assert receive(target, 5) == b"there"
    assert receive(viewer, 4) == b"back"


def test_bytes_under_way_when_the_cut_comes_arrive_after_it(lab: Lab) -> None:
    link = lab.start(shape("eu", "us", delay_ms=500))
    viewer, target = lab.connect()
    viewer.sendall(b"x")
    link.add(partition())
    assert silent(target, 0.8)
    healed = time.monotonic()
    link.remove("partition")
    assert receive(target, 1) == b"x"
    assert time.monotonic() - healed >= 0.5


@pytest.mark.parametrize(("senders", "receivers"), [(("eu-1",), ("us-1",)), (("us-1",), ("eu-1",))])
def test_a_cut_in_one_direction_lets_the_other_flow(
    lab: Lab, senders: tuple[str, ...], receivers: tuple[str, ...]
) -> None:
    link = lab.start()
    viewer, target = lab.connect()
    cut, flowing = (viewer, target), (target, viewer)
    if senders == ("us-1",):
        cut, flowing = flowing, cut
    link.add(partition(senders, receivers, both_ways=False))
    cut[0].sendall(b"x")
    assert silent(cut[1])
    for _ in range(5):
        one_way_s(*flowing)
    link.remove("partition")
    assert receive(cut[1], 1) == b"x"


def test_repeated_cuts_neither_lose_nor_repeat_nor_reorder_a_byte(lab: Lab) -> None:
    link = lab.start(*both(delay_ms=3, jitter_ms=2), buffer_mib=1)
    viewer, target = lab.connect()
    source = random.Random(7).randbytes(24 * MEBIBYTE)
    received = {"there": hashlib.sha256(), "back": hashlib.sha256()}
    sizes = {"there": 0, "back": 0}

    def send(end: socket.socket) -> None:
        for at in range(0, len(source), 50_000):
            end.sendall(source[at : at + 50_000])
        end.shutdown(socket.SHUT_WR)

    def read(end: socket.socket, name: str) -> None:
        while part := end.recv(MEBIBYTE):
            received[name].update(part)
            sizes[name] += len(part)

    end_to_end = [(send, (viewer,)), (send, (target,)), (read, (target, "there")), (read, (viewer, "back"))]
    threads = [threading.Thread(target=act, args=arguments) for act, arguments in end_to_end]
    for thread in threads:
        thread.start()
    cuts = 0
    for both_ways in (True, False, True, False, True):
        before = dict(sizes)
        link.add(partition(both_ways=both_ways))
        cuts += sum(sizes.values()) < 2 * len(source)
        time.sleep(0.05)  # how long a cut lasts is no condition to wait for
        link.remove("partition")
        wait_until(
            lambda before=before: sizes["there"] > before["there"] or sizes["there"] == len(source),
            timeout_s=PATIENCE_S,
            what="bytes to flow again",
            every_s=0.005,
        )
    for thread in threads:
        thread.join()
    assert cuts >= 3, "the bytes had passed before the cuts; the test shows nothing"
    assert sizes == {"there": len(source), "back": len(source)}
    expected = hashlib.sha256(source).digest()
    assert [each.digest() for each in received.values()] == [expected, expected]


def test_nobody_learns_across_a_cut_that_the_other_end_closed(lab: Lab) -> None:
    link = lab.start()
    viewer, target = lab.connect()
    link.add(partition())
    target.sendall(b"last")
    target.close()
    assert silent(viewer)
    link.remove("partition")
    assert receive(viewer, 5) == b"last"


def test_nobody_learns_across_a_cut_that_the_other_end_was_reset(lab: Lab) -> None:
    link = lab.start()
    viewer, target = lab.connect()
    link.add(partition())
    close_with_reset(target)
    assert silent(viewer)
    viewer.sendall(b"x")
    assert silent(viewer)
    link.remove("partition")
    with pytest.raises(ConnectionResetError):
        viewer.recv(1)


@pytest.mark.parametrize("end", [socket.socket.close, close_with_reset])
def test_without_a_cut_an_end_is_learned_in_the_time_that_counts_as_silence(lab: Lab, end: object) -> None:
    lab.start()
    viewer, target = lab.connect()
    assert callable(end)
    end(target)
    assert not silent(viewer)


def test_who_writes_to_the_dead_does_not_learn_of_it_while_their_direction_is_cut(lab: Lab) -> None:
    link = lab.start()
    viewer, target = lab.connect()
    link.add(partition(("us-1",), ("eu-1",), both_ways=False))
    close_with_reset(target)
    # The second write would meet the RST that the first one provoked, were it let through.
    for _ in range(3):
        viewer.sendall(b"x")
        assert silent(viewer, SILENCE_S / 3)
    link.remove("partition")
    with pytest.raises(ConnectionResetError):
        viewer.recv(1)


@pytest.mark.parametrize(
    ("senders", "receivers", "both_ways"),
    [(("eu-1",), ("us-1",), True), (("eu-1",), ("us-1",), False), (("us-1",), ("eu-1",), False)],
)
def test_a_new_connection_hangs_while_cut_and_works_afterwards(
    lab: Lab, senders: tuple[str, ...], receivers: tuple[str, ...], both_ways: bool
) -> None:
    link = lab.start()
    link.add(partition(senders, receivers, both_ways=both_ways))
    with dialing(lab) as done:
        for _ in range(3):
            with pytest.raises(TimeoutError):
                lab.dial(timeout_s=SILENCE_S / 3)
        assert not done
        link.remove("partition")
    viewer, target = done[0], lab.accept()
    one_way_s(viewer, target)
    one_way_s(target, viewer)


def test_without_a_cut_a_connection_is_made_in_the_time_that_counts_as_hanging(lab: Lab) -> None:
    lab.start()
    lab.dial(timeout_s=SILENCE_S / 3)


def test_a_route_that_no_condition_names_stays_open(lab: Lab) -> None:
    link = lab.start()
    link.add(partition(receivers=("us-1",)))
    one_way_s(*lab.connect(2))


def test_a_connection_whose_set_up_the_cut_came_into_is_completed_afterwards(lab: Lab) -> None:
    link = lab.start(shape("eu", "us", delay_ms=300))
    viewer = lab.dial()
    link.add(partition())
    viewer.sendall(b"x")
    wait_until(lambda: link.state().connections == 1, timeout_s=PATIENCE_S, what="the connection")
    assert silent(viewer, 0.5)
    link.remove("partition")
    target = lab.accept()
    assert receive(target, 1) == b"x"
    one_way_s(target, viewer)


@pytest.mark.parametrize("delay_ms", [0, 5])
def test_a_cut_closes_the_senders_window_and_bounds_what_is_held(lab: Lab, delay_ms: float) -> None:
    link = lab.start(*both(delay_ms=delay_ms), buffer_mib=1)
    viewer, target = lab.connect()
    memory = psutil.Process(link.pid).memory_info().rss
    link.add(partition())
    sent = send_until_blocked(viewer)
    assert held(link, "eu") < 2 * MEBIBYTE
    assert psutil.Process(link.pid).memory_info().rss - memory < 8 * MEBIBYTE
    link.remove("partition")
    assert receive(target, len(sent)) == sent
    assert silent(target)


def test_a_receiver_that_does_not_read_bounds_what_is_held_too(lab: Lab) -> None:
    link = lab.start(*both(delay_ms=5), buffer_mib=1)
    viewer, target = lab.connect()
    sent = send_until_blocked(viewer)
    assert held(link, "eu") < 2 * MEBIBYTE
    assert receive(target, len(sent)) == sent
    assert silent(target)


def test_without_a_cut_the_same_many_bytes_get_through(lab: Lab) -> None:
    lab.start(buffer_mib=1)
    viewer, target = lab.connect()
    many = bytes(32 * MEBIBYTE)
    sender = threading.Thread(target=viewer.sendall, args=(many,))
    sender.start()
    assert len(receive(target, len(many))) == len(many)
    sender.join()


def send_until_blocked(sender: socket.socket) -> bytes:
    """What a sender gets rid of before nothing is taken any more; fails where it is far too much."""
    source = random.Random(3).randbytes(32 * MEBIBYTE)
    sender.settimeout(1.0)
    sent = 0
    with contextlib.suppress(TimeoutError):
        while sent < len(source):
            sent += sender.send(source[sent : sent + 65_536])
    sender.settimeout(PATIENCE_S)
    assert sent < len(source), "nothing stopped the sender"
    return source[:sent]
