"""Pulsar's and BookKeeper's admin REST, asked of whichever node answers.

Paths: Pulsar's admin API v2 (`/admin/v2/…`) on brokers, BookKeeper's HTTP API (`/api/v1/…`) on bookies.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import httpx

from brokerproof.errors import AdminError


class Admin:
    """REST calls to any of several nodes: the one that answered last is asked first."""

    def __init__(self, bases: Sequence[str], *, timeout_s: float = 10.0) -> None:
        self._bases = list(bases)
        # A read may follow a redirect to the topic's owner; connecting to a dead loopback address is refused at once.
        self._http = httpx.Client(timeout=httpx.Timeout(timeout_s, connect=1.0), follow_redirects=True, trust_env=False)

    def get(self, path: str, **parameters: Any) -> Any:
        """The JSON answer. Raises AdminError."""
        return self._answer(self._send("GET", path, parameters=parameters))

    def find(self, path: str, **parameters: Any) -> Any | None:
        """The JSON answer, None where the node says 404."""
        response = self._send("GET", path, parameters=parameters)
        return None if response.status_code == 404 else self._answer(response)

    def header(self, path: str, name: str) -> str | None:
        """A header of the answer, None where it has none. Raises AdminError."""
        response = self._send("GET", path)
        if response.is_error:
            self._answer(response)
        return response.headers.get(name)

    def change(self, method: str, path: str, body: Any = None, *, accept: Sequence[int] = ()) -> None:
        """Change something. Statuses in `accept` count as done, such as 409 for what exists already."""
        response = self._send(method, path, body=body)
        if response.status_code not in accept:
            self._answer(response)

    def _send(
        self, method: str, path: str, *, parameters: dict[str, Any] | None = None, body: Any = None
    ) -> httpx.Response:
        problems: list[str] = []
        for base in list(self._bases):
            try:
                response = self._http.request(
                    method,
                    base + path,
                    params=parameters,
                    content=None if body is None else json.dumps(body),
                    headers={} if body is None else {"Content-Type": "application/json"},
                )
            except httpx.TransportError as error:
                problems.append(f"{base}: {error}")
                if base in self._bases and len(self._bases) > 1:
                    self._bases.remove(base)
                    self._bases.append(base)
                continue
            return response
        raise AdminError(f"no node answers {method} {path}: {'; '.join(problems)}")

    @staticmethod
    def _answer(response: httpx.Response) -> Any:
        if response.is_error:
            reason = response.text.strip().splitlines()[:1]
            raise AdminError(
                f"{response.request.method} {response.request.url} was refused with {response.status_code}: "
                f"{''.join(reason)[:300] or 'no reason given'}"
            )
        if not response.content:
            return None
        try:
            return response.json()
        except ValueError:
            return response.text
