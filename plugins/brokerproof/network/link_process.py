"""How other processes use the link process: they start it, send requests to it, and sample its measurements."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from brokerproof.errors import InputError, NodeError, RunError
from brokerproof.experiment.yaml_models import parse
from brokerproof.machine.files import PRIVATE, write_whole
from brokerproof.machine.processes import Mark, describe_log, find_recorded_process, read_last_lines, start_and_await
from brokerproof.network.control_address import AddressOfControl, PathOfControl
from brokerproof.network.emulated_network import Effect, Metrics, State
from brokerproof.network.plan import Condition, Plan, Route
from brokerproof.run.observations import Sample, SampledMetric, Source

# The name of the link process in its mark, and the name of its directory next to those of the nodes.
NAME = "link"
PLAN_FILE = "link.json"
READY_FILE = "ready.json"
# The file with the address at which a link process in a container listens for requests.
CONTROL_FILE = "control.json"
_LOG = "log/node.log"
_ANSWER_TIMEOUT_S = 10.0
# The metrics of the traffic between two regions, which have the names of the fields of `PairMetrics`.
_TRAFFIC = (
    SampledMetric.BYTES,
    SampledMetric.HELD_BYTES,
    SampledMetric.OPEN,
    SampledMetric.OPENED,
    SampledMetric.REFUSED,
)


class LinkClient:
    """Sends requests to a run's link process, which emulates the network between regions. Faults use it.

    Each method raises InputError if its request is invalid, and NodeError if the link process does not answer. A
    runtime that emulates links in another way offers an object with the same methods.
    """

    def __init__(self, nodes: Path) -> None:
        """`nodes` is the directory of the run's nodes. Raises RunError if no link process was started."""
        self.directory = nodes.absolute() / NAME
        try:
            ready = json.loads((self.directory / READY_FILE).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise RunError(
                f"no link process was started in {self.directory}; the run has one only if its topology has links"
            ) from None
        self.pid: int = ready["pid"]
        kind: type[PathOfControl | AddressOfControl] = PathOfControl if "path" in ready["control"] else AddressOfControl
        self._control = parse(kind, ready["control"], file=READY_FILE)

    def ping(self) -> int:
        """Return the pid of the process that answers."""
        return int(self._ask("ping")["pid"])

    def routes(self) -> list[Route]:
        return [parse(Route, route, file="answer of the link process") for route in self._ask("routes")]

    def state(self) -> State:
        """Return the conditions in force, and the effects of conditions and resets."""
        return parse(State, self._ask("state"), file="answer of the link process")

    def metrics(self) -> Metrics:
        """Return the measurements. Some of them cover only the interval since the last call by any process.

        A new interval begins.
        """
        return parse(Metrics, self._ask("metrics"), file="answer of the link process")

    def add(self, condition: Condition) -> Effect:
        """Put a condition in force.

        Returns the time from which it acts, and the number of connections and listeners that it affects.
        """
        return self._effect("condition add", condition.model_dump())

    def remove(self, condition_id: str) -> Effect:
        """End a condition.

        Returns the time until which it acted, and the number of connections and listeners that it affected.
        """
        return self._effect("condition remove", {"id": condition_id})

    def reset(self, name: str, senders: Sequence[str], receivers: Sequence[str], *, both_ways: bool) -> Effect:
        """Reset every connection between one of the senders and one of the receivers.

        From then on, `state()` lists the effect of this reset under `name`.
        """
        content = {"id": name, "senders": list(senders), "receivers": list(receivers), "both_ways": both_ways}
        return self._effect("reset", content)

    def count_bytes(self, senders: Sequence[str], receivers: Sequence[str], *, both_ways: bool) -> int:
        """Return the number of bytes that reached the receivers from the senders since the network was started.

        With `both_ways`, bytes in the opposite direction count too.
        """
        content = {"senders": list(senders), "receivers": list(receivers), "both_ways": both_ways}
        return int(self._ask("count bytes", content))

    def _effect(self, request: str, content: dict[str, Any]) -> Effect:
        return parse(Effect, self._ask(request, content), file="answer of the link process")

    def _ask(self, request: str, content: dict[str, Any] | None = None) -> Any:
        try:
            with self._control.connect(_ANSWER_TIMEOUT_S) as peer:
                asked = {"request": request, "secret": self._control.secret, **(content or {})}
                peer.sendall(json.dumps(asked).encode() + b"\n")
                with peer.makefile("rb") as answers:
                    line = answers.readline()
            if not line:
                raise ConnectionError("it closed the connection")
        except OSError as error:
            raise NodeError(
                f"the link process (pid {self.pid}) does not answer `{request}`: {error}; "
                f"{describe_log(read_last_lines(self.directory / _LOG))}"
            ) from error
        answer = json.loads(line)
        if "error" in answer:
            raise InputError(answer["error"])
        return answer["ok"]


def has_link_process(nodes: Path) -> bool:
    """Return whether a link process was started for the nodes in the directory `nodes`."""
    return (nodes / NAME / READY_FILE).exists()


def list_link_process_files(plan: Plan, control: AddressOfControl) -> dict[str, str]:
    """Return {name: content} of the files that a link process in a container needs in its directory."""
    return {PLAN_FILE: plan.model_dump_json(), CONTROL_FILE: control.model_dump_json()}


def record_link_process(nodes: Path, pid: int, control: PathOfControl | AddressOfControl) -> LinkClient:
    """Record the pid and the control socket of a link process that already listens."""
    directory = nodes.absolute() / NAME
    directory.mkdir(parents=True, exist_ok=True)
    content = json.dumps({"pid": pid, "control": control.model_dump()})
    write_whole(directory / READY_FILE, content, permissions=PRIVATE)
    return LinkClient(nodes)


def start_link_process(nodes: Path, plan: Plan) -> LinkClient:
    """Start a run's link process in a session of its own, and wait until it listens for all routes.

    `nodes` is the directory with the files of the run's nodes. The link process outlives the calling process. Raises
    MachineError if an address is taken, and NodeError if the link process already runs or does not start.
    """
    nodes = nodes.absolute()
    directory = nodes / NAME
    ready, record = directory / READY_FILE, directory / "pid.json"
    if find_recorded_process(record):
        raise NodeError(f"the link process of {nodes} runs already")
    directory.mkdir(parents=True, exist_ok=True)
    ready.unlink(missing_ok=True)
    write_whole(directory / PLAN_FILE, plan.model_dump_json(indent=1))
    start_and_await(
        "the link process",
        [sys.executable, "-m", "brokerproof.network", str(directory)],
        ready.exists,
        mark=Mark(nodes, NAME),
        record=record,
        log=directory / _LOG,
    )
    return LinkClient(nodes)


def sample_links(network: LinkClient) -> list[Sample]:
    """Return samples of the traffic between regions, of the delay added by the link process, and of its CPU time.

    The metrics `added_…_ms` say how long chunks were delayed beyond the configured delay. They are missing if no chunk
    was timed since the last call. Each call begins a new interval, so only one process may call this function.
    """
    metrics = network.metrics()
    values: dict[tuple[str, str], float] = {
        (Source.LINK, SampledMetric.CPU_S): metrics.cpu_s,
        (Source.LINK, SampledMetric.LONGEST_TURN_MS): metrics.longest_turn_ms,
    }
    for pair in metrics.pairs:
        source = Source.LINK.join_name(f"{pair.sender}>{pair.receiver}")
        values |= {(source, metric): getattr(pair, metric) for metric in _TRAFFIC}
        values[source, SampledMetric.TIMED] = pair.added.count
        if pair.added.count:
            values |= {
                (source, SampledMetric.ADDED_P50_MS): pair.added.p50_ms,
                (source, SampledMetric.ADDED_P99_MS): pair.added.p99_ms,
                (source, SampledMetric.ADDED_MAX_MS): pair.added.max_ms,
            }
    return [
        Sample(at=metrics.at, source=str(source), metric=str(metric), value=str(round(value, 3)))
        for (source, metric), value in values.items()
    ]
