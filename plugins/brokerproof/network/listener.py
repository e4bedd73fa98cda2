"""One address and port that the link process listens on, with its open connections."""

from __future__ import annotations

import array
import errno
import logging
import socket
import struct
import time

from brokerproof.errors import MachineError
from brokerproof.network.connection import RECEIVE_BUFFER_BYTES, Connection
from brokerproof.network.poller import IN, Poller
from brokerproof.network.route_direction import RouteDirection

log = logging.getLogger(__name__)

# From asm-generic/socket.h, because Python has no names for them.
_SO_ATTACH_FILTER = 26
_SO_DETACH_FILTER = 27
# A classic BPF program of one instruction, `ret #0`: accept 0 bytes of any packet.
_DROP = array.array("B", struct.pack("=HBBI", 0x06, 0, 0, 0))
_DROP_PROGRAM = struct.pack("HP", 1, _DROP.buffer_info()[0])
_ACCEPT_AT_ONCE = 64
_TRY_AGAIN_S = 0.1


class Listener:
    """Accepts the connections of one route on one port. While the route is cut, it drops every SYN, as on a dead wire.

    A socket filter drops the SYNs, which needs no privilege. A backlog of 0 would still let one connection in. The
    connecting kernel repeats a dropped SYN 1, 2, 3, 4, 5, 7, 11 s … after the first one. The connection succeeds with
    the first SYN after the filter is removed.
    """

    def __init__(
        self,
        listen: tuple[str, int],
        target: tuple[str, int],
        there: RouteDirection,
        back: RouteDirection,
        poller: Poller,
        *,
        most_held: int,
        redial_s: float = 0,
    ) -> None:
        self.there, self.back = there, back
        self.connections: set[Connection] = set()
        self._target, self._poller, self._most_held, self._redial_s = target, poller, most_held, redial_s
        self._drops_packets = False
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        self._socket.setblocking(False)
        try:
            self._socket.bind(listen)
            self._socket.listen(1024)
        except OSError as error:
            raise MachineError(
                f"the link {there.sender} → {there.receiver} cannot listen on {listen[0]}:{listen[1]}: "
                f"{error.strerror}; end what listens there (`brokerproof down` ends what earlier runs left)"
            ) from error
        try:
            # Tried now, so that a kernel without filters is found at the start and not at the first cut.
            self._drop_packets(True)
            self._drop_packets(False)
        except OSError as error:
            raise MachineError(
                f"this kernel attaches no filter to a socket ({error.strerror}), so that connections between regions "
                "cannot be cut; use Linux itself, not an emulation of it"
            ) from error
        self._listen_for(True)

    def reshape(self, *, there_was_cut: bool, back_was_cut: bool) -> None:
        """Apply a change of the route's cut, delay, jitter or bandwidth to all connections, open and new."""
        cut = self.there.cut or self.back.cut
        if cut != self._drops_packets:
            self._drops_packets = cut
            self._drop_packets(cut)
        for connection in list(self.connections):
            connection.reshape(there_was_cut=there_was_cut, back_was_cut=back_was_cut)

    def _drop_packets(self, on: bool) -> None:
        if on:
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, _DROP_PROGRAM)
        else:
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)

    def _listen_for(self, on: bool) -> None:
        self._poller.watch(self._socket.fileno(), IN if on else 0, self._accept)

    def _accept(self, _: int) -> None:
        for _ in range(_ACCEPT_AT_ONCE):
            try:
                viewer, _address = self._socket.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    raise
                log.error("%s → %s accepts nothing: %s", self.there.sender, self.there.receiver, error.strerror)
                self._listen_for(False)
                self._poller.call_at(time.monotonic() + _TRY_AGAIN_S, lambda: self._listen_for(True))
                return
            self.there.meter.opened += 1
            connection = Connection(
                viewer,
                self._target,
                self.there,
                self.back,
                self._poller,
                most_held=self._most_held,
                redial_s=self._redial_s,
                on_close=self.connections.discard,
            )
            self.connections.add(connection)
            connection.start()
