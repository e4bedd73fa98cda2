"""One connection of a viewer to a target: its set-up, its two pipes, its end."""

from __future__ import annotations

import errno
import logging
import os
import socket
import time
from collections.abc import Callable

from brokerproof.network.pipe import End, Ending, Pipe
from brokerproof.network.poller import OUT, Poller
from brokerproof.network.way import Way

log = logging.getLogger(__name__)

# A size that is set does not grow by itself: during a cut the kernel takes no more than this from a sender.
RECEIVE_BUFFER_BYTES = 262_144


class Connection:
    """A viewer's socket, and from the SYN's arrival on the target's."""

    def __init__(
        self,
        viewer: socket.socket,
        target: tuple[str, int],
        there: Way,
        back: Way,
        poller: Poller,
        *,
        most_held: int,
        closed: Callable[[Connection], None],
    ) -> None:
        self._target_address, self._poller, self._closed = target, poller, closed
        self._there = Pipe(there, poller, most_held=most_held, delivered=self._there_ended)
        self._back = Pipe(back, poller, most_held=most_held, delivered=self._back_ended)
        viewer.setblocking(False)
        viewer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._viewer = self._there.source = self._back.sink = End(
            viewer, poller, incoming=self._there, outgoing=self._back
        )
        self._target: End | None = None
        self._dialing: socket.socket | None = None
        self._over = False
        # The SYN was under way when the way was cut, and is sent again when it heals.
        self._syn_lost = False
        self._fins: set[Pipe] = set()

    @property
    def pipes(self) -> tuple[Pipe, Pipe]:
        """Both directions: there and back."""
        return self._there, self._back

    def start(self) -> None:
        """Send the SYN on its way to the target."""
        self._poller.call_at(time.monotonic() + self._there.way.delay_s, self._syn_arrives)

    def reshape(self, *, there_was_cut: bool, back_was_cut: bool) -> None:
        """Follow what has changed about the route."""
        if self._syn_lost and not self._cut():
            self._syn_lost = False
            self.start()
        self._there.reshape(was_cut=there_was_cut)
        self._back.reshape(was_cut=back_was_cut)

    def reset(self) -> None:
        """Close both sockets with a RST, now."""
        self._close(reset=True)

    def _cut(self) -> bool:
        return self._there.way.cut or self._back.way.cut

    def _syn_arrives(self) -> None:
        if self._over:
            return
        if self._cut():
            self._syn_lost = True
            return
        # On a wire the viewer's first bytes set out when the SYN-ACK is back, and the target knows of the connection
        # when the ACK has arrived: here both know sooner, so their first bytes wait.
        there, back = self._there.way.delay_s, self._back.way.delay_s
        now = time.monotonic()
        self._viewer_opens_at = now + back if back else 0.0
        self._target_opens_at = now + back + there if there or back else 0.0
        try:
            dialing = socket.socket()
        except OSError as error:
            log.error("no connection to %s:%d: %s", *self._target_address, error)
            self._refused()
            return
        self._dialing = dialing
        dialing.setblocking(False)
        dialing.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        dialing.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        failure = dialing.connect_ex(self._target_address)
        if failure not in (0, errno.EINPROGRESS):
            # Not the target's doing: no port of ours is left, or no route leads there.
            log.error("no connection to %s:%d: %s", *self._target_address, os.strerror(failure))
            self._refused()
            return
        self._poller.watch(dialing.fileno(), OUT, self._dialed)

    def _dialed(self, _: int) -> None:
        dialing = self._dialing
        if dialing is None:
            return
        if dialing.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._refused()
            return
        self._poller.watch(dialing.fileno(), 0, self._dialed)
        self._dialing = None
        self._target = self._there.sink = self._back.source = End(
            dialing, self._poller, incoming=self._back, outgoing=self._there
        )
        self._there.open(self._viewer_opens_at)
        self._back.open(self._target_opens_at)

    def _refused(self) -> None:
        """There is no connection to the target; the viewer's RST sets out."""
        self._there.way.meter.refused += 1
        if self._dialing is not None:
            self._poller.close(self._dialing)
            self._dialing = None
        self._back.end(Ending.RST)

    def _there_ended(self, ending: Ending) -> None:
        self._ended(self._there, ending)

    def _back_ended(self, ending: Ending) -> None:
        self._ended(self._back, ending)

    def _ended(self, pipe: Pipe, ending: Ending) -> None:
        self._fins.add(pipe)
        if ending is Ending.RST or len(self._fins) == 2:
            self._close(reset=ending is Ending.RST)

    def _close(self, *, reset: bool) -> None:
        if self._over:
            return
        self._over = True
        for pipe in self.pipes:
            pipe.close()
        self._viewer.close(reset=reset)
        if self._target is not None:
            self._target.close(reset=reset)
        if self._dialing is not None:
            self._poller.close(self._dialing)
            self._dialing = None
        self._closed(self)
