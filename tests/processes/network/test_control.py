"""The control socket of the link process: nothing that is sent to it ends the process."""

from __future__ import annotations

import json
import socket
from contextlib import suppress

import pytest
from brokerproof.network.link_process import READY_FILE

from .lab import PATIENCE_S, Lab, one_way_s

DEEP = b"[" * 20_000


def connect_to_control(lab: Lab) -> socket.socket:
    """A connection to the control socket of the link that the lab started."""
    path = json.loads((lab.nodes / "link" / READY_FILE).read_text())["control"]["path"]
    peer = socket.socket(socket.AF_UNIX)
    peer.settimeout(PATIENCE_S)
    peer.connect(path)
    return peer


def ask(request: str, **content: object) -> bytes:
    return json.dumps({"request": request, **content}).encode()


def ask_for_condition(**content: object) -> bytes:
    """A request for a condition that is right, but for what is given."""
    right = {"id": "a", "senders": ["eu-1"], "receivers": ["us-1"], "both_ways": True, "delay_ms": 1}
    return ask("condition add", **{**right, **content})


@pytest.mark.parametrize(
    ("request_line", "answer"),
    [
        pytest.param(b"nonsense", "no JSON object", id="no JSON"),
        pytest.param(b"", "no JSON object", id="an empty line"),
        pytest.param(b"[]", "no JSON object", id="a list"),
        pytest.param(b"null", "no JSON object", id="null"),
        pytest.param(b'"ping"', "no JSON object", id="a text"),
        pytest.param(b'{"request": "p\xffng"}', "no JSON object", id="bytes that are not UTF-8"),
        pytest.param(b'{"secret": "\xed\xa0\x80"}', "no JSON object", id="a surrogate as bytes"),
        pytest.param(b'{"secret": "\\ud800"}', "no JSON object", id="a surrogate as secret"),
        pytest.param(b'{"request": "\\ud800"}', "no JSON object", id="a surrogate as request"),
        pytest.param(ask_for_condition(id="\ud800"), "no JSON object", id="a surrogate as id"),
        pytest.param(ask_for_condition(**{"\ud800": 1}), "no JSON object", id="a surrogate as field"),
        pytest.param(DEEP, "no JSON object", id="deep lists"),
        pytest.param(b'{"a":' * 20_000, "no JSON object", id="deep objects"),
        pytest.param(b'{"secret": ' + DEEP + b"]" * 20_000 + b"}", "no JSON object", id="a deep list as secret"),
        pytest.param(b'{"secret": ' + b"9" * 10_000 + b"}", "no JSON object", id="a number too long to be read"),
        pytest.param(b'{"secret": 7, "request": "ping"}', "`secret` are texts", id="a number as secret"),
        pytest.param(b'{"secret": null, "request": "ping"}', "`secret` are texts", id="null as secret"),
        pytest.param(b'{"secret": "guess", "request": "ping"}', "does not hold the secret", id="a wrong secret"),
        pytest.param(b'{"request": ["ping"]}', "`request` and `secret` are texts", id="a list as request"),
        pytest.param(b"{}", "no request is called ``", id="no request"),
        pytest.param(ask("metrcs"), "no request is called `metrcs` (did you mean `metrics`?)", id="a misspelt request"),
        pytest.param(ask("x" * 900_000), "no request is called `xxx", id="a long request"),
        pytest.param(
            ask("condition add", id="a", both_ways=True, receivers=["us-1"]), "senders: is missing", id="no senders"
        ),
        pytest.param(
            ask_for_condition(senders="eu-1"), "senders: `eu-1` is no list (write `[eu-1]`)", id="a text as list"
        ),
        pytest.param(ask_for_condition(id={"a": 1}), "id: `{a: 1}` is no text", id="an object as id"),
        pytest.param(
            ask_for_condition(delay_ms=float("nan")), "delay_ms: `.nan` is no finite number", id="NaN as delay"
        ),
        pytest.param(ask_for_condition(delay_ms=[[1]]), "delay_ms: `[[1]]` is no number", id="a list as delay"),
        pytest.param(ask_for_condition(delay_ms=10**4000), "delay_ms: `1000", id="a huge delay"),
        pytest.param(ask("condition remove", name="a"), "condition remove", id="no id"),
        pytest.param(ask("reset", id=7, senders=[], receivers={}), "request `reset`", id="a reset of nothing"),
        pytest.param(ask("count bytes", senders=[1]), "request `count bytes`", id="a number as sender"),
    ],
)
def test_a_request_that_cannot_be_read_is_answered_in_a_sentence_and_the_link_goes_on(
    lab: Lab, request_line: bytes, answer: str
) -> None:
    link = lab.start()
    with connect_to_control(lab) as peer, peer.makefile("rb") as answers:
        # Two requests in one write, the second in two parts: each gets its own answer.
        peer.sendall(request_line + b"\n" + b'{"requ')
        assert answer in json.loads(answers.readline())["error"]
        peer.sendall(b'est": "ping"}\n')
        assert json.loads(answers.readline())["ok"] == {"pid": link.pid}
    assert link.state().conditions == []
    one_way_s(*lab.connect())


@pytest.mark.parametrize("byte", [b" ", b"[", b"\xff"], ids=["spaces", "brackets", "no UTF-8"])
def test_a_request_that_never_ends_is_cut_off_and_the_link_goes_on(lab: Lab, byte: bytes) -> None:
    link = lab.start()
    with connect_to_control(lab) as peer:
        with suppress(ConnectionError):
            peer.sendall(byte * 4_000_000)
        with suppress(ConnectionError):
            assert peer.recv(1) == b""
    assert link.ping() == link.pid
    one_way_s(*lab.connect())
