"""One connection between regions, which the link process passes on.

A node or client (the viewer) opens the connection to a node of another region (the target).
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import time
from collections.abc import Callable

from brokerproof.network.pipe import End, Ending, Pipe
from brokerproof.network.poller import OUT, Poller
from brokerproof.network.route_direction import RouteDirection

log = logging.getLogger(__name__)

# The kernel does not enlarge a buffer whose size is set, so during a cut it takes at most about 400 KiB from a sender.
RECEIVE_BUFFER_BYTES = 262_144
_REDIAL_EVERY_S = 0.02


class Connection:
    """A connection through the link process, which passes bytes between its two ends, in both directions.

    The viewer is a node or client. It connects to the target, which is a node of another region. The socket to the
    target is opened when the emulated SYN arrives at the target.
    """

    def __init__(
        self,
        viewer: socket.socket,
        target: tuple[str, int],
        there: RouteDirection,
        back: RouteDirection,
        poller: Poller,
        *,
        most_held: int,
        redial_s: float,
        on_close: Callable[[Connection], None],
    ) -> None:
        self._target_address, self._poller, self._on_close = target, poller, on_close
        self._redial_s = redial_s
        # When the link first tried to connect to the target (monotonic seconds).
        self._dialed_at: float | None = None
        self._there = Pipe(there, poller, most_held=most_held, on_end=lambda how: self._finish(self._there, how))
        self._back = Pipe(back, poller, most_held=most_held, on_end=lambda how: self._finish(self._back, how))
        viewer.setblocking(False)
        viewer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._viewer = self._there.source = self._back.sink = End(
            viewer, poller, incoming=self._there, outgoing=self._back
        )
        self._target: End | None = None
        self._dialing: socket.socket | None = None
        self._is_closed = False
        # Whether the SYN was lost in a cut. It is then sent again when the route heals.
        self._syn_lost = False
        self._finished: set[Pipe] = set()

    @property
    def pipes(self) -> tuple[Pipe, Pipe]:
        """The pipe from the viewer (the side that connects) to the target, and the pipe from target to viewer."""
        return self._there, self._back

    def start(self) -> None:
        """Send the emulated SYN to the target, where it arrives after the delay."""
        self._poller.call_at(time.monotonic() + self._there.direction.delay_s, self._receive_syn)

    def reshape(self, *, there_was_cut: bool, back_was_cut: bool) -> None:
        """Apply a change of the route's cut, delay, jitter or bandwidth."""
        if self._syn_lost and not self._is_cut():
            self._syn_lost = False
            self.start()
        self._there.reshape(was_cut=there_was_cut)
        self._back.reshape(was_cut=back_was_cut)

    def reset(self) -> None:
        """Close both sockets with a RST at once, without the delay of the route."""
        self._close(reset=True)

    def _is_cut(self) -> bool:
        return self._there.direction.cut or self._back.direction.cut

    def _receive_syn(self) -> None:
        if self._is_closed:
            return
        if self._is_cut():
            self._syn_lost = True
            return
        # On a wire, the viewer's first bytes depart when the SYN-ACK is back, and the target's when the ACK arrives.
        # Here both sides are connected earlier, so their first bytes have to wait.
        there, back = self._there.direction.delay_s, self._back.direction.delay_s
        now = time.monotonic()
        self._dialed_at = self._dialed_at or now
        self._viewer_opens_at = now + back if back else 0.0
        self._target_opens_at = now + back + there if there or back else 0.0
        try:
            dialing = socket.socket()
        except OSError as error:
            log.error("no connection to %s:%d: %s", *self._target_address, error)
            self._refuse()
            return
        self._dialing = dialing
        dialing.setblocking(False)
        dialing.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        dialing.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        failure = dialing.connect_ex(self._target_address)
        if failure not in (0, errno.EINPROGRESS):
            # The target did not refuse. Either no local port is free, or there is no route to the target.
            log.error("no connection to %s:%d: %s", *self._target_address, os.strerror(failure))
            self._refuse()
            return
        self._poller.watch(dialing.fileno(), OUT, self._finish_dialing)

    def _finish_dialing(self, _: int) -> None:
        dialing = self._dialing
        if dialing is None:
            return
        if dialing.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            again_at = time.monotonic() + _REDIAL_EVERY_S
            if again_at < (self._dialed_at or 0) + self._redial_s:
                self._poller.close(dialing)
                self._dialing = None
                self._poller.call_at(again_at, self._receive_syn)
            else:
                self._refuse()
            return
        self._poller.watch(dialing.fileno(), 0, self._finish_dialing)
        self._dialing = None
        self._target = self._there.sink = self._back.source = End(
            dialing, self._poller, incoming=self._back, outgoing=self._there
        )
        self._there.open(self._viewer_opens_at)
        self._back.open(self._target_opens_at)

    def _refuse(self) -> None:
        """Send a RST, with the delay of the route, to the connecting side, because the target could not be reached."""
        self._there.direction.meter.refused += 1
        if self._dialing is not None:
            self._poller.close(self._dialing)
            self._dialing = None
        self._back.end(Ending.RST)

    def _finish(self, pipe: Pipe, ending: Ending) -> None:
        self._finished.add(pipe)
        if ending is Ending.RST or len(self._finished) == 2:
            self._close(reset=ending is Ending.RST)

    def _close(self, *, reset: bool) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        for pipe in self.pipes:
            pipe.close()
        self._viewer.close(reset=reset)
        if self._target is not None:
            self._target.close(reset=reset)
        if self._dialing is not None:
            self._poller.close(self._dialing)
            self._dialing = None
        self._on_close(self)
