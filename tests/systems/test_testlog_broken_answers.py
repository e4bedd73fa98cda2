"""Log servers that answer anything: whoever asks them gets AdminError or "no answer", and never a good answer."""

from __future__ import annotations

import inspect
import socketserver
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from brokerproof.checks import load_scenario
from brokerproof.errors import AdminError
from brokerproof.run.directory import Run
from brokerproof.runtimes.node_addresses import assign_addresses
from brokerproof.runtimes.protocols import NodeSpec
from brokerproof.systems.protocols import Observation
from brokerproof.systems.registry import make_observation, make_provisioning
from seam import list_methods
from testlog.wire import FrameBuffer, Header, pack_frame
from testlog_system.cluster import PORT

SYSTEMS = Path(__file__).resolve().parent
# Addresses of a slot that no run on this machine has, and no other test.
SLOT = 196
LEADS = {"node": "server-1", "serves": True, "leader": "server-1"}
STATUS = {"node": "server-1", "role": "leader", "term": 1, "leader": "server-1", "serves": True, "member": True}
STATUS |= {"last_index": 1, "commit_index": 1}
BROKEN: Mapping[str, Any] = {
    "closed": b"",
    "no frame": b"\xff\xff\xff\xff",
    "cut short": struct.pack(">I", 99) + b"x",
    "not an object": pack_frame([]),  # type: ignore[arg-type]
    "not JSON": struct.pack(">II", 5, 1) + b"{",
    "answer to no request": pack_frame({"id": 99}),
    "nothing in it": {},
    "refused": {"error": "unknown"},
    "nobody leads": {"serves": False, "leader": None},
    "leads only": LEADS,
    "another leads": {**LEADS, "node": "nobody", "leader": "nobody"},
    "no name": {**LEADS, "node": None, "leader": ["server-1"]},
    **{
        f"{value!r} everywhere": {
            **LEADS,
            **STATUS,
            "leader": value,
            "topics": {"orders": value},
            **dict.fromkeys(("ends", "committed", "backlog"), value),
        }
        for value in (None, 1, "0", [], ["0"], [-1], [1.5], [True], [0, 0], {}, [{}])
    },
}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    monkeypatch.setenv("BROKERPROOF_SYSTEMS", "testlog=testlog_system.system:TESTLOG")
    scenario, topology = load_scenario(SYSTEMS / "scenarios" / "nominal.yaml", SYSTEMS / "topologies")
    at = assign_addresses(topology, SLOT)
    return Run.create(str(tmp_path / "run"), run_id="r", scenario=scenario, topology=topology, addresses=at)


@pytest.fixture(params=BROKEN)
def broken(request: pytest.FixtureRequest, run: Run) -> Iterator[str]:
    """Every server of the run gives one answer to everything, the name of which it is."""
    answer = BROKEN[request.param]

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            buffer = FrameBuffer()
            while received := self.request.recv(4096):
                for asked in buffer.feed(received):
                    if isinstance(answer, bytes):
                        self.request.sendall(answer)
                        return
                    header: Header = {"id": asked.header["id"], **answer}
                    self.request.sendall(pack_frame(header))

    started = []
    for address in run.facts.addresses.values():
        server = socketserver.ThreadingTCPServer((address, PORT), Handler, bind_and_activate=False)
        server.allow_reuse_address = server.daemon_threads = True
        server.server_bind()
        server.server_activate()
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}).start()
        started.append(server)
    yield request.param
    for server in started:
        server.shutdown()
        server.server_close()


def list_calls(run: Run) -> dict[str, Callable[[], Any]]:
    observation, provisioning = make_observation(run, patience_s=0.2), make_provisioning(run)
    known = {"cluster": "log", "subscription": "audit", "partition": -1}
    calls: dict[str, Callable[[], Any]] = {}
    for name in list_methods(observation, Observation):
        if name != "samplers":
            method = getattr(observation, name)
            needed = [each.name for each in inspect.signature(method).parameters.values() if each.default is each.empty]
            calls[name] = lambda method=method, needed=needed: method(**{each: known[each] for each in needed})
    calls |= {f"sampler {name}": sampler for name, sampler in observation.samplers().items()}
    spec = NodeSpec(
        name="server-1", role="server", region="here", address=run.facts.addresses["server-1"], command=("python",)
    )
    return calls | {
        "is_healthy": lambda: provisioning.is_healthy(spec),
        "is_ready": lambda: provisioning.is_ready(spec),
    }


def test_what_broken_servers_answer_is_never_taken(run: Run, broken: str) -> None:
    answers: dict[str, Any] = {}
    for name, call in list_calls(run).items():
        try:
            answers[name] = call()
        except AdminError:
            continue
    assert not answers.pop("is_healthy")
    assert not answers.pop("is_ready")
    # Some say that they lead in the words of a sound one.
    header = {} if isinstance(BROKEN[broken], bytes) else BROKEN[broken]
    assert answers.pop("find_owner", None) == ("server-1" if header.get("node") == "server-1" else None)
    drains = answers.pop("find_subscription_drains")
    assert {(each.drained, each.backlog, bool(each.why)) for each in drains} == {(False, None, True)}
    assert {(each.end, bool(each.why)) for each in answers.pop("find_logs")} == {(None, True)}
    assert answers == {}
