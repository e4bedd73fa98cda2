"""The control socket of the link process, a unix socket: each request and each answer is a line of JSON."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import Field

from brokerproof.errors import BrokerproofError, InputError, MachineError
from brokerproof.experiment.yaml_models import FrozenModel, parse, suggest_name
from brokerproof.network.network import EmulatedNetwork
from brokerproof.network.poller import IN, OUT, Poller
from brokerproof.network.shape import Condition

# sun_path holds 108 bytes on Linux, the last of them a zero.
_LONGEST_PATH = 107
_LONGEST_REQUEST = 1_048_576


class Selection(FrozenModel):
    """Selects traffic by the names of its senders and receivers."""

    senders: list[str] = Field(min_length=1)
    receivers: list[str] = Field(min_length=1)
    both_ways: bool


class ResetRequest(Selection):
    """Selects the connections to reset; `id` names the reset in the state."""

    id: str = Field(min_length=1)


class RemovalRequest(FrozenModel):
    """Names the condition to remove."""

    id: str


def socket_path(directory: Path) -> Path:
    """The path of the control socket of the link process whose directory is given.

    It is in the directory itself. Where that path is too long for a unix socket, it is in a directory of this user,
    below the temporary one, under a name made from the path. Raises MachineError where neither can be used.
    """
    path = directory / "control.sock"
    if len(os.fsencode(path)) <= _LONGEST_PATH:
        return path
    short = Path(tempfile.gettempdir()) / f"brokerproof-link-{os.getuid()}"
    short.mkdir(mode=0o700, exist_ok=True)
    status = short.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise MachineError(f"{short} is not this user's alone; remove it, or set TMPDIR to a directory of your own")
    path = short / f"{hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]}.sock"
    if len(os.fsencode(path)) > _LONGEST_PATH:
        raise MachineError(f"{path} is too long for a unix socket; set TMPDIR to a shorter directory")
    return path


class Control:
    """Answers requests about a network; every peer that may open the socket is trusted."""

    def __init__(self, path: Path, network: EmulatedNetwork, poller: Poller) -> None:
        self._network, self._poller = network, poller
        path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.setblocking(False)
        self._socket.bind(str(path))
        path.chmod(0o600)
        self._socket.listen(64)
        poller.watch(self._socket.fileno(), IN, self._accept)

    def answer(self, line: bytes) -> dict[str, Any]:
        """The answer to a request: `{"ok": …}` or `{"error": sentence}`."""
        try:
            request = json.loads(line)
            if not isinstance(request, dict):
                raise ValueError("it is something else")
        except ValueError as error:
            return {"error": f"the request is no JSON object ({error})"}
        name, content = str(request.pop("request", "")), request
        handlers = self._handlers()
        try:
            if name not in handlers:
                raise InputError(f"no request is called `{name}`", remedy=suggest_name(name, handlers))
            return {"ok": handlers[name](content)}
        except BrokerproofError as error:
            return {"error": str(error)}

    def _handlers(self) -> dict[str, Callable[[dict[str, Any]], Any]]:
        network = self._network
        return {
            "ping": lambda _: {"pid": os.getpid()},
            "routes": lambda _: [route.model_dump() for route in network.routes()],
            "state": lambda _: network.state().model_dump(),
            "metrics": lambda _: network.metrics().model_dump(),
            "condition add": lambda content: network.add(
                parse(Condition, content, file="request `condition add`")
            ).model_dump(),
            "condition remove": lambda content: network.remove(
                parse(RemovalRequest, content, file="request `condition remove`").id
            ).model_dump(),
            "reset": lambda content: network.reset(
                **parse(ResetRequest, content, file="request `reset`").model_dump()
            ).model_dump(),
            "count bytes": lambda content: network.count_bytes(
                **parse(Selection, content, file="request `count bytes`").model_dump()
            ),
        }

    def _accept(self, _: int) -> None:
        try:
            peer, _address = self._socket.accept()
        except OSError:
            return
        _Session(peer, self.answer, self._poller)


class _Session:
    """One peer's requests, answered one after the other."""

    def __init__(self, peer: socket.socket, answer: Callable[[bytes], dict[str, Any]], poller: Poller) -> None:
        self._peer, self._answer, self._poller = peer, answer, poller
        self._request = bytearray()
        self._unsent = b""
        peer.setblocking(False)
        poller.watch(peer.fileno(), IN, self._ready)

    def _ready(self, _: int) -> None:
        try:
            if self._unsent:
                self._send()
            else:
                received = self._peer.recv(65_536)
                if not received:
                    self._poller.close(self._peer)
                    return
                self._request += received
            while not self._unsent and (end := self._request.find(b"\n")) >= 0:
                line = bytes(self._request[:end])
                del self._request[: end + 1]
                self._unsent = json.dumps(self._answer(line)).encode() + b"\n"
                self._send()
            if len(self._request) > _LONGEST_REQUEST:
                self._poller.close(self._peer)
        except BlockingIOError:
            return
        except OSError:
            self._poller.close(self._peer)

    def _send(self) -> None:
        try:
            self._unsent = self._unsent[self._peer.send(self._unsent) :]
        finally:
            self._poller.watch(self._peer.fileno(), OUT if self._unsent else IN, self._ready)
