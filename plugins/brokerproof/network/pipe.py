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

# All reads share one buffer: there is one thread, and bytes that cannot be written at once are copied.
_BUFFER = bytearray(262_144)
_VIEW = memoryview(_BUFFER)
_READ_BYTES = len(_BUFFER)
# A read is smaller where bytes wait for a line, so that one connection does not fill the queue.
_READ_BYTES_BEFORE_LINE = 65_536
_MOST_BEFORE_LINE = 131_072
# A chunk costs about 150 bytes beside its content; this bounds the memory of many tiny ones.
_MOST_CHUNKS = 16_384
# One in so many of the chunks that are passed on without delay is timed.
_SAMPLE_EVERY = 8


class Ending(Enum):
    """How a sender ends its direction. An ending travels behind the bytes."""

    FIN = "fin"
    RST = "rst"


Item = bytes | memoryview | Ending


class End:
    """One of the two sockets of a connection."""

    def __init__(self, sock: socket.socket, poller: Poller, *, incoming: Pipe, outgoing: Pipe) -> None:
        self.sock, self.incoming, self.outgoing = sock, incoming, outgoing
        # Writing failed, so the peer is gone: when its bytes end, that is a reset.
        self.broken = False
        self._fd = sock.fileno()
        self._poller = poller
        self._mask = 0

    def listen_for(self, event: int, on: bool) -> None:
        """Begin or end to watch whether the socket can be read (IN) or written (OUT)."""
        mask = self._mask | event if on else self._mask & ~event
        if mask != self._mask:
            self._mask = mask
            self._poller.watch(self._fd, mask, self.handle)

    def handle(self, events: int) -> None:
        """Read and write as epoll allows; an error or hang-up shows when the socket is read or written."""
        if self._mask & IN and events & ~OUT:
            self.incoming.read()
        if self._mask & OUT and events & ~IN:
            self.outgoing.resume_writing()

    def unread_bytes(self) -> int:
        """Bytes that have arrived and that nobody has read from the kernel."""
        size: int = struct.unpack("i", fcntl.ioctl(self._fd, termios.FIONREAD, b"\0\0\0\0"))[0]
        return size

    def close(self, *, reset: bool) -> None:
        """Close the socket; with `reset` its peer gets a RST instead of a FIN."""
        self._mask = 0
        if reset:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._poller.close(self.sock)


class Pipe:
    """Reads from `source` and writes to `sink`, with the delay, bandwidth and cuts of the way in between.

    Bytes wait for a line if the way has one (`take_turn`), then until they are due. `on_end` is called with the ending
    when it has reached the sink.
    """

    source: End
    sink: End

    def __init__(self, way: Way, poller: Poller, *, most_held: int, on_end: Callable[[Ending], None]) -> None:
        self.way = way
        # The line whose turn it waits for.
        self.line: Line | None = None
        # Bytes that were read and are not written yet.
        self.held = 0
        self._poller, self._most_held, self._on_end = poller, most_held, on_end
        # What waits for a line, and how many bytes that is.
        self._entering: deque[Item] = deque()
        self._entering_bytes = 0
        # What is under way, each with the time at which it is due; times never decrease.
        self._under_way: deque[tuple[float, Item]] = deque()
        self._last_due = 0.0
        self._wake_at: float | None = None
        # Nothing departs before this time; 0 once it has passed.
        self._opens_at = 0.0
        self._open = False
        # So much is held that nothing more is read.
        self._full = False
        # The source has ended; nothing more is read.
        self._ended = False
        # The sink's peer is gone, or the connection is closed: nothing is read or written any more.
        self._dead = False
        # The sink takes nothing for now; when it last began to take bytes again (monotonic seconds).
        self._blocked = False
        self._unblocked_at = 0.0
        self._chunks = 0

    def open(self, at: float) -> None:
        """Begin to read. Nothing departs before the monotonic time `at`."""
        self._open, self._opens_at = True, at
        self._update_reading()

    def read(self) -> None:
        """Read what the source has, and write it or put it on its way."""
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
            way.meter.added_delays.add(time.monotonic() - self._poller.woke_at)
        if sent < size:
            self._enter(bytes(_VIEW[sent:size]), size - sent)

    def end(self, ending: Ending) -> None:
        """The source has ended: send the ending behind all bytes."""
        self._ended = True
        self._update_reading()
        if self._dead:
            # The sink is gone and cannot be told.
            self._on_end(Ending.RST)
            return
        self._enter(ending, 0)

    def take_turn(self, most: int, now: float) -> bool:
        """Send the next bytes over the line, at most `most`. Returns whether more waits for it."""
        segment, size = self._take(most)
        # A pipe waits for its slowest line only. It occupies the faster ones too, so that their senders together keep
        # within their bandwidth.
        self._depart(segment, max(line.send(size, now) for line in self.way.lines))
        if not self._entering:
            self.line = None
        return bool(self._entering)

    def _take(self, most: int) -> tuple[Item, int]:
        """The next item to depart, of at most `most` bytes, and its size."""
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
        """Put an item on its way, at a monotonic time."""
        if self._opens_at:
            at = max(at, self._opens_at)
        self._last_due = due = max(at + self.way.next_delay_s(), self._last_due)
        self._under_way.append((due, item))
        if len(self._under_way) == 1:
            self._deliver()

    def resume_writing(self) -> None:
        """The sink takes bytes again: write what is due."""
        self._blocked, self._unblocked_at = False, time.monotonic()
        self.sink.listen_for(OUT, False)
        self._deliver()

    def reshape(self, *, was_cut: bool) -> None:
        """Apply a change of the way."""
        if self._dead:
            return
        now = time.monotonic()
        self._leave_line()
        if was_cut and not self.way.cut:
            self._send_again(now)
        if self.way.cut:
            if self._blocked:
                self.sink.listen_for(OUT, False)
        else:
            self._wait_for_line(now)
            self._blocked = False
            self._deliver()
        self._update_reading()

    def held_bytes(self) -> int:
        """Bytes that are held here, and those that stay in the kernel because of a cut."""
        unread = self.source.unread_bytes() if self._open and self.way.cut and not self._dead else 0
        return self.held + unread

    def close(self) -> None:
        """Stop to read and to write."""
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
        self._update_reading()

    def _wait_for_line(self, now: float) -> None:
        """Wait for the slowest line, or depart if the way has none any more."""
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

    def _send_again(self, now: float) -> None:
        """Send again what was lost because it should have arrived during the cut; its order stays."""
        again = deque[tuple[float, Item]]()
        earliest = 0.0
        for due, item in self._under_way:
            earliest = max(earliest, now + self.way.delay_s if due <= now else due)
            again.append((earliest, item))
        self._under_way = again
        self._last_due = max(self._last_due, earliest)

    def _send(self, item: bytes | memoryview) -> int | None:
        """Write as much as the sink takes. Returns the number of bytes, None where the sink is broken."""
        try:
            sent = self.sink.sock.send(item)
        except BlockingIOError:
            return 0
        except OSError:
            self._give_sink_up()
            return None
        self.way.meter.bytes += sent
        self.way.bytes_delivered += sent
        return sent

    def _deliver(self) -> None:
        """Write everything that is due, and set a wake-up for the rest."""
        way, under_way = self.way, self._under_way
        while under_way and not way.cut and not self._blocked:
            due, item = under_way[0]
            if due > time.monotonic():
                self._set_wake_up(due)
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
                # The time in which the receiver did not read is not added by the emulation.
                way.meter.added_delays.add(time.monotonic() - max(due, self._unblocked_at))
            else:
                under_way[0] = (due, memoryview(item)[sent:])
                self._blocked = True
                self.sink.listen_for(OUT, True)
        if self._full:
            self._update_reading()

    def _set_wake_up(self, due: float) -> None:
        if self._wake_at is None or self._wake_at > due:
            self._wake_at = due
            self._poller.call_at(due, self._wake_up)

    def _wake_up(self) -> None:
        self._wake_at = None
        self._deliver()

    def _end_sink(self, ending: Ending) -> None:
        if ending is Ending.FIN:
            try:
                self.sink.sock.shutdown(socket.SHUT_WR)
            except OSError:
                # Its peer has reset it already; the next read from it will show that.
                self.sink.broken = True
        self._on_end(ending)

    def _give_sink_up(self) -> None:
        """The sink's peer is gone. Its RST travels the other way; until it arrives, no bytes are acknowledged."""
        sink = self.sink
        self.close()
        self._update_reading()
        sink.listen_for(OUT, False)
        sink.broken = True
        sink.incoming.end_by_reset()

    def end_by_reset(self) -> None:
        """End, because a write to the source has shown that its peer reset it."""
        if self._ended or self._dead:
            # The source is not read any more, so that no read would show it.
            self.end(Ending.RST)

    def _update_reading(self) -> None:
        """Watch the source if bytes are wanted of it now."""
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
        """How many bytes are held at most. Without delay that is what a sink that takes no more has left over."""
        return 1 if self.way.direct else self._most_held
