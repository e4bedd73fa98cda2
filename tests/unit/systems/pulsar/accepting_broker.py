"""A broker that accepts every message, of which it knows Pulsar's wire protocol as far as producers need it.

The fields of the commands are those of `PulsarApi.proto`; the number of a command is that of its field too.
"""

from __future__ import annotations

import socketserver
import struct
import threading
from collections.abc import Iterator
from typing import Any, ClassVar

CONNECT, CONNECTED, PRODUCER, SEND, RECEIPT, SUCCESS, CLOSE_PRODUCER = 2, 3, 5, 6, 7, 13, 15
PRODUCER_SUCCESS, PING, PONG, PARTITIONS, PARTITIONS_RESPONSE, LOOKUP, LOOKUP_RESPONSE = 17, 18, 19, 21, 22, 23, 24
LEDGER = 7


class AcceptingBroker(socketserver.ThreadingTCPServer):
    """It listens on a free port of loopback. It keeps the keys of each entry, and all event times, in order."""

    daemon_threads = True
    allow_reuse_address: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.entries: list[list[str]] = []
        self.event_times: list[int] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"pulsar://127.0.0.1:{self.server_address[1]}"


class _Connection(socketserver.StreamRequestHandler):
    server: AcceptingBroker

    def handle(self) -> None:
        while len(head := self.rfile.read(8)) == 8:
            total, size = struct.unpack(">II", head)
            command = dict(_read_fields(self.rfile.read(size)))
            self._answer(
                command[1], dict(_read_fields(command.get(command[1], b""))), self.rfile.read(total - 4 - size)
            )

    def _answer(self, kind: int, content: dict[int, Any], rest: bytes) -> None:
        if kind == CONNECT:
            self._send(CONNECTED, {1: b"planted", 2: 19})
        elif kind == PARTITIONS:
            self._send(PARTITIONS_RESPONSE, {1: 0, 2: content[2], 3: 0})
        elif kind == LOOKUP:
            self._send(LOOKUP_RESPONSE, {1: self.server.url.encode(), 3: 1, 4: content[2], 5: 1})
        elif kind == PRODUCER:
            self._send(PRODUCER_SUCCESS, {1: content[3], 2: content[4]})
        elif kind == SEND:
            messages = _list_metadata(rest, content.get(3, 1))
            self.server.entries.append([each[2].decode() for each in messages])
            self.server.event_times += [each[5] for each in messages]
            position = _write_fields({1: LEDGER, 2: len(self.server.entries) - 1})
            self._send(RECEIPT, {1: content[1], 2: content[2], 3: position})
        elif kind == CLOSE_PRODUCER:
            self._send(SUCCESS, {1: content[2]})
        elif kind == PING:
            self._send(PONG, {})

    def _send(self, kind: int, content: dict[int, int | bytes]) -> None:
        command = _write_fields({1: kind, kind: _write_fields(content)})
        self.wfile.write(struct.pack(">II", len(command) + 4, len(command)) + command)


def _list_metadata(payload: bytes, count: int) -> list[dict[int, Any]]:
    """The metadata of the messages of an entry, behind its checksum and its own metadata."""
    at = 6
    at += 4 + struct.unpack_from(">I", payload, at)[0]
    found = []
    for _ in range(count):
        size = struct.unpack_from(">I", payload, at)[0]
        metadata = dict(_read_fields(payload[at + 4 : at + 4 + size]))
        found.append(metadata)
        at += 4 + size + metadata[3]
    return found


def _read_fields(message: bytes) -> Iterator[tuple[int, Any]]:
    at = 0
    while at < len(message):
        tag, at = _read_number(message, at)
        value: Any
        value, at = _read_number(message, at)
        if tag & 7 == 2:
            value, at = message[at : at + value], at + value
        yield tag >> 3, value


def _read_number(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _write_fields(fields: dict[int, int | bytes]) -> bytes:
    written = b""
    for number, value in fields.items():
        if isinstance(value, bytes):
            written += _write_number(number << 3 | 2) + _write_number(len(value)) + value
        else:
            written += _write_number(number << 3) + _write_number(value)
    return written


def _write_number(value: int) -> bytes:
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    return bytes([*written, value])
