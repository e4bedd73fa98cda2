"""The control socket of the link process: each request and each answer is a line of JSON."""

from __future__ import annotations

import hmac
import json
import os
import socket
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from brokerproof.errors import BrokerproofError, InputError
from brokerproof.experiment.yaml_models import FrozenModel, parse, suggest_name
from brokerproof.network.control_address import AddressOfControl, PathOfControl
from brokerproof.network.emulated_network import EmulatedNetwork
from brokerproof.network.plan import Condition
from brokerproof.network.poller import IN, OUT, Poller

_LONGEST_REQUEST = 1_048_576


class Request(BaseModel):
    """One line of JSON: the name of the request and the secret. All other fields are the content of the request."""

    model_config = ConfigDict(frozen=True, extra="allow")

    secret: str = ""
    request: str = ""


class Selection(FrozenModel):
    """Selects traffic by the names of its senders and receivers."""

    senders: list[str] = Field(min_length=1)
    receivers: list[str] = Field(min_length=1)
    both_ways: bool


class ResetRequest(Selection):
    """Selects the connections to reset. Afterwards, `State.effects` lists the effect of the reset under this `id`."""

    id: str = Field(min_length=1)


class RemovalRequest(FrozenModel):
    """Names, by its id, the condition to remove from the emulated network."""

    id: str


class Control:
    """Answers requests to an emulated network. Each request must contain the secret of the control address."""

    def __init__(self, address: PathOfControl | AddressOfControl, network: EmulatedNetwork, poller: Poller) -> None:
        """Begin to listen at `address`. Raises OSError if the address cannot be used."""
        self._network, self._poller, self._secret = network, poller, address.secret
        self._socket = address.listen()
        self._socket.setblocking(False)
        self._socket.listen(64)
        poller.watch(self._socket.fileno(), IN, self._accept)

    def answer(self, line: bytes) -> dict[str, Any]:
        """Return the answer to a request, even to an invalid one: `{"ok": …}` or `{"error": sentence}`."""
        # Any program that reaches the address may send any bytes, and an exception would end the process and all its
        # routes. `json` accepts text that UTF-8 cannot encode, and raises RecursionError for deep nesting. pydantic
        # raises ValidationError for both.
        try:
            request = Request.model_validate_json(line)
        except ValidationError as error:
            problem = error.errors(include_url=False, include_input=False)[0]["msg"]
            return {"error": f"the request is no JSON object whose `request` and `secret` are texts ({problem})"}
        if not hmac.compare_digest(request.secret.encode(), self._secret.encode()):
            return {"error": "the request does not hold the secret of this link process"}
        name, content = request.request, request.model_extra or {}
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
    """A client's connection to the control socket. Its requests are answered one after the other."""

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
