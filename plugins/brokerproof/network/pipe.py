"""One direction of one connection: bytes are read from one socket and written to the other when they are due."""

from __future__ import annotations

import fcntl
import socket
import struct
import termios
import time
from collections import deque
from collections.abc import Callable
from enum import Enum

from brokerproof.network.line import Line
from brokerproof.network.poller import IN, OUT, Poller
from brokerproof.network.way import Way

# One buffer for all reads: there is one thread, and what is not written at once is copied.
_BUFFER = bytearray(262_144)
_VIEW = memoryview(_BUFFER)
_READ_BYTES = len(_BUFFER)
# A line is slow beside a read of that size; so much less is in one connection's queue before it.
_READ_BYTES_BEFORE_LINE = 65_536
_MOST_BEFORE_LINE = 131_072
# A chunk costs about 150 bytes of its own; this bounds what many tiny ones cost.
_MOST_CHUNKS = 16_384
# Every so many chunks of those passed on at once is timed.
_SAMPLE_EVERY = 8


class Ending(Enum):
    """How a sender ends its direction; it travels behind the bytes."""

    FIN = "fin"
    RST = "rst"


Item = bytes | memoryview | Ending


class End:
    """One of the two sockets of a connection."""

    def __init__(self, sock: socket.socket, poller: Poller, *, incoming: Pipe, outgoing: Pipe) -> None:
        self.sock, self.incoming, self.outgoing = sock, incoming, outgoing
        # Writing failed, so its peer is gone: an end of its bytes is a reset.
        self.broken = False
        self._fd = sock.fileno()
        self._poller = poller
        self._mask = 0

    def listen_for(self, event: int, on: bool) -> None:
        """Be told, or no longer, when the socket can be read (IN) or written (OUT)."""
        mask = self._mask | event if on else self._mask & ~event
        if mask != self._mask:
            self._mask = mask
            self._poller.watch(self._fd, mask, self.ready)

    def ready(self, events: int) -> None:
        """Pass on what epoll found; an error or hang-up shows to whoever reads or writes."""
        if self._mask & IN and events & ~OUT:
            self.incoming.read()
        if self._mask & OUT and events & ~IN:
            self.outgoing.writable()

    def unread_bytes(self) -> int:
        """Bytes that the kernel holds because nobody reads them."""
        size: int = struct.unpack("i", fcntl.ioctl(self._fd, termios.FIONREAD, b"\0\0\0\0"))[0]
        return size

    def close(self, *, reset: bool) -> None:
        """Close the socket, with a RST for its peer if wanted."""
        self._mask = 0
        if reset:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._poller.close(self.sock)


class Pipe:
    """Reads from `source`, writes to `sink`, and does in between what the way demands.

    Bytes wait at a line if the way has one (`take_turn`), then until they are due. `delivered` is called with the
    ending when that has reached the sink.
    """

    source: End
    sink: End

    def __init__(self, way: Way, poller: Poller, *, most_held: int, delivered: Callable[[Ending], None]) -> None:
        self.way = way
        # The line that it waits for, if it does.
        self.line: Line | None = None
        # Bytes here that are not written yet.
        self.held = 0
        self._poller, self._most_held, self._delivered = poller, most_held, delivered
        # What has yet to pass a line, and its bytes.
        self._entering: deque[Item] = deque()
        self._entering_bytes = 0
        # What is under way, each with the time that it is due; times never decrease.
        self._under_way: deque[tuple[float, Item]] = deque()
        self._last_due = 0.0
        self._wake_at: float | None = None
        # Nothing sets out before this; 0 once that has passed.
        self._opens_at = 0.0
        self._open = False
        # Enough is held, so nothing more is read.
        self._full = False
        # The source has ended; nothing more is read.
        self._ended = False
        # The sink's peer is gone, or the connection is closed: nothing more is read or written.
        self._dead = False
        # The sink takes nothing more for now; when it last did again (monotonic seconds).
        self._blocked = False
        self._unblocked_at = 0.0
        self._chunks = 0

    def open(self, at: float) -> None:
        """Begin to read; what is read sets out at a monotonic time at the earliest."""
        self._open, self._opens_at = True, at
        self._read_or_not()

    def read(self) -> None:
        """Take what the source has."""
        way = self.way
        try:
            size = self.source.sock.recv_into(_BUFFER, _READ_BYTES_BEFORE_LINE if way.lines else _READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            self.end(Ending.RST)
            return
        if not size:
            self.end(Ending.RST if self.source.broken else Ending.FIN)
            return
        if not (way.direct and not self._under_way and not self._entering and not self._opens_at):
            self._enter(bytes(_VIEW[:size]), size)
            return
        sent = self._send(_VIEW[:size])
        if sent is None:
            return
        self._chunks += 1
        if not self._chunks % _SAMPLE_EVERY:
            way.meter.added.add(time.monotonic() - self._poller.woke_at)
        if sent < size:
            self._enter(bytes(_VIEW[sent:size]), size - sent)

    def end(self, ending: Ending) -> None:
        """The source ended; tell the sink, behind everything that was sent before."""
        self._ended = True
        self._read_or_not()
        if self._dead:
            # Nobody is left to tell.
            self._delivered(Ending.RST)
            return
        self._enter(ending, 0)

    def take_turn(self, most: int, now: float) -> bool:
        """Send what goes over the line next, at most so many bytes; whether more waits for it."""
        segment, size = self._take(most)
        # A pipe waits for its narrowest line only; the wider ones are occupied as well, so that their sum holds.
        self._depart(segment, max(line.send(size, now) for line in self.way.lines))
        if not self._entering:
            self.line = None
        return bool(self._entering)

    def _take(self, most: int) -> tuple[Item, int]:
        """What sets out next, at most so many bytes, and how many those are."""
        item = self._entering[0]
        if isinstance(item, Ending):
            self._entering.popleft()
            return item, 0
        size = len(item)
        if size > most:
            view = memoryview(item)
            self._entering[0] = view[most:]
            item, size = view[:most], most
        else:
            self._entering.popleft()
        self._entering_bytes -= size
        return item, size

    def _depart(self, item: Item, at: float) -> None:
        """Send on its way what passed the line, or needed none, at a monotonic time."""
        if self._opens_at:
            at = max(at, self._opens_at)
        self._last_due = due = max(at + self.way.trip_s(), self._last_due)
        self._under_way.append((due, item))
        if len(self._under_way) == 1:
            self._deliver()

    def writable(self) -> None:
        """The sink takes more."""
        self._blocked, self._unblocked_at = False, time.monotonic()
        self.sink.listen_for(OUT, False)
        self._deliver()

    def reshape(self, *, was_cut: bool) -> None:
        """Follow what has changed about the way."""
        if self._dead:
            return
        now = time.monotonic()
        self._leave_line()
        if was_cut and not self.way.cut:
            self._set_out_again(now)
        if self.way.cut:
            if self._blocked:
                self.sink.listen_for(OUT, False)
        else:
            self._wait_for_line(now)
            self._blocked = False
            self._deliver()
        self._read_or_not()

    def held_bytes(self) -> int:
        """Bytes that are here, those included that the kernel holds because of a cut."""
        unread = self.source.unread_bytes() if self._open and self.way.cut and not self._dead else 0
        return self.held + unread

    def close(self) -> None:
        """Neither read nor write any more."""
        self._dead = True
        self._leave_line()
        self._under_way.clear()
        self._entering.clear()
        self.held = self._entering_bytes = 0

    def _enter(self, item: Item, size: int) -> None:
        now = time.monotonic()
        self.held += size
        if self._opens_at and now >= self._opens_at:
            self._opens_at = 0.0
        if self.way.lines or self._entering:
            self._entering.append(item)
            self._entering_bytes += size
            self._wait_for_line(now)
        else:
            self._depart(item, now)
        self._read_or_not()

    def _wait_for_line(self, now: float) -> None:
        """Wait where the way is narrowest, or set out if nothing limits it any more."""
        if self.way.cut or not self._entering:
            return
        if self.way.lines:
            if self.line is None:
                self.line = self.way.lines[0]
                self.line.join(self)
            return
        while self._entering:
            self._depart(self._take(_READ_BYTES)[0], now)

    def _leave_line(self) -> None:
        if self.line is not None:
            self.line.leave(self)
            self.line = None

    def _set_out_again(self, now: float) -> None:
        """What should have arrived during the cut was lost and is sent again now; its order holds."""
        again = deque[tuple[float, Item]]()
        earliest = 0.0
        for due, item in self._under_way:
            earliest = max(earliest, now + self.way.delay_s if due <= now else due)
            again.append((earliest, item))
        self._under_way = again
        self._last_due = max(self._last_due, earliest)

    def _send(self, item: bytes | memoryview) -> int | None:
        """Write what the sink takes of it; how many bytes, None where the sink broke."""
        try:
            sent = self.sink.sock.send(item)
        except BlockingIOError:
            return 0
        except OSError:
            self._sink_broke()
            return None
        self.way.meter.bytes += sent
        self.way.bytes += sent
        return sent

    def _deliver(self) -> None:
        """Write everything that is due, and see to it that the rest is written in time."""
        way, under_way = self.way, self._under_way
        while under_way and not way.cut and not self._blocked:
            due, item = under_way[0]
            if due > time.monotonic():
                self._wake(due)
                break
            if isinstance(item, Ending):
                under_way.popleft()
                self._end_sink(item)
                continue
            sent = self._send(item)
            if sent is None:
                return
            self.held -= sent
            if sent == len(item):
                under_way.popleft()
                # How long a receiver that did not read kept the chunk here is no doing of the emulator's.
                way.meter.added.add(time.monotonic() - max(due, self._unblocked_at))
            else:
                under_way[0] = (due, memoryview(item)[sent:])
                self._blocked = True
                self.sink.listen_for(OUT, True)
        if self._full:
            self._read_or_not()

    def _wake(self, due: float) -> None:
        if self._wake_at is None or self._wake_at > due:
            self._wake_at = due
            self._poller.call_at(due, self._woken)

    def _woken(self) -> None:
        self._wake_at = None
        self._deliver()

    def _end_sink(self, ending: Ending) -> None:
        if ending is Ending.FIN:
            try:
                self.sink.sock.shutdown(socket.SHUT_WR)
            except OSError:
                # Its peer has reset it already, which reading from it tells.
                self.sink.broken = True
        self._delivered(ending)

    def _sink_broke(self) -> None:
        """The sink's peer is gone. Its RST travels the other way, and until it arrives nobody acknowledges bytes."""
        sink = self.sink
        self.close()
        self._read_or_not()
        sink.listen_for(OUT, False)
        sink.broken = True
        sink.incoming.peer_is_gone()

    def peer_is_gone(self) -> None:
        """The source turned out to be reset when it was written to."""
        if self._ended or self._dead:
            # Nobody reads it any more, so nobody else would find out.
            self.end(Ending.RST)

    def _read_or_not(self) -> None:
        if not self._open:
            return
        if self._full:
            self._full = self.held > self._limit() // 2 or self._entering_bytes > _MOST_BEFORE_LINE // 2
        else:
            self._full = (
                self.held >= self._limit()
                or self._entering_bytes >= _MOST_BEFORE_LINE
                or len(self._under_way) >= _MOST_CHUNKS
            )
        wanted = not (self._full or self._ended or self._dead or self.way.cut)
        self.source.listen_for(IN, wanted)

    def _limit(self) -> int:
        """Bytes from which on nothing more is read: without delay, any that the sink did not take."""
        return 1 if self.way.direct else self._most_held
