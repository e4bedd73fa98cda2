"""The `docker` runtime: a node is a container of the messaging system's official image, and a region is a network.

Without emulated links between regions, each node also joins the networks of the other regions, under the same name. In
the container, the node's directory is /node, and its data is on volumes. The run's directory `nodes/<name>/` has the
node's configuration and, after the run, its log. The file `nodes/containers.json` shows that the run has used Docker's
engine. Without this file, the run can end even if no engine answers.
"""

from __future__ import annotations

import errno
import logging
import re
import signal
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import requests
from docker.errors import APIError, NotFound

from brokerproof.clock import wait_until
from brokerproof.errors import MachineError, NodeError
from brokerproof.experiment.topology import Topology
from brokerproof.machine import slots
from brokerproof.machine.files import stage_file, write_whole
from brokerproof.network import LinkClient, Plan, has_link_process
from brokerproof.runtimes import engine
from brokerproof.runtimes.engine import (
    METRICS_ADDRESS,
    METRICS_PATH,
    NODE,
    REGION,
    ROLE,
    RUNNING,
    Container,
    RunInEngine,
    list_running_nodes,
    translate_engine_errors,
)
from brokerproof.runtimes.gateway import start_gateway
from brokerproof.runtimes.node_addresses import Subnet, assign_container_addresses
from brokerproof.runtimes.protocols import Addresses, NodeSpec, Program
from brokerproof.runtimes.supervised_runtime import SupervisedRuntime, pick_last_lines
from brokerproof.settings import from_environment

log = logging.getLogger(__name__)

_PROGRAM_TIMEOUT_S = 60.0
# Parts of the engine's message if another network has some of the addresses.
_TAKEN = ("overlaps", "already in use")
# The lines of a log that are read, which are enough to find errors above the last 15.
_TAIL_LINES_READ = 400
# Exit statuses of a program that SIGKILL, SIGTERM or SIGINT ended.
_ENDED_BY_SIGNAL = frozenset({128 + signal.SIGKILL, 128 + signal.SIGTERM, 128 + signal.SIGINT})
# The errors of a connection to an address at which no process listens.
_SILENCE = frozenset({errno.ECONNREFUSED, errno.ECONNRESET, errno.EHOSTUNREACH, errno.ETIMEDOUT})
# A file in a node's directory. It says how the kernel or a person ended the node before its restart.
_INTERFERENCE = "interference"


class ContainerRuntime(SupervisedRuntime):
    """The nodes of one run as containers, which outlive the process that started them."""

    # Less often than for processes, because each look is a request to the engine.
    look_every_s = 0.25

    def __init__(self, nodes: Path) -> None:
        super().__init__(nodes)
        self._in_engine = RunInEngine(self.nodes)

    @staticmethod
    def assign_addresses(topology: Topology, slot: int) -> Addresses:
        """Return addresses in the setting `container_subnets`, and ports from the setting `container_ports` upwards."""
        settings = from_environment()
        return assign_container_addresses(topology, slot, settings.container_subnets, settings.container_ports)

    def read_image_file(self, image: str, path: str) -> str:
        """Return the text of a file in the image. A container is made for this purpose, but never started."""
        self._in_engine.begin()
        with self._made(Container(name="read", image=image, command=("true",))) as container:
            return engine.read_text_file(self._in_engine.client, container, path)

    def prepare(self, spec: NodeSpec) -> None:
        """Make the network of the node's region, the node's volumes, and the node's container with the node's files."""
        self._in_engine.begin()
        directory = self.nodes / spec.name
        directory.mkdir(parents=True, exist_ok=True)
        for file, content in spec.files.items():
            path = directory / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(engine.fill(content, spec.name), encoding="utf-8")
        self._provide_network(spec.region, Subnet.around(spec.address))
        with translate_engine_errors(f"the container of node {spec.name} cannot be made"):
            self._make_node(spec)

    def _start(self, spec: NodeSpec) -> None:
        """Start the container. If all its volumes are empty, run the node's `format` program first."""
        client, name = self._in_engine.client, self._in_engine.name(spec.name)
        with translate_engine_errors(f"node {spec.name} cannot be started"):
            state = self._state(spec.name)
            if self._wanted(spec.name).exists() and (how := _tell_interference(state)):
                # Recorded now, because the engine forgets how the container ended once it is started again.
                write_whole(self.nodes / spec.name / _INTERFERENCE, how)
            if not state:
                # Somebody removed the container; the node's data is still on its volumes.
                self._require_volumes(spec)
                self._make_node(spec)
            folders = (f"{engine.HOME}/{folder}" for folder in spec.data)
            if spec.format is not None and all(engine.is_empty(client, name, folder) for folder in folders):
                self._run_for(spec, spec.format, "formats its empty volumes")
            # With links, the link process is the only way to other regions.
            if not has_link_process(self.nodes):
                self._in_engine.join_all_networks(name)
            client.start(name)

    def stop(self, name: str, *, grace_s: float) -> None:
        with self._lock(name), translate_engine_errors(f"node {name} cannot be stopped"):
            self._want_no_more(name)
            self._unpause(name)
            with engine.allow_absence():
                self._in_engine.client.stop(self._in_engine.name(name), timeout=max(1, round(grace_s)))
        self._wait_for_death(name)

    def kill(self, name: str) -> None:
        with self._lock(name), translate_engine_errors(f"node {name} cannot be killed"):
            self._want_no_more(name)
            try:
                self._in_engine.client.kill(self._in_engine.name(name))
            except APIError as error:
                state = self._state(name)
                if not state.get("Running"):
                    return
                if not state.get("Paused"):
                    raise error
                # The engine does not kill a frozen container, so it is thawed and killed at once.
                self._unpause(name)
                try:
                    self._in_engine.client.kill(self._in_engine.name(name))
                except APIError:
                    if self.is_alive(name):
                        raise
        self._wait_for_death(name)

    def pause(self, name: str) -> None:
        """Freeze the container's control group."""
        with translate_engine_errors(f"node {name} cannot be frozen"):
            self._in_engine.client.pause(self._in_engine.name(name))

    def resume(self, name: str) -> None:
        with translate_engine_errors(f"node {name} cannot go on"):
            self._unpause(name)

    def is_paused(self, name: str) -> bool:
        return bool(self._state(name).get("Paused"))

    def wipe(self, spec: NodeSpec) -> None:
        """Remove the container and its volumes, and make new ones."""
        if self.is_alive(spec.name):
            raise NodeError(f"node {spec.name} still runs, so its data was not wiped; stop it first")
        client = self._in_engine.client
        with translate_engine_errors(f"the volumes of node {spec.name} cannot be wiped"):
            engine.remove_container(client, self._in_engine.name(spec.name))
            for folder in spec.data:
                client.remove_volume(self._volume(spec.name, folder))
            self._make_node(spec)

    def reset(self, spec: NodeSpec) -> None:
        """Run the node's `reset` program in a new container that has the node's volumes."""
        if spec.reset is not None:
            with translate_engine_errors(f"node {spec.name} cannot be reset"):
                self._run_for(spec, spec.reset, "makes the cluster accept it after its disks were wiped")

    def execute(self, program: Program) -> None:
        """Run the program in a container of its own, which joins every network of the run."""
        problem = f"{program.purpose} failed"
        with translate_engine_errors(problem):
            wanted = Container(
                name="program", image=program.image, command=program.command, files=program.files, folders=("tmp",)
            )
            failure = self._run(wanted, timeout_s=program.timeout_s)
        if failure:
            raise NodeError(f"{problem}: {failure}")

    def is_alive(self, name: str) -> bool:
        return bool(self._state(name).get("Running"))

    def evidence_of_death(self, spec: NodeSpec) -> str | None:
        """Return a sentence if the container does not run and nothing answers at the node's first port; else None.

        The sentence says how the container ended. Raises OSError if it is unknown whether the port answers.
        """
        state = self._state(spec.name)
        if state.get("Running"):
            return None
        description = _describe_end(state)
        if not spec.ports:
            return description
        port = spec.ports[0]
        return f"{description}, {spec.address}:{port} does not answer" if not _answers(spec.address, port) else None

    def check_nobody_interfered(self) -> None:
        """Raises NodeError if the kernel or a person ended a node that should run, even if the node runs again."""
        for path in sorted(self.nodes.glob(f"*/{_INTERFERENCE}")):
            raise _blame_others(path.parent.name, path.read_text(encoding="utf-8"))
        for name in sorted(path.parent.name for path in self.nodes.glob("*/wanted")):
            state = self._state(name)
            if not state.get("Running") and (how := _tell_interference(state)):
                raise _blame_others(name, how)

    def start_links(self, plan: Plan) -> LinkClient:
        """Start the link process in a container that joins the network of every region."""
        with translate_engine_errors("the link between the regions cannot be started"):
            return start_gateway(self._in_engine, self.nodes, plan)

    def network(self) -> LinkClient:
        return LinkClient(self.nodes)

    def log_tail(self, name: str, lines: int = 15) -> str:
        """Return the last lines of the container's log, and above them some earlier lines that contain errors."""
        with translate_engine_errors(f"the log of node {name} cannot be read"):
            try:
                text: bytes = self._in_engine.client.logs(self._in_engine.name(name), tail=_TAIL_LINES_READ)
            except NotFound:
                return "(no log)"
        return pick_last_lines(text.decode(errors="replace"), lines)

    def release(self) -> list[str]:
        """Save the nodes' logs, and remove every container and network of the run."""
        if not self._in_engine.has_begun():
            # If the run's directory is gone, its containers can only be found by their labels.
            return [] if self.nodes.parent.exists() else self.remove_left(self.nodes.parent)
        self.end_supervision()
        with translate_engine_errors("what the run left in the engine cannot be removed"):
            containers = self._in_engine.list_containers()
            engine.ask_for_each(containers, self._end)
            self._in_engine.remove_containers()
            self._in_engine.remove_networks()
        return list_running_nodes(containers)

    def forget(self) -> None:
        """Remove the run's volumes."""
        if self._in_engine.has_begun():
            with translate_engine_errors("the run's volumes cannot be removed"):
                self._in_engine.remove_volumes()

    @staticmethod
    def require(topology: Topology) -> None:
        """Raises MachineError if no engine answers, or if the topology has links but the link process has no image."""
        client = engine.find_engine()
        if topology.links:
            engine.provide_image(client, from_environment().image, is_ours=True)

    @staticmethod
    def remove_left(below: Path | None) -> list[str]:
        """Remove objects that runs left in the engine. Their labels identify the run, even if its directory is gone."""
        if not engine.is_there():
            return []
        with translate_engine_errors("what runs left in the engine cannot be removed"):
            left = [Path(nodes) for nodes in engine.list_runs_in_engine()]
            return [
                name
                for nodes in left
                if below is None or nodes.is_relative_to(below)
                for name in _remove_all(RunInEngine(nodes))
            ]

    def _state(self, name: str) -> Mapping[str, Any]:
        """Return the engine's description of the state of a node's container; empty if the container is missing."""
        with translate_engine_errors(f"the state of node {name} cannot be read"):
            try:
                return self._in_engine.client.inspect_container(self._in_engine.name(name))["State"]
            except NotFound:
                return {}

    def _unpause(self, name: str) -> None:
        if self._state(name).get("Paused"):
            try:
                self._in_engine.client.unpause(self._in_engine.name(name))
            except APIError:
                # The node may have ended meanwhile.
                if self._state(name).get("Paused"):
                    raise

    def _wait_for_death(self, name: str) -> None:
        wait_until(lambda: not self.is_alive(name), timeout_s=10, what=f"node {name} to be gone", every_s=0.01)

    def _volume(self, node: str, folder: str) -> str:
        return self._in_engine.name(f"{node}-{re.sub(r'[^A-Za-z0-9]+', '-', folder)}")

    def _provide_network(self, region: str, subnet: Subnet) -> None:
        name = self._in_engine.name(region)
        if any(network["Name"] == name for network in self._in_engine.list_networks()):
            return
        pool = {"Subnet": str(subnet.whole), "IPRange": str(subnet.joining), "Gateway": str(subnet.gateway)}
        with translate_engine_errors(f"the network of region {region} cannot be made"):
            try:
                self._in_engine.create_network(region, pool=pool, labels={REGION: region})
            except APIError as error:
                if not any(words in str(error.explanation) for words in _TAKEN):
                    raise
                if not self._remove_who_had(subnet):
                    raise MachineError(
                        f"the network {subnet.whole} of region {region} overlaps another one of this machine; set "
                        "BROKERPROOF_CONTAINER_SUBNETS to a range that is free"
                    ) from error
                self._in_engine.create_network(region, pool=pool, labels={REGION: region})
        log.info("network %s is %s", name, subnet.whole)

    def _remove_who_had(self, subnet: Subnet) -> bool:
        """Remove all objects of an ended run whose network overlaps the subnet; return False if no such run exists."""
        going_on = {str(Path(run).absolute() / "nodes") for run in slots.list_held_runs()}
        for directory in engine.list_runs_in_engine():
            other = RunInEngine(Path(directory))
            if directory not in (str(self.nodes), *going_on) and any(
                subnet.whole.overlaps(IPv4Network(pool["Subnet"]))
                for network in other.list_networks()
                for pool in network["IPAM"]["Config"] or []
            ):
                log.warning("removing what %s left", directory)
                _remove_all(other)
                return True
        return False

    def _require_volumes(self, spec: NodeSpec) -> None:
        """Raises NodeError if a volume of the node is gone, because a new, empty volume would hide the loss of data."""
        for volume in (self._volume(spec.name, folder) for folder in spec.data):
            try:
                self._in_engine.client.inspect_volume(volume)
            except NotFound:
                raise NodeError(f"somebody outside the run removed the volume {volume} of node {spec.name}") from None

    def _make_node(self, spec: NodeSpec) -> None:
        for folder in spec.data:
            self._in_engine.client.create_volume(self._volume(spec.name, folder), labels=dict(self._in_engine.labels))
        self._in_engine.create(
            replace(
                self._describe(spec, spec.command),
                labels={NODE: spec.name, ROLE: spec.role, REGION: spec.region, **_label_metrics(spec)},
                network=self._in_engine.name(spec.region),
                address=spec.address,
                published=spec.published,
                healthcheck=_check_of(spec.health),
            )
        )

    def _describe(self, spec: NodeSpec, command: Sequence[str]) -> Container:
        """Describe a container for `command`, with the node's image, environment, files, volumes and memory limit."""
        return Container(
            name=spec.name,
            image=spec.image,
            command=command,
            environment=spec.environment,
            files=spec.files,
            folders=("tmp",),
            volumes={self._volume(spec.name, folder): folder for folder in spec.data},
            memory_mb=spec.memory_mb,
        )

    @contextmanager
    def _made(self, wanted: Container) -> Iterator[str]:
        """Make a container, yield its name, and remove it at the end of the block."""
        with translate_engine_errors(f"a container of {wanted.image} cannot be made"):
            engine.remove_container(self._in_engine.client, self._in_engine.name(wanted.name))
            container = self._in_engine.create(wanted)
        try:
            yield container
        finally:
            engine.remove_container(self._in_engine.client, container)

    def _run_for(self, spec: NodeSpec, command: Sequence[str], purpose: str) -> None:
        program = replace(self._describe(spec, command), name=f"{spec.name}-program")
        if failure := self._run(program, timeout_s=_PROGRAM_TIMEOUT_S):
            raise NodeError(f"the program of node {spec.name} that {purpose} failed: {failure}")

    def _run(self, program: Container, *, timeout_s: float) -> str:
        """Run a program in a container that joins every network of the run, and wait until the program ends.

        Returns why the program failed, or "" after success.
        """
        client = self._in_engine.client
        networks = [network["Name"] for network in self._in_engine.list_networks()]
        with self._made(replace(program, network=networks[0])) as container:
            self._in_engine.join_all_networks(container)
            client.start(container)
            try:
                status = int(client.wait(container, timeout=timeout_s)["StatusCode"])
            except requests.RequestException:
                return f"it did not end in {timeout_s:.0f} s"
            if status == 0:
                return ""
            last_lines = client.logs(container, tail=15).decode(errors="replace")
            return f"it ended with status {status}; its last lines are\n{last_lines}"

    def _end(self, container: Mapping[str, Any]) -> None:
        """Kill and remove a container. If it is a node's container, save its log first."""
        name = engine.find_name(container)
        try:
            if container["State"] == "paused":
                self._in_engine.client.unpause(name)
            if container["State"] in RUNNING:
                self._in_engine.client.kill(name)
        except APIError as error:
            # The container may have ended meanwhile. If it has not, its removal below ends it or fails.
            log.info("%s could not be killed: %s", name, error)
        if node := container["Labels"].get(NODE):
            try:
                self._keep_log(name, node)
            except OSError as error:
                # The disk may be full. The container must be removed even then.
                log.warning("the log of %s is not kept: %s", node, error)
        engine.remove_container(self._in_engine.client, name)

    def _keep_log(self, container: str, node: str) -> None:
        path = self.nodes / node / "log" / "node.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        with engine.allow_absence(), stage_file(path) as unfinished, unfinished.open("wb") as file:
            for block in self._in_engine.client.logs(container, stream=True, follow=False):
                file.write(block)


def _label_metrics(spec: NodeSpec) -> dict[str, str]:
    if spec.metrics is None:
        return {}
    port, path = spec.metrics
    return {METRICS_ADDRESS: f"{spec.address}:{port}", METRICS_PATH: path}


def _describe_end(state: Mapping[str, Any]) -> str:
    """Return how a container ended. `state` is the engine's description; empty if the container is missing."""
    if not state:
        return "no container"
    return "container not started" if state["Status"] == "created" else f"container ended with {state['ExitCode']}"


def _remove_all(run: RunInEngine) -> list[str]:
    """Remove a run's containers, networks and volumes. Returns the names of the nodes that still ran."""
    running = list_running_nodes(run.list_containers())
    run.remove_containers()
    run.remove_networks()
    run.remove_volumes()
    return running


def _check_of(health: Sequence[str]) -> dict[str, Any] | None:
    second = 10**9
    times = {"interval": 15 * second, "timeout": 10 * second, "start_period": 60 * second}
    return {"test": ["CMD", *health], "retries": 3, **times} if health else None


def _tell_interference(state: Mapping[str, Any]) -> str | None:
    """Return how the kernel or a person ended a container that does not run; None if it ended by itself."""
    if not state:
        return "its container was removed"
    if state.get("OOMKilled"):
        return "the kernel killed it, because its container had no memory left"
    code = int(state["ExitCode"])
    return f"a signal ended its container, with {code}" if code in _ENDED_BY_SIGNAL else None


def _blame_others(name: str, how: str) -> NodeError:
    return NodeError(f"somebody outside the run ended node {name}: {how}")


def _answers(address: str, port: int) -> bool:
    """Return whether a process accepts a connection at this address and port.

    Raises OSError if the network is unreachable, because then it is unknown whether a process listens there.
    """
    try:
        socket.create_connection((address, port), timeout=0.5).close()
    except OSError as error:
        if isinstance(error, TimeoutError) or error.errno in _SILENCE:
            return False
        raise
    return True
