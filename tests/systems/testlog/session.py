"""One connection from a client or another node to this node: requests come in, answers go out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from testlog.wire import FrameBuffer, Header, WireError, pack_frame

log = logging.getLogger(__name__)


class Request:
    """A request that waits for its answer. Answers may go out in another order than requests came in."""

    def __init__(self, session: Session, header: Header, body: bytes) -> None:
        self.session, self.header, self.body = session, header, body

    def answer(self, header: Header, body: bytes = b"") -> None:
        """Send the answer, if the other side is still there."""
        self.session.send({"id": self.header["id"], **header}, body)

    def refuse(self, error: str, **facts: object) -> None:
        self.answer({"error": error, **facts})


Handler = Callable[[Request], None]


class Session(asyncio.Protocol):
    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._handlers = handlers
        self._buffer = FrameBuffer()
        self._transport: asyncio.Transport | None = None
        # True after a message of this connection was refused. Later messages of the connection are refused too, because
        # they would otherwise come before the refused message in the log.
        self.refuses_messages = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            contents = self._buffer.feed(data)
        except WireError as error:
            log.warning("connection closed: %s", error)
            self._close()
            return
        for header, body in contents:
            request = Request(self, header, body)
            handler = self._handlers.get(header.get("type", ""))
            if "id" not in header or handler is None:
                log.warning("connection closed: a request without id or of no known type: %s", header)
                self._close()
                return
            try:
                handler(request)
            except (KeyError, IndexError, TypeError, ValueError) as error:
                log.exception("a request failed: %s", header.get("type"))
                request.refuse("bad_request", detail=repr(error))

    def send(self, header: Header, body: bytes) -> None:
        """Send a frame, if the other side is still there."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(pack_frame(header, body))

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()
