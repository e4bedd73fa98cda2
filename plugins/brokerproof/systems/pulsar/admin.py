"""Requests to the HTTP admin APIs of Pulsar's nodes. A request is sent to one node after another until a node answers.

Paths: Pulsar's admin API v2 (`/admin/v2/…`) on brokers, BookKeeper's HTTP API (`/api/v1/…`) on bookies, the commands of
ZooKeeper's AdminServer (`/commands/…`) on metadata stores. A missing or unexpected answer raises AdminError.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import httpx
from pydantic import TypeAdapter, ValidationError

from brokerproof.errors import AdminError, shorten

Answer = TypeVar("Answer")

# Brokers redirect to the topic's owner, which may have changed meanwhile.
_MOST_REDIRECTS = 5
_LONGEST_QUOTE = 120


class Admin:
    """REST calls to any of several nodes. Nodes that did not answer are asked last."""

    def __init__(self, bases: Sequence[str], *, timeout_s: float = 10.0) -> None:
        self._bases = list(bases)
        # 1 s is enough to connect, because a dead loopback address refuses at once. Redirects lead to the owner.
        self._http = httpx.Client(
            timeout=httpx.Timeout(timeout_s, connect=1.0),
            follow_redirects=True,
            max_redirects=_MOST_REDIRECTS,
            trust_env=False,
        )

    def get(self, path: str, expected: TypeAdapter[Answer], **parameters: Any) -> Answer:
        """Return the JSON answer, checked against `expected`. Raises AdminError."""
        return parse_json(self._send("GET", path, parameters=parameters), expected)

    def find(self, path: str, expected: TypeAdapter[Answer], *, absent: str, **parameters: Any) -> Answer | None:
        """Return the JSON answer, checked against `expected`; None for an answer 404 whose text is `absent`.

        Raises AdminError.
        """
        response = self._send("GET", path, parameters=parameters)
        if response.status_code == 404 and _decode(response).strip() == absent:
            return None
        return parse_json(response, expected)

    def get_text(self, path: str, expected: re.Pattern[str]) -> str:
        """Return the answer in plain text, which must match `expected`. Raises AdminError."""
        return parse_text(self._send("GET", path), expected)

    def get_headers(self, path: str) -> Mapping[str, str]:
        """Return the headers of the answer. Raises AdminError."""
        response = self._send("GET", path)
        check_status(response)
        return response.headers

    def change(self, method: str, path: str, body: Any = None, *, accept: Sequence[int] = ()) -> None:
        """Send a request that changes something. Raises AdminError if it fails.

        Statuses in `accept` count as success, such as 409 for an object that exists already.
        """
        response = self._send(method, path, body=body)
        if response.status_code not in accept:
            check_status(response)
        if response.request.method != method:
            # After a status 301, 302 or 303, the client repeats the request as a GET. Pulsar redirects changes by 307.
            raise AdminError(f"{method} {path} was redirected to a read, so it changed nothing")

    def _send(
        self, method: str, path: str, *, parameters: dict[str, Any] | None = None, body: Any = None
    ) -> httpx.Response:
        problems: list[str] = []
        for base in self._bases:
            try:
                return request(
                    self._http,
                    method,
                    base + path,
                    params=parameters,
                    content=None if body is None else json.dumps(body),
                    headers={} if body is None else {"Content-Type": "application/json"},
                )
            except AdminError as error:
                problems.append(str(error))
                # Samplers share an Admin, so the list is never changed in place.
                self._bases = [*(other for other in self._bases if other != base), base]
        raise AdminError(f"no node answers: {'; '.join(problems)}")


def request(http: httpx.Client, method: str, url: str, **options: Any) -> httpx.Response:
    """Return the answer of one node, with any status. Raises AdminError if the node gives no answer."""
    try:
        return http.request(method, url, **options)
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        # The last two errors come from redirects to an invalid URL or to a host that cannot be encoded.
        source = ""
        if isinstance(error, httpx.RequestError) and error.request.url.netloc != httpx.URL(url).netloc:
            source = f" from {error.request.url.netloc.decode()}, to which it was redirected"
        raise AdminError(f"{method} {url} got no answer{source}: {str(error) or type(error).__name__}") from None


def check_status(response: httpx.Response) -> None:
    """Raises AdminError if the node answered with an error status."""
    if not response.is_success:
        reason = _decode(response).strip().splitlines()[:1]
        raise AdminError(
            f"{_name_request(response)} was refused with {response.status_code}: "
            f"{''.join(reason)[:300] or 'no reason given'}"
        )


def parse_json(response: httpx.Response, expected: TypeAdapter[Answer]) -> Answer:
    """Return a JSON answer, checked against `expected`; an empty body counts as null. Raises AdminError."""
    check_status(response)
    try:
        return expected.validate_json(response.content or b"null")
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        where = f" in `{shorten(field, _LONGEST_QUOTE)}`" if field else ""
        raise _make_unexpected(response, f"{first['msg']}{where}", _describe(first["input"])) from None


def read_text(response: httpx.Response) -> str:
    """Return the text of an answer. Raises AdminError for an error status."""
    check_status(response)
    return _decode(response)


def parse_text(response: httpx.Response, expected: re.Pattern[str]) -> str:
    """Return the text of an answer, without quotes around it. Raises AdminError unless it matches `expected`."""
    text = read_text(response).strip().strip('"')
    if expected.fullmatch(text) is None:
        raise _make_unexpected(response, f"Input should match `{expected.pattern}`", text)
    return text


def _make_unexpected(response: httpx.Response, rule: str, came: str) -> AdminError:
    quote = shorten(" ".join(came.split()), _LONGEST_QUOTE)
    return AdminError(f"{_name_request(response)} answered something else than expected: {rule}, and `{quote}` came")


def _name_request(response: httpx.Response) -> str:
    return f"{response.request.method} {response.request.url}"


def _describe(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _decode(response: httpx.Response) -> str:
    # Not `response.text`, because an answer may name an encoding that cannot decode it.
    return response.content.decode("utf-8", "replace")
