"""The frames that nodes and clients exchange over TCP.

A frame is a content with its length (four bytes, big-endian) before it. A content is the length of the header (four
bytes), the header as JSON, and a body of any bytes.
"""

from __future__ import annotations

import json
import struct
from typing import Any, NamedTuple

_LENGTH = struct.Struct(">I")
_MOST_BYTES = 64 * 1024 * 1024

Header = dict[str, Any]


class WireError(Exception):
    """The other side sent bytes that are no frame."""


class Content(NamedTuple):
    header: Header
    body: bytes


def pack(header: Header, body: bytes = b"") -> bytes:
    text = json.dumps(header, separators=(",", ":")).encode()
    return b"".join((_LENGTH.pack(len(text)), text, body))


def unpack(content: bytes) -> Content:
    """Return the header and the body of a content. Raises WireError if the header is no JSON object."""
    try:
        end = _LENGTH.size + _LENGTH.unpack_from(content)[0]
        header = json.loads(content[_LENGTH.size : end])
    except (struct.error, ValueError) as error:
        raise WireError(f"a content has no readable header: {error}") from error
    if not isinstance(header, dict):
        raise WireError("a header is not a JSON object")
    return Content(header, content[end:])


def pack_frame(header: Header, body: bytes = b"") -> bytes:
    content = pack(header, body)
    return _LENGTH.pack(len(content)) + content


class FrameBuffer:
    """Cuts a stream of bytes into frames."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, received: bytes) -> list[Content]:
        """Return the contents that are complete now. Raises WireError if a frame is too long or has no header."""
        self._bytes += received
        contents: list[Content] = []
        start = 0
        while len(self._bytes) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._bytes, start)
            if length > _MOST_BYTES:
                raise WireError(f"a frame of {length} bytes is longer than {_MOST_BYTES}")
            end = start + _LENGTH.size + length
            if len(self._bytes) < end:
                break
            contents.append(unpack(bytes(self._bytes[start + _LENGTH.size : end])))
            start = end
        del self._bytes[:start]
        return contents
