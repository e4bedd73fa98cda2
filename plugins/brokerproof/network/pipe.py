"""One direction of a connection through the link process. Bytes are read from one socket, and written to another."""

from __future__ import annotations

import fcntl
import socket
import struct
import termios
import time
from collections import deque
from collections.abc import Callable
from enum import Enum

from brokerproof.network.poller import IN, OUT, Poller
from brokerproof.network.route_direction import RateLimiter, RouteDirection

# All reads share one buffer, because there is one thread, and bytes that cannot be written at once are copied.
_BUFFER = bytearray(262_144)
_VIEW = memoryview(_BUFFER)
_READ_BYTES = len(_BUFFER)
# If the direction has a rate limiter, reads are smaller, so that one connection does not fill the queue.
_READ_BYTES_BEFORE_LIMITER = 65_536
_MOST_BEFORE_LINE = 131_072
# Reading pauses at this number of chunks, because each takes about 150 bytes in addition to its content.
_MOST_CHUNKS = 16_384
# One of every 8 chunks that are passed on without delay is timed.
_SAMPLE_EVERY = 8


class Ending(Enum):
    """How a sender ends its direction of a connection: by FIN or by RST. A pipe passes it on after all bytes."""

    FIN = "fin"
    RST = "rst"


Item = bytes | memoryview | Ending


class End:
    """A socket of the link process, to one of the two peers of a connection."""

    def __init__(self, sock: socket.socket, poller: Poller, *, incoming: Pipe, outgoing: Pipe) -> None:
        self.sock, self.incoming, self.outgoing = sock, incoming, outgoing
        # Whether a write failed because the peer is gone. The end of its bytes then counts as a reset.
        self.broken = False
        self._fd = sock.fileno()
        self._poller = poller
        self._mask = 0

    def listen_for(self, event: int, on: bool) -> None:
        """Begin to watch whether the socket can be read (IN) or written (OUT); with `on=False`, stop watching."""
        mask = self._mask | event if on else self._mask & ~event
        if mask != self._mask:
            self._mask = mask
            self._poller.watch(self._fd, mask, self.handle)

    def handle(self, events: int) -> None:
        """Read or write, because epoll reported `events`. The read or write then notices any error or hang-up."""
        if self._mask & IN and events & ~OUT:
            self.incoming.read()
        if self._mask & OUT and events & ~IN:
            self.outgoing.resume_writing()

    def unread_bytes(self) -> int:
        """Return the number of received bytes that are still unread in the kernel."""
        return int(struct.unpack("i", fcntl.ioctl(self._fd, termios.FIONREAD, b"\0\0\0\0"))[0])

    def close(self, *, reset: bool) -> None:
        """Close the socket. With `reset`, its peer gets a RST instead of a FIN."""
        self._mask = 0
        if reset:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._poller.close(self.sock)


class Pipe:
    """Reads from `source` and writes to `sink`, with the delay, bandwidth and cuts of one direction of a route.

    A chunk of bytes first waits for its turn at a rate limiter if the direction has one, and then until it is due. The
    ending of the source, FIN or RST, follows in the same way. Then the callback `on_end` gets the ending, or RST if the
    sink is gone.
    """

    source: End
    sink: End

    def __init__(
        self, direction: RouteDirection, poller: Poller, *, most_held: int, on_end: Callable[[Ending], None]
    ) -> None:
        self.direction = direction
        # The rate limiter at which the pipe waits for a turn.
        self.limiter: RateLimiter | None = None
        # The number of bytes that were read and are not written yet.
        self.held = 0
        self._poller, self._most_held, self._on_end = poller, most_held, on_end
        # The items that wait for a rate limiter, and their size in bytes.
        self._entering: deque[Item] = deque()
        self._entering_bytes = 0
        # Items under way, as (due time in monotonic seconds, item). The times never decrease.
        self._under_way: deque[tuple[float, Item]] = deque()
        self._last_due = 0.0
        self._wake_at: float | None = None
        # No item departs before this time (monotonic seconds); 0 once it has passed.
        self._opens_at = 0.0
        self._open = False
        # Whether reading is paused, because too many bytes or chunks are held.
        self._full = False
        # Whether the source has ended.
        self._ended = False
        # Whether the sink's peer is gone or the connection is closed. The pipe then neither reads nor writes.
        self._dead = False
        # Whether the sink takes no bytes for now, and when it last began to take bytes again (monotonic seconds).
        self._blocked = False
        self._unblocked_at = 0.0
        self._chunks = 0

    def open(self, at: float) -> None:
        """Begin to read the source. The delay of the first bytes begins at `at` (monotonic seconds) or later."""
        self._open, self._opens_at = True, at
        self._update_reading()

    def read(self) -> None:
        """Read the source's next bytes, and write them to the sink at once or queue them until they are due."""
        direction = self.direction
        try:
            size = self.source.sock.recv_into(
                _BUFFER, _READ_BYTES_BEFORE_LIMITER if direction.limiters else _READ_BYTES
            )
        except BlockingIOError:
            return
        except OSError:
            self.end(Ending.RST)
            return
        if not size:
            self.end(Ending.RST if self.source.broken else Ending.FIN)
            return
        if not (direction.direct and not self._under_way and not self._entering and not self._opens_at):
            self._enter(bytes(_VIEW[:size]), size)
            return
        sent = self._send(_VIEW[:size])
        if sent is None:
            return
        self._chunks += 1
        if not self._chunks % _SAMPLE_EVERY:
            direction.meter.added_delays.add(time.monotonic() - self._poller.woke_at)
        if sent < size:
            self._enter(bytes(_VIEW[sent:size]), size - sent)

    def end(self, ending: Ending) -> None:
        """Send `ending` (FIN or RST) to the sink after all bytes of the source."""
        self._ended = True
        self._update_reading()
        if self._dead:
            # The sink is gone, so the ending cannot be sent to it.
            self._on_end(Ending.RST)
            return
        self._enter(ending, 0)

    def take_turn(self, most: int, now: float) -> bool:
        """Let the next item, or its first `most` bytes, pass the rate limiter. Returns whether more items wait."""
        segment, size = self._take(most)
        # A pipe waits only for its slowest limiter. It also occupies the faster ones, so that all senders at
        # a faster limiter together do not exceed its bandwidth.
        self._depart(segment, max(limiter.send(size, now) for limiter in self.direction.limiters))
        if not self._entering:
            self.limiter = None
        return bool(self._entering)

    def _take(self, most: int) -> tuple[Item, int]:
        """Remove and return (next item, its size). If its size exceeds `most` bytes, take only the first `most`."""
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
        """Begin an item's delay at the monotonic time `at`. The item is due when the direction's delay has passed."""
        if self._opens_at:
            at = max(at, self._opens_at)
        self._last_due = due = max(at + self.direction.next_delay_s(), self._last_due)
        self._under_way.append((due, item))
        if len(self._under_way) == 1:
            self._deliver()

    def resume_writing(self) -> None:
        """Write the items that are due, because the sink takes bytes again."""
        self._blocked, self._unblocked_at = False, time.monotonic()
        self.sink.listen_for(OUT, False)
        self._deliver()

    def reshape(self, *, was_cut: bool) -> None:
        """Apply a change of the direction's cut, delay, jitter or limiters."""
        if self._dead:
            return
        now = time.monotonic()
        self._leave_limiter()
        if was_cut and not self.direction.cut:
            self._send_again(now)
        if self.direction.cut:
            if self._blocked:
                self.sink.listen_for(OUT, False)
        else:
            self._wait_for_turn(now)
            self._blocked = False
            self._deliver()
        self._update_reading()

    def held_bytes(self) -> int:
        """Return the number of bytes that this pipe holds. During a cut, bytes unread in the kernel count too."""
        unread = self.source.unread_bytes() if self._open and self.direction.cut and not self._dead else 0
        return self.held + unread

    def close(self) -> None:
        """Stop reading and writing, and drop the held items."""
        self._dead = True
        self._leave_limiter()
        self._under_way.clear()
        self._entering.clear()
        self.held = self._entering_bytes = 0

    def _enter(self, item: Item, size: int) -> None:
        now = time.monotonic()
        self.held += size
        if self._opens_at and now >= self._opens_at:
            self._opens_at = 0.0
        if self.direction.limiters or self._entering:
            self._entering.append(item)
            self._entering_bytes += size
            self._wait_for_turn(now)
        else:
            self._depart(item, now)
        self._update_reading()

    def _wait_for_turn(self, now: float) -> None:
        """Queue this pipe at its slowest rate limiter. If its direction has no limiter any more, let all items pass.

        During a cut, do nothing.
        """
        if self.direction.cut or not self._entering:
            return
        if self.direction.limiters:
            if self.limiter is None:
                self.limiter = self.direction.limiters[0]
                self.limiter.join(self)
            return
        while self._entering:
            self._depart(self._take(_READ_BYTES)[0], now)

    def _leave_limiter(self) -> None:
        if self.limiter is not None:
            self.limiter.leave(self)
            self.limiter = None

    def _send_again(self, now: float) -> None:
        """After a cut, begin the delay anew for items that became due during the cut. All items keep their order."""
        again = deque[tuple[float, Item]]()
        earliest = 0.0
        for due, item in self._under_way:
            earliest = max(earliest, now + self.direction.delay_s if due <= now else due)
            again.append((earliest, item))
        self._under_way = again
        self._last_due = max(self._last_due, earliest)

    def _send(self, item: bytes | memoryview) -> int | None:
        """Write the bytes that the sink takes now. Returns their number, or None if the sink's peer is gone."""
        try:
            sent = self.sink.sock.send(item)
        except BlockingIOError:
            return 0
        except OSError:
            self._give_sink_up()
            return None
        self.direction.meter.bytes += sent
        self.direction.bytes_delivered += sent
        return sent

    def _deliver(self) -> None:
        """Write all items that are due, and set a wake-up for the next one."""
        direction, under_way = self.direction, self._under_way
        while under_way and not direction.cut and not self._blocked:
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
                # The emulation did not add the time in which the receiver did not read.
                direction.meter.added_delays.add(time.monotonic() - max(due, self._unblocked_at))
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
                # Its peer has already reset the connection; the next read from it will show that.
                self.sink.broken = True
        self._on_end(ending)

    def _give_sink_up(self) -> None:
        """End this direction, because the sink's peer is gone. The opposite pipe then passes a RST to the source."""
        sink = self.sink
        self.close()
        self._update_reading()
        sink.listen_for(OUT, False)
        sink.broken = True
        sink.incoming.end_by_reset()

    def end_by_reset(self) -> None:
        """End this direction by RST, because a write of the opposite pipe has shown that this pipe's source is gone.

        If this pipe still reads the source, do nothing, because its next read ends the direction by RST too.
        """
        if self._ended or self._dead:
            self.end(Ending.RST)

    def _update_reading(self) -> None:
        """Watch the source for bytes only if the pipe has room, is not cut, and neither source nor sink has ended."""
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
        wanted = not (self._full or self._ended or self._dead or self.direction.cut)
        self.source.listen_for(IN, wanted)

    def _limit(self) -> int:
        """Return the number of held bytes at which reading stops: 1 if the direction passes bytes on without delay."""
        return 1 if self.direction.direct else self._most_held
