"""Nodes that answer anything: whoever asks them gets AdminError or "no answer", and never takes it for a good one.

All nodes of a run are HTTP servers on loopback, at the addresses and ports where the run expects them. Where only
values inside an answer are wrong, the answers come without a socket.
"""

from __future__ import annotations

import contextlib
import copy
import gzip
import inspect
import json
import re
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from brokerproof.checks import load_scenario
from brokerproof.errors import AdminError
from brokerproof.run.directory import Run
from brokerproof.runtimes.node_addresses import assign_addresses
from brokerproof.runtimes.protocols import NodeSpec
from brokerproof.systems.protocols import Administration, Coordinators, Observation
from brokerproof.systems.pulsar.addressing import BOOKIE_HTTP_PORT, BROKER_HTTP_PORT, METADATA_ADMIN_PORT
from brokerproof.systems.pulsar.admin import request
from brokerproof.systems.pulsar.observation import PulsarObservation
from brokerproof.systems.pulsar.provisioning import PulsarProvisioning
from brokerproof.systems.pulsar.system import PulsarAdministration
from seam import list_methods

ROOT = Path(__file__).parents[4]
# Addresses of a slot that no run on this machine has, and no other test.
SLOT = 198
PORTS = {"metadata": METADATA_ADMIN_PORT, "bookie": BOOKIE_HTTP_PORT, "broker": BROKER_HTTP_PORT}
EU, US = "cluster-eu", "cluster-us"
SUBSCRIPTION = "mover"
Call = Callable[[], Any]


def reply(body: bytes | str = b"", status: int = 200, **headers: object) -> bytes:
    """A whole answer."""
    content = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status} Reason", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    if "Content_Length" not in headers and "Transfer_Encoding" not in headers:
        lines.append(f"Content-Length: {len(content)}")
    return "\r\n".join([*lines, "", ""]).encode() + content


HTML = "<html><body><h1>Service Unavailable</h1></body></html>"
NOT_SERVING = "This ZooKeeper instance is not currently serving requests"
# The whole answers that every path is answered with.
BROKEN: Mapping[str, bytes] = {
    "html": reply(HTML, Content_Type="text/html"),
    "empty": reply(),
    "no content": reply(status=204),
    "null": reply("null"),
    "list": reply("[]"),
    "list of nulls": reply("[null, null]"),
    "list of objects": reply("[{}]"),
    "object without fields": reply("{}"),
    "object of nulls": reply('{"5": null, "stats": null, "session_id_to_ephemeral_paths": null}'),
    "error of ZooKeeper": reply(json.dumps({"command": "dump", "error": NOT_SERVING})),
    "number": reply("7"),
    "number as text": reply('"7"'),
    "nowhere": reply('"-1:-1"'),
    "not a number": reply("NaN"),
    "number without an end": reply("9" * 5000),
    "plain text": reply("Too many open files"),
    "half of an object": reply('{"ledgers": [{"ledgerId": 5'),
    "nested too deep": reply("[" * 100_000),
    "not UTF-8": reply(b'{"error": "\xff\xfe"}'),
    "zeros": reply(b"\x00" * 64),
    "encoding that is none": reply(HTML, Content_Type="text/plain; charset=base64"),
    "not compressed": reply("{}", Content_Encoding="gzip"),
    "compressed, without its end": reply(gzip.compress(b"{}" * 99)[:-20], Content_Encoding="gzip"),
    "accepted for later": reply("[]", status=202),
    "not modified": reply(status=304),
    "redirect to itself": reply(status=307, Location=""),
    "redirect to a read": reply(status=302, Location="/elsewhere"),
    "redirect to no URL": reply(status=307, Location="http://[::1"),
    "redirect to no port": reply(status=307, Location="http://127.0.0.1:99999999/"),
    "redirect to no host name": reply(status=307, Location=f"http://{'a' * 70}.b/"),
    "redirect to another protocol": reply(status=307, Location="file:///etc/hostname"),
    "unauthorized": reply(status=401),
    "not found": reply(HTML, status=404),
    "not found out": reply("Exception when get.KeeperErrorCode = ConnectionLoss", status=404),
    "error": reply(HTML, status=500),
    "unavailable": reply(status=503),
    "status that is none": reply(status=999),
    "closed without an answer": b"",
    "cut short": reply('{"a": 1}', Content_Length=500),
    "cut short in a chunk": reply('10\r\n{"a":', Transfer_Encoding="chunked"),
    "cut short in a header": b"HTTP/1.1 200 OK\r\nContent-Le",
    "no HTTP": b"\x15\x03\x03\x00\x02\x02\x16",
}


class Nodes:
    """All nodes of a run, sound as long as nothing is planted; they keep what is set."""

    def __init__(self, addresses: Mapping[str, str]) -> None:
        self.answers = make_sound_answers(addresses)
        self.settings: dict[str, Any] = {}
        self.broken: bytes | None = None
        self.asked: set[str] = set()

    def answer(self, method: str, target: str, body: bytes) -> bytes:
        """The bytes that are sent back."""
        if self.broken is not None:
            return self.broken
        path = target.partition("?")[0]
        if method != "GET":
            self._set(target, json.loads(body or b"null"))
            return reply(status=204)
        if path in self.settings:
            return reply(json.dumps(self.settings[path]))
        name = next((name for name in self.answers if re.search(name, path)), None)
        if name is None:
            return reply(status=404)
        self.asked.add(name)
        answer = self.answers[name]
        if "/entry/" in path:
            return reply(X_Pulsar_Message_ID=answer)
        return reply(answer if isinstance(answer, str) else json.dumps(answer))

    def _set(self, target: str, body: Any) -> None:
        path = target.partition("?")[0]
        if isinstance(body, dict) and "replication_clusters" in body:
            self.settings[f"{path}/replication"] = body["replication_clusters"]
        elif body is not None:
            self.settings[path] = body


def make_sound_answers(at: Mapping[str, str]) -> dict[str, Any]:
    """What sound nodes answer, by a pattern of the path."""
    brokers, bookies = {EU: "broker-eu-1", US: "broker-us-1"}, ["bookie-eu-1", "bookie-us-1"]
    ledger = {"state": "CLOSED", "allEnsembles": {"0": [{"id": f"{at['bookie-eu-1']}:3181"}]}}
    replicator = {"replicationBacklog": 0, "replicationDelayInSeconds": 3, "msgInCount": 40}
    cursor = {"markDeletePosition": "8:2"}
    since = "2026-11-30T20:40:00.123Z"
    consumer = {"consumerName": "audit-c0", "address": "/10.0.0.7:40312", "connectedSince": since, "unackedMessages": 0}
    racks = {
        f"{at[name]}:{port}": {"rack": f"/{region}/rack-{name[-1]}"}
        for region in ("eu", "us")
        for role, port in (("broker", 0), ("bookie", 3181))
        for name in at
        if name.startswith(f"{role}-{region}-")
    }
    return {
        "/tenants$": ["public", "pulsar", "earlier"],
        "/namespaces/earlier$": ["earlier/global"],
        "/(non-)?persistent/earlier/global(/partitioned)?$": [],
        "/racks-info$": {"default": racks},
        "/bundle$": "0x00000000_0x40000000",
        "/orders/partitions$": {"partitions": 1},
        "^/lookup/": {"brokerUrl": f"pulsar://{at['broker-eu-2']}:6650", "nativeUrl": None},
        "/internalStats$": {
            "lastConfirmedEntry": "8:2",
            "ledgers": [{"ledgerId": 5, "entries": 10}, {"ledgerId": 8, "entries": 0, "offloaded": False}],
            "cursors": {SUBSCRIPTION: cursor, f"pulsar.repl.{EU}": cursor, f"pulsar.repl.{US}": cursor},
        },
        "/stats$": {
            "msgInCounter": 100,
            "averageMsgSize": 1.5,
            "subscriptions": {SUBSCRIPTION: {"msgBacklog": 0, "msgOutCounter": 7, "consumers": [consumer]}},
            "replication": {EU: replicator, US: replicator},
        },
        "/entry/2$": "8:2",
        **{f"/brokers/{name}$": [f"{at[broker]}:8080"] for name, broker in brokers.items()},
        "/list_bookies$": {f"{at[bookie]}:3181": None for bookie in bookies},
        "/ledger/metadata/$": {"5": ledger, "8": ledger},
        "/ledger/list/$": {"5": "pulsar/managed-ledger mytenant/eu/persistent/orders"},
        "/list_under_replicated_ledger$": [5],
        "/metrics$": "bookie_WRITE_BYTES 10\nbookie_READ_BYTES 20\n",
        "/brokers/(health|ready)$": "ok",
        "/is_ready$": "OK",
        "/commands/ruok$": {"command": "ruok", "error": None},
        "/commands/leader$": {"command": "leader", "error": None, "is_leader": True, "leader_id": 1, "leader_ip": ""},
        "/commands/dump$": {
            "error": None,
            "session_id_to_ephemeral_paths": {
                "1": [f"/{name}/loadbalance/brokers/{at[broker]}:8080" for name, broker in brokers.items()],
                "2": [f"/{name}/ledgers/available/{at[bookie]}:3181" for name in brokers for bookie in bookies],
            },
        },
    }


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two clusters that replicate to each other and share a metadata store, with a subscription that moves."""
    scenario, topology = load_scenario(
        ROOT / "dags/scenarios/geo_replicated_subscription.yaml", ROOT / "topologies", {}
    )
    return Run.create(
        str(tmp_path_factory.mktemp("broken") / "run"),
        run_id="r",
        scenario=scenario,
        topology=topology,
        addresses=assign_addresses(topology, SLOT),
    )


@pytest.fixture(scope="module")
def servers(run: Run) -> Iterator[list[Nodes]]:
    """A server for each node; all of them answer what the last of the list says."""
    current: list[Nodes] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def respond(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
            with contextlib.suppress(OSError):
                self.wfile.write(current[-1].answer(self.command, self.path, body))
            # Where nothing is planted, the connection is used again.
            self.close_connection = current[-1].broken is not None

        def do_GET(self) -> None:
            self.respond()

        def do_PUT(self) -> None:
            self.respond()

        def do_POST(self) -> None:
            self.respond()

        def do_DELETE(self) -> None:
            self.respond()

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    started = []
    for name, node in run.topology.nodes.items():
        server = ThreadingHTTPServer((run.facts.addresses[name], PORTS[node.role]), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}).start()
        started.append(server)
    yield current
    for server in started:
        server.shutdown()
        server.server_close()


@pytest.fixture
def nodes(run: Run, servers: list[Nodes]) -> Nodes:
    servers[:] = [Nodes(run.facts.addresses)]
    return servers[0]


@pytest.fixture(scope="module")
def calls(run: Run) -> dict[str, Call]:
    """Everything that can be asked, by name: the methods of both parts, the samplers, the health of each role."""
    observation, provisioning = PulsarObservation(run, patience_s=2.0), PulsarProvisioning(run)
    parts: list[tuple[type, object]] = [(Administration, PulsarAdministration(run)), (Observation, observation)]
    found = {
        name: bind(getattr(part, name))
        for protocol, part in parts
        for name in list_methods(part, protocol)
        if name != "samplers"
    }
    found |= {f"sampler {name}": sampler for name, sampler in observation.samplers().items()}
    for name in ("metadata-1", "bookie-eu-1", "broker-eu-1"):
        node = run.topology.nodes[name]
        spec = NodeSpec(
            name=name, role=node.role, region=node.region, address=run.facts.addresses[name], command=("java",)
        )
        found |= {f"is_healthy {name}": bind(provisioning.is_healthy, spec=spec)}
        found |= {f"is_ready {name}": bind(provisioning.is_ready, spec=spec)}
    return found


def bind(method: Callable[..., Any], **known: Any) -> Call:
    """The method with a value for each parameter that it cannot do without."""
    values = {"cluster": EU, "subscription": SUBSCRIPTION, "partition": -1, **known}
    needed = [each.name for each in inspect.signature(method).parameters.values() if each.default is each.empty]
    return lambda: method(**{name: values[name] for name in needed})


def says_nothing(name: str, answer: Any) -> bool:
    """Whether an answer of ours says that there was none."""
    match name.split("/")[-1].split(" ")[0]:
        case "is_healthy" | "is_ready" | "has_grown":
            return not answer
        case "find_subscription_drains" | "find_replication_drains":
            return bool(answer) and all(not each.drained and each.backlog is None and each.why for each in answer)
        case "find_logs":
            return bool(answer) and all(each.end is None and each.why for each in answer)
        case "owner":
            return [value for _, _, value in answer] == [None]
    return False


def without_time(answer: Any) -> Any:
    """The answer of a method, or of a sampler without the moments of its samples."""
    return [(each.source, each.metric, each.value) for each in answer] if hasattr(answer[0], "metric") else answer


def ask(calls: Mapping[str, Call]) -> dict[str, Any]:
    """What each call answers, without those that raise AdminError. Whatever else one raises fails the test."""
    answers: dict[str, Any] = {}
    for name, call in calls.items():
        try:
            answer = call()
        except AdminError:
            continue
        except Exception as error:
            raise AssertionError(f"{name} raises {error!r}") from error
        answers[name] = without_time(answer) if isinstance(answer, list) and answer else answer
    return answers


def test_what_sound_nodes_answer_is_taken(nodes: Nodes, calls: Mapping[str, Call]) -> None:
    answers = ask(calls)
    assert answers.keys() == calls.keys()
    assert not [name for name, answer in answers.items() if says_nothing(name, answer)]
    health = [answer for name, answer in answers.items() if name.startswith(("is_healthy", "is_ready"))]
    assert health == [True] * 6
    assert (answers["find_owner"], answers["find_holders"]) == ("broker-eu-2", ["bookie-eu-1"])
    assert answers["find_coordinators"] == Coordinators(leader="metadata-1", followers=[])
    assert (answers["count_under_replicated"], answers["count_published"]) == (2, 2 * (100 - 80))
    for drains in ("find_subscription_drains", "find_replication_drains"):
        assert {each.drained for each in answers[drains]} == {True}
    assert [tuple(each.end[:2]) for each in answers["find_logs"]] == [(8, 3), (8, 3)]
    assert len(answers["find_copies"]) == 4


@pytest.mark.parametrize("kind", BROKEN)
def test_what_broken_nodes_answer_is_never_taken(nodes: Nodes, calls: Mapping[str, Call], kind: str) -> None:
    nodes.broken = BROKEN[kind].replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
    answers = {name: answer for name, answer in ask(calls).items() if not says_nothing(name, answer)}
    if nodes.broken.startswith(b"HTTP/1.1 20") and not kind.startswith("cut short"):
        # Nothing but the status says that a change was done.
        for name in ("configure", "unload", "grow"):
            answers.pop(name, None)
    # A list of brokers and an object of bookies may be empty.
    nobody = {"list": "brokers", "accepted for later": "brokers", "object without fields": "bookies"}.get(kind)
    for cluster in (EU, US) if nobody else ():
        assert answers.pop(f"sampler {cluster}/{nobody}")[0][2] == "[]"
    assert answers == {}


def walk(answer: Any, *place: str | int) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Every value inside an answer, with its place."""
    yield place, answer
    if isinstance(answer, dict | list):
        for key, value in answer.items() if isinstance(answer, dict) else enumerate(answer):
            yield from walk(value, *place, key)


def plant(answer: Any, place: tuple[str | int, ...], *value: Any) -> Any:
    """The answer with another value at a place, or without that field."""
    if not place:
        return value[0]
    changed = copy.deepcopy(answer)
    holder = changed
    for key in place[:-1]:
        holder = holder[key]
    if value:
        holder[place[-1]] = value[0]
    else:
        del holder[place[-1]]
    return changed


def list_wrong_values(place: tuple[str | int, ...], value: Any) -> list[Any]:
    """Values that cannot stand at the place of a sound one."""
    wrong: list[Any] = [None, True, 1.5, 2**70, [None], {"a": None}, "", "text", "12", "-1:-1", -1]
    kinds: dict[type, Callable[[Any], bool]] = {
        # Names, states and paths may be any text; positions, nodes and URLs may not.
        str: lambda one: not isinstance(one, str) or (":" in value and not value.startswith("/")),
        int: lambda one: one != -1 or place[-1] != "replicationDelayInSeconds",
        type(None): lambda one: one is not None and (place[0] == "error" or not isinstance(one, str)),
    }
    return [one for one in wrong if kinds.get(type(value), lambda one: True)(one)]


def make_wrong_answers(answer: Any) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Each sound answer in JSON with one value that is wrong or one field that is not there."""
    for place, value in walk(answer):
        for wrong in list_wrong_values(place, value):
            yield place, plant(answer, place, wrong)
        # Other keys are names, of which any may be missing.
        if place and isinstance(place[-1], str) and place[-1].isidentifier() and place[-1] != SUBSCRIPTION:
            yield place, plant(answer, place)


def respond_at_once(nodes: Nodes, request: httpx.Request) -> httpx.Response:
    """The answer of the nodes, for a client whose requests need no socket."""
    head, _, content = nodes.answer(request.method, request.url.raw_path.decode(), request.read()).partition(
        b"\r\n\r\n"
    )
    status, *headers = head.decode().split("\r\n")
    fields = dict(header.split(": ", 1) for header in headers)
    return httpx.Response(int(status.split()[1]), headers=fields, content=content)


@pytest.mark.parametrize(
    "name", [name for name, answer in make_sound_answers(defaultdict(str)).items() if not isinstance(answer, str)]
)
def test_one_wrong_value_is_never_taken(
    nodes: Nodes, calls: Mapping[str, Call], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", partial(respond_at_once, nodes))
    sound = nodes.answers[name]
    if name == "/commands/dump$":
        # It is asked only where the nodes themselves do not answer.
        for other in (f"/brokers/{EU}$", f"/brokers/{US}$", "/list_bookies$"):
            del nodes.answers[other]
    asking: dict[str, Call] = {}
    expected: dict[str, Any] = {}
    for what, call in calls.items():
        nodes.asked.clear()
        answer = ask({what: call})
        if name in nodes.asked:
            asking[what] = call
            expected |= answer
    assert asking
    for place, wrong in make_wrong_answers(sound):
        nodes.answers[name] = wrong
        for what, answer in ask(asking).items():
            assert says_nothing(what, answer) or answer == expected[what], (what, place, wrong)


@pytest.mark.parametrize(
    ("dump", "sentence"),
    [
        (
            {"command": "dump", "error": NOT_SERVING},
            r"GET http://127\.208\.\d+\.\d+:9990/commands/dump answered something else than expected: "
            rf"Input should be null in `error`, and `{NOT_SERVING}` came",
        ),
        (
            {"error": None, "session_id_to_ephemeral_paths": None},
            r"Input should be an object in `session_id_to_ephemeral_paths`, and `null` came",
        ),
        (HTML, r"Invalid JSON: expected value at line 1 column 1, and `<html><body>.*</html>` came"),
        ("x" * 999, r"and `x{119}…` came$"),
    ],
)
def test_what_came_instead_is_said_in_one_sentence(nodes: Nodes, run: Run, dump: Any, sentence: str) -> None:
    nodes.answers |= {f"/brokers/{EU}$": None, "/commands/dump$": dump}
    with pytest.raises(AdminError, match=sentence):
        PulsarObservation(run).list_alive()


def test_a_metadata_store_that_does_not_serve_is_not_healthy(nodes: Nodes, calls: Mapping[str, Call]) -> None:
    assert calls["is_healthy metadata-1"]()
    nodes.answers["/commands/ruok$"] = {"command": "ruok", "error": NOT_SERVING}
    assert not calls["is_healthy metadata-1"]()


@pytest.mark.parametrize(
    ("status", "text", "count"),
    [
        (404, "No under replicated ledgers found", 0),
        # With the same status, BookKeeper says that it could not find out.
        (404, "Exception when get.null", None),
        (404, "", None),
        (200, "No under replicated ledgers found", None),
        (200, "[]", None),
        (200, "[5, 8]", 4),
    ],
)
def test_no_ledger_lacks_a_copy_where_bookkeeper_says_so(
    nodes: Nodes, calls: Mapping[str, Call], status: int, text: str, count: int | None
) -> None:
    nodes.broken = reply(text, status=status)
    assert ask(calls).get("count_under_replicated") == count


def test_the_metadata_of_another_ledger_is_not_taken(nodes: Nodes, run: Run) -> None:
    del nodes.answers["/ledger/metadata/$"]["8"]
    with pytest.raises(AdminError, match=r"metadata of ledger 8 was asked for, and that of \[5\] came"):
        PulsarObservation(run).find_holders()


def test_a_topic_without_a_ledger_has_no_holders(nodes: Nodes, run: Run) -> None:
    nodes.answers["/internalStats$"]["ledgers"] = []
    with pytest.raises(AdminError, match=r"the log of /admin/v2/persistent/world/global/orders has no ledger"):
        PulsarObservation(run).find_holders()


def test_the_next_node_is_asked_where_one_gives_no_whole_answer(nodes: Nodes, run: Run, servers: list[Nodes]) -> None:
    answers = [BROKEN[kind] for kind in ("cut short", "not compressed", "cut short in a header")]
    sound = nodes.answer

    class BreaksOffFirst(Nodes):
        def answer(self, method: str, target: str, body: bytes) -> bytes:
            self.broken = answers.pop(0) if answers else None
            return self.broken or sound(method, target, body)

    servers.append(BreaksOffFirst(run.facts.addresses))
    observation = PulsarObservation(run)
    # Two brokers: the first question breaks off on both of them, the next one on the first only.
    with pytest.raises(AdminError):
        observation.find_owner(EU)
    assert observation.find_owner(EU) == "broker-eu-2"


def test_a_node_that_redirects_to_a_dead_one_is_not_said_to_be_dead() -> None:
    def answer(asked: httpx.Request) -> httpx.Response:
        if asked.url.host == "dead":
            raise httpx.ConnectError("Connection refused", request=asked)
        return httpx.Response(307, headers={"Location": f"http://dead:8080{asked.url.path}"})

    http = httpx.Client(transport=httpx.MockTransport(answer), follow_redirects=True)
    with pytest.raises(AdminError, match="http://alive/x got no answer from dead:8080, to which it was redirected"):
        request(http, "PUT", "http://alive/x")
    with pytest.raises(AdminError, match="http://dead:8080/x got no answer: Connection refused"):
        request(http, "PUT", "http://dead:8080/x")
