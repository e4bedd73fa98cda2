"""One connection to one node, for one thread. Requests are sent without waiting, and callbacks get the answers."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from testlog.wire import Content, FrameBuffer, Header, WireError, pack_frame

_READ_BYTES = 262_144

AnswerCallback = Callable[[Content], None]


class UnavailableError(Exception):
    """No node answers, or the connection broke."""


class RequestError(Exception):
    """The node refused a request. `error` is one of the errors in service.py."""

    def __init__(self, answer: Header) -> None:
        super().__init__(": ".join(str(answer[part]) for part in ("error", "detail") if part in answer))
        self.error: str = answer["error"]


class LogConnection:
    """An open connection. Every method except `close` raises UnavailableError if the connection is broken."""

    def __init__(self, address: tuple[str, int], answer_timeout_s: float) -> None:
        """Connect. A node that does not answer within `answer_timeout_s` seconds counts as gone."""
        self._answer_timeout_s = answer_timeout_s
        self._buffer = FrameBuffer()
        self._requests = 0
        # {id of an open request: (latest time of its answer, callback)}, in the order of the requests.
        self._waiting: dict[int, tuple[float, AnswerCallback]] = {}
        try:
            self._socket = socket.create_connection(address, timeout=answer_timeout_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            raise UnavailableError(f"{address[0]}:{address[1]} takes no connection: {error}") from error

    def send(self, header: Header, body: bytes, answered: AnswerCallback, *, wait_s: float = 0.0) -> None:
        """Send a request, whose answer may take `wait_s` seconds longer. `receive` calls `answered` with the answer."""
        self._requests += 1
        self._waiting[self._requests] = (time.monotonic() + self._answer_timeout_s + wait_s, answered)
        try:
            self._socket.settimeout(self._answer_timeout_s)
            self._socket.sendall(pack_frame({"id": self._requests, **header}, body))
        except OSError as error:
            raise UnavailableError(f"a request could not be sent: {error}") from error

    def receive(self, timeout_s: float) -> None:
        """Wait at most `timeout_s` seconds for answers, and call their callbacks."""
        try:
            self._socket.settimeout(max(timeout_s, 0.001))
            received = self._socket.recv(_READ_BYTES)
            if not received:
                raise UnavailableError("the node closed the connection")
            for content in self._buffer.feed(received):
                _, answered = self._waiting.pop(content.header["id"])
                answered(content)
        except TimeoutError:
            if self._waiting and time.monotonic() > next(iter(self._waiting.values()))[0]:
                raise UnavailableError(f"no answer within {self._answer_timeout_s} s") from None
        except (OSError, WireError) as error:
            raise UnavailableError(f"the connection broke: {error}") from error

    def ask(self, header: Header, *, timeout_s: float | None = None) -> Header:
        """Send a request and wait for its answer. Raises RequestError if the node refuses it."""
        timeout_s = self._answer_timeout_s if timeout_s is None else timeout_s
        until = time.monotonic() + timeout_s
        answers: list[Header] = []
        self.send(header, b"", lambda content: answers.append(content.header))
        while not answers:
            if time.monotonic() >= until:
                raise UnavailableError(f"no answer within {timeout_s} s")
            self.receive(until - time.monotonic())
        if "error" in answers[0]:
            raise RequestError(answers[0])
        return answers[0]

    def close(self) -> None:
        """Close the connection. Callbacks of open requests are not called."""
        self._socket.close()
