"""The connection to another node. It is opened again when it breaks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from testlog.configuration import Address
from testlog.wire import Content, FrameBuffer, Header, WireError, pack_frame

_REDIAL_S = 0.05


class Peer(asyncio.Protocol):
    """Another node, to which this node sends requests."""

    def __init__(self, name: str, address: Address) -> None:
        self.name = name
        # The number of connections made so far.
        self.connections = 0
        self._address = address
        self._transport: asyncio.Transport | None = None
        self._disconnected = asyncio.Event()
        self._buffer = FrameBuffer()
        self._waiting: dict[int, Callable[[Content], None]] = {}
        self._requests = 0

    @property
    def connected(self) -> bool:
        """Whether requests can be sent."""
        return self._transport is not None

    async def dial_forever(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._disconnected.clear()
            with contextlib.suppress(OSError):
                await loop.create_connection(lambda: self, *self._address)
                await self._disconnected.wait()
            await asyncio.sleep(_REDIAL_S)

    def request(self, header: Header, body: bytes, answered: Callable[[Content], None]) -> None:
        """Send a request. `answered` is never called if there is no connection or it breaks before the answer."""
        if self._transport is None:
            return
        self._requests += 1
        self._waiting[self._requests] = answered
        self._transport.write(pack_frame({"id": self._requests, **header}, body))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.connections += 1
        self._buffer = FrameBuffer()

    def data_received(self, data: bytes) -> None:
        """Call the functions that wait for the answers that came."""
        try:
            contents = self._buffer.feed(data)
        except WireError:
            if self._transport is not None:
                self._transport.abort()
            return
        for content in contents:
            answered = self._waiting.pop(content.header["id"], None)
            if answered is not None:
                answered(content)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the open requests, because their answers can no longer come."""
        self._transport = None
        self._waiting.clear()
        self._disconnected.set()
