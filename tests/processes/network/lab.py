"""A link between a viewer in eu and two targets in us, on addresses of its own."""

from __future__ import annotations

import os
import socket
import struct
import time
from pathlib import Path

from brokerproof.machine.processes import end_processes, find_marked_processes
from brokerproof.network import Condition, LinkClient, Plan, Route, Shape, start_link_process

PORT = 7000
# Long enough for a busy machine; no test waits so long when all is well.
PATIENCE_S = 20.0
# How long nothing must arrive for a test to believe that nothing does.
SILENCE_S = 0.3


class Lab:
    """Two sockets listen as `us-1` and `us-2`; `eu-1` sees them through the link."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.nodes = run / "nodes"
        self.subnet = f"127.230.{os.getpid() % 250}"
        self._sockets: list[socket.socket] = []
        self._targets: dict[str, socket.socket] = {}
        for number in (1, 2):
            self.listen(number)

    def listen(self, number: int) -> None:
        """Let a target listen."""
        target = socket.create_server((f"{self.subnet}.{number}", PORT))
        target.settimeout(PATIENCE_S)
        self._targets[f"us-{number}"] = target

    def end_target(self, number: int) -> None:
        """Let nothing listen as this target any more."""
        self._targets.pop(f"us-{number}").close()

    def plan(self, *shapes: Shape, buffer_mib: float = 8, redial_s: float = 0) -> Plan:
        """The routes from eu-1, with shapes."""
        routes = [
            Route(
                viewer="eu-1",
                viewer_region="eu",
                target=f"us-{number}",
                target_region="us",
                listen_address=f"{self.subnet}.{100 + number}",
                target_address=f"{self.subnet}.{number}",
                ports=[PORT],
                redial_s=redial_s,
            )
            for number in (1, 2)
        ]
        return Plan(routes=routes, shapes=list(shapes), buffer_mib=buffer_mib)

    def start(self, *shapes: Shape, buffer_mib: float = 8, redial_s: float = 0) -> LinkClient:
        """Start the link."""
        return start_link_process(self.nodes, self.plan(*shapes, buffer_mib=buffer_mib, redial_s=redial_s))

    def dial(self, number: int = 1, *, timeout_s: float = PATIENCE_S) -> socket.socket:
        """Connect as eu-1 to a target through the link; gives up for good after the time."""
        viewer = socket.socket()
        self._sockets.append(viewer)
        viewer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        viewer.settimeout(timeout_s)
        try:
            viewer.connect((f"{self.subnet}.{100 + number}", PORT))
        except TimeoutError:
            # Its kernel would go on trying.
            viewer.close()
            raise
        viewer.settimeout(PATIENCE_S)
        return viewer

    def accept(self, number: int = 1) -> socket.socket:
        """The target's end of the connection that it gets next."""
        target, _ = self._targets[f"us-{number}"].accept()
        self._sockets.append(target)
        target.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        target.settimeout(PATIENCE_S)
        return target

    def connect(self, number: int = 1) -> tuple[socket.socket, socket.socket]:
        """Both ends of a connection over which bytes have gone each way already."""
        viewer = self.dial(number)
        target = self.accept(number)
        one_way_s(viewer, target)
        one_way_s(target, viewer)
        return viewer, target

    def close(self) -> None:
        """End everything."""
        end_processes(find_marked_processes(self.run))
        for each in (*self._sockets, *self._targets.values()):
            each.close()


def shape(sender: str, receiver: str, **quality: float) -> Shape:
    return Shape(sender=sender, receiver=receiver, **quality)


def both(**quality: float) -> tuple[Shape, Shape]:
    """The same shape in both directions."""
    return shape("eu", "us", **quality), shape("us", "eu", **quality)


def partition(
    senders: tuple[str, ...] = ("eu-1",),
    receivers: tuple[str, ...] = ("us-1", "us-2"),
    *,
    name: str = "partition",
    both_ways: bool = True,
) -> Condition:
    return Condition(id=name, senders=list(senders), receivers=list(receivers), both_ways=both_ways, cut=True)


def one_way_s(sender: socket.socket, receiver: socket.socket, content: bytes = b"x") -> float:
    """Seconds that a few bytes take from one end to the other."""
    started = time.monotonic()
    sender.sendall(content)
    assert receive(receiver, len(content)) == content
    return time.monotonic() - started


def receive(receiver: socket.socket, size: int) -> bytes:
    """So many bytes, or fewer where the sender ends before."""
    content = bytearray()
    while len(content) < size and (part := receiver.recv(min(1 << 20, size - len(content)))):
        content += part
    return bytes(content)


def silent(receiver: socket.socket, for_s: float = SILENCE_S) -> bool:
    """Whether neither bytes nor an end nor an error arrives in that time."""
    receiver.settimeout(for_s)
    try:
        receiver.recv(1, socket.MSG_PEEK)
    except TimeoutError:
        return True
    except ConnectionError:
        return False
    finally:
        receiver.settimeout(PATIENCE_S)
    return False


def close_with_reset(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()
